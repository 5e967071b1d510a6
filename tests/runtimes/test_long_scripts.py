"""A script that is longer than one argument may be runs as `bash -c` would run it, wherever a script runs."""

import random
from collections.abc import AsyncIterator, Callable

import anyio
import pytest

from limpet.core.command import Exited, Terminal
from limpet.guard.policy.policy import Policy
from limpet.tools.bash.config import BashConfig
from limpet.tools.bash.tool import BashTool
from limpet.workspace.opening import WorkspaceOptions, open_in
from limpet.workspace.workspace import Workspace
from tests.support.homes import home_apart
from tests.support.runtimes import opened

pytestmark = pytest.mark.anyio
LINE = "a line of a text that a model writes into a file, with 'quotes', $(no) command and \u00e9\n"
SIZES = [130_000, 131_072, 200_000, 250_000, 1_500_000]
AFTER = "\ncat\necho $0 $# $- [$BASH_SOURCE] $LINENO ${#BASH_EXECUTION_STRING}\ntrap 'echo bye' EXIT\nnope\nexit 7\n"


def text_of(size: int) -> str:
    return LINE * (size // len(LINE.encode()) + 1)


@pytest.fixture(params=["local", "bubblewrap"])
async def box(request: pytest.FixtureRequest) -> AsyncIterator[Workspace]:
    with home_apart() as home:
        async with opened(request.param, home) as runtime, open_in(runtime) as box:
            yield box


@pytest.mark.parametrize("size", SIZES)
async def test_it_runs_as_a_short_one_does(box: Workspace, size: int) -> None:
    text = text_of(size)
    script = f"cat > f <<'E'\n{text}E{AFTER}"
    short = await box.run(f"cat > g <<'E'\nE{AFTER}", stdin=b"given\n", env={"A": "b"})

    result = await box.run(script, stdin=b"given\n", env={"A": "b"})

    lines = text.count("\n")
    said = short.stdout.split()
    name = said[1].decode()
    assert (said[5], result.exit_code, short.exit_code) == (b"4", 7, 7)
    assert result.stdout.split() == [*said[:5], b"%d" % (4 + lines), b"%d" % len(script), b"bye"]
    assert result.stderr.decode() == f"{name}: line {6 + lines}: nope: command not found\n"
    assert await box.files.read("f") == text.encode()


async def test_it_leaves_no_trace_in_variables_and_descriptors(box: Workspace) -> None:
    rest = "\nenv | sort; compgen -v | grep -c LIMPET_ROOM; compgen -v | grep BASH_ENV; echo $(ls /proc/$$/fd)\n"
    short = await box.run(f": '{rest}'{rest}")

    long = await box.run(f": '{'x' * 200_000}'{rest}")

    assert (long.stdout, long.stderr) == (short.stdout, short.stderr)


async def test_a_syntax_error_stops_what_follows_it(box: Workspace) -> None:
    result = await box.run(f"echo before\n: '{text_of(200_000).replace(chr(39), '')}'\nif\n")

    assert (result.stdout, result.exit_code) == (b"before\n", 2)
    assert b"-c: line " in result.stderr
    assert b"syntax error: unexpected end of file" in result.stderr


async def test_it_ends_at_its_time_and_the_next_command_runs(box: Workspace) -> None:
    result = await box.run(f": '{'x' * 200_000}'\nsleep 60", timeout=0.5)

    assert "TimedOut" in repr(result.outcome)
    assert (await box.run("echo next")).stdout == b"next\n"


@pytest.mark.parametrize("size", [140_000, 1_500_000])
async def test_it_runs_on_a_terminal_too(box: Workspace, size: int) -> None:
    text = text_of(size)
    process = await box.spawn(f"cat > f <<'E'\n{text}E\ntest -t 0 -a -t 1 && echo a terminal; exit 4", pty=Terminal())

    with anyio.fail_after(20):
        assert b"".join([chunk.data async for chunk in process.output()]) == b"a terminal\r\n"
        assert await process.wait() == Exited(4)
    assert await box.files.read("f") == text.encode()


ENVIRONMENTS = [
    {"BASH_ENV": "/mnt/data/begin"},
    {"BASH_ENV": "/mnt/data/none"},
    {"BASH_ENV": ""},
    {"POSIXLY_CORRECT": "y"},
    {"BASH_ENV": "/mnt/data/begin", "POSIXLY_CORRECT": ""},
]


@pytest.mark.parametrize(
    "env", ENVIRONMENTS, ids=lambda env: " ".join(f"{name}={value}" for name, value in env.items())
)
async def test_what_bash_does_before_a_script_it_does_before_a_long_one(box: Workspace, env: dict[str, str]) -> None:
    data = (await box.run("pwd -P")).stdout.decode().strip()
    env = {name: value.replace("/mnt/data", data) for name, value in env.items()}
    await box.files.write("begin", b"echo begun $0 $#; begun() { echo function; }; set -- x; set -f\n")
    rest = "\nbegun; echo $# $- $SHELLOPTS ${BASH_ENV-none} ${POSIXLY_CORRECT-none}; env | grep -E 'BASH_ENV|POSIX'; echo *\n"
    short = await box.run(f": ''{rest}", env=env)

    long = await box.run(f": '{'x' * 200_000}'{rest}", env=env)

    assert (long.stdout, long.stderr, long.exit_code) == (short.stdout, short.stderr, short.exit_code)


async def test_a_file_of_bash_env_may_end_the_shell(box: Workspace) -> None:
    data = (await box.run("pwd -P")).stdout.decode().strip()
    await box.files.write("begin", b"echo ends; exit 5\n")

    long = await box.run(f": '{'x' * 200_000}'\necho never", env={"BASH_ENV": f"{data}/begin"})

    assert (long.stdout, long.exit_code) == (b"ends\n", 5)


@pytest.mark.parametrize("size", [200_000, 1_500_000])
async def test_a_background_task_runs_it_and_ends_in_time(box: Workspace, size: int) -> None:
    script = f"cat > f <<'E'\n{text_of(size)}E\nwc -c < f; echo word >&2"
    one, other = (f"{random.randrange(10**7, 10**8)}" for _ in range(2))  # `local` sees what other tests run
    async with BashTool(box) as bash:
        begun = await bash.call({"command": f"{script}; exit 3", "run_in_background": True})
        ended = await bash.call({"task_id": begun["task_id"], "wait": True})
        sleeps = await bash.call({"command": f"{script}; sleep {one} & sleep {other}", "run_in_background": True})
        killed = await bash.call({"task_id": sleeps["task_id"], "kill": True})
        left = await bash.call({"command": f"pgrep -f '[s]leep ({one}|{other})'"})

    assert (ended["stdout"].split(), ended["stderr"], ended["exit_code"]) == (
        [str(len(text_of(size).encode()))], "word\n", 3,
    )  # fmt: skip
    assert begun["pid"] > 0
    assert killed["is_running"] is False
    assert left["exit_code"] == 1


@pytest.mark.parametrize("size", [200_000, 1_500_000])
async def test_the_bash_tool_runs_it_and_the_session_moves(box: Workspace, size: int) -> None:
    async with BashTool(box) as bash:
        ran = await bash.call({"command": f"mkdir d; cd d; cat > f <<'E'\n{text_of(size)}E\nwc -c < f; exit 3"})
        after = await bash.call({"command": "pwd"})

    assert (ran["stdout"].split(), ran["stderr"], ran["exit_code"]) == ([str(len(text_of(size).encode()))], "", 3)
    assert after["stdout"].endswith("/data/d\n")


def in_sh(text: str) -> str:
    return f"cat > f <<'E'\n{text}E\nwc -c < f; echo $0 $#; ls /proc/self/fd | wc -l; mkdir -p d; cd d; nope\nexit 3\n"


def in_python(text: str) -> str:
    return f"import sys, os\nprint(len({text!r}.encode()), sys.argv, __name__)\nos.makedirs('d', exist_ok=True); os.chdir('d'); sys.exit(3)"


@pytest.mark.parametrize("shell, written", [("/bin/sh", in_sh), ("/usr/bin/python3", in_python)])
async def test_another_shell_runs_it_too(box: Workspace, shell: str, written: Callable[[str], str]) -> None:
    text = text_of(1_500_000)
    length = str(len(text.encode()))
    async with BashTool(box, config=BashConfig(shell=shell)) as bash:
        short = await bash.call({"command": written("x\n")})
        ran = await bash.call({"command": written(text), "cwd": box.directory})
        begun = await bash.call({"command": written(text), "run_in_background": True, "cwd": box.directory})
        ended = await bash.call({"task_id": begun["task_id"], "wait": True})

    assert ran["stdout"] == short["stdout"].replace("2", length, 1)
    assert (ran["exit_code"], ran["cwd"]) == (ended["exit_code"], box.directory) == (3, box.directory)
    assert short["next_cwd"].endswith("/d")
    assert ("nope" in ran["stderr"]) is (shell == "/bin/sh")
    assert ended["stdout"].split()[0] == length


async def test_a_shell_of_which_nothing_is_known_refuses_it_in_words(box: Workspace) -> None:
    async with BashTool(box, config=BashConfig(shell="/usr/bin/perl")) as bash:
        refused = await bash.call({"command": f"# {'x' * 200_000}"})

    assert "too long" in refused["error"]["message"]


@pytest.mark.parametrize("policy", [Policy(allowed_commands=frozenset({"cat", "wc"})), Policy(allowed_paths=())])
@pytest.mark.parametrize("runtime", ["local", "bubblewrap"])
async def test_it_is_judged_and_runs_behind_walls(runtime: str, policy: Policy) -> None:
    with home_apart() as home:
        async with opened(runtime, home) as made, open_in(made, rules=WorkspaceOptions(policy=policy)) as box:
            result = await box.run(f"cat <<'E' | wc -c\n{text_of(1_500_000)}E\n")

    assert result.stdout.split() == [b"%d" % len(text_of(1_500_000).encode())]


async def test_the_memory_runtime_takes_it_too() -> None:
    with home_apart() as home:
        async with opened("memory", home) as made, open_in(made) as box:
            result = await box.run(f"cat > f <<'E'\n{'y' * 200_000}\nE\nwc -c < f")

    assert result.stdout.split() == [b"200001"]
