import hashlib
import os
import pty
import select
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.cli.conftest import PROGRAM, Limpet, environment
from tests.support.fetching import fetching
from tests.support.homes import home_apart

LOCAL = ("run", "--runtime", "local", "--unsafe-local")


def test_output_goes_to_its_own_stream_and_the_exit_code_comes_back(limpet: Limpet) -> None:
    done = limpet(*LOCAL, "--", "echo out; echo err >&2; exit 3")
    assert (done.returncode, done.stdout, done.stderr) == (3, "out\n", "err\n")


def test_several_words_are_a_program_and_its_arguments(limpet: Limpet) -> None:
    done = limpet(*LOCAL, "printf", "%s|", "a b", "$HOME", "--help")
    assert (done.returncode, done.stdout) == (0, "a b|$HOME|--help|")


def test_a_timeout_ends_with_124_and_keeps_what_was_printed(limpet: Limpet) -> None:
    done = limpet(*LOCAL, "--timeout", "0.3", "--", "echo begun; sleep 60")
    assert (done.returncode, done.stdout) == (124, "begun\n")


def test_a_program_that_is_not_there_ends_with_127(limpet: Limpet) -> None:
    assert limpet(*LOCAL, "--", "no-such-program-at-all").returncode == 127


def test_standard_input_reaches_the_command(limpet: Limpet) -> None:
    assert limpet(*LOCAL, "--", "cat", stdin="for the box").stdout == "for the box"


@pytest.mark.parametrize("runtime", [LOCAL, ("run",)], ids=["local", "bubblewrap"])
def test_much_input_of_every_byte_arrives_as_it_is(runtime: tuple[str, ...]) -> None:
    sent = bytes(range(256)) * 40_000
    with home_apart() as home:
        done = subprocess.run(
            [*PROGRAM, *runtime, "--", "sha256sum; echo done"],
            input=sent, capture_output=True, env=environment(home), timeout=60, check=False,
        )  # fmt: skip
    assert done.stdout.decode() == f"{hashlib.sha256(sent).hexdigest()}  -\ndone\n", done.stderr


def test_a_file_is_read_from_where_it_stands(tmp_path: Path) -> None:
    (tmp_path / "in").write_text("first\nsecond\n")
    done = shell(tmp_path, '{ read x; "$@" run --runtime local --unsafe-local -- cat; } < in')
    assert (done.stdout, done.stderr) == ("second\n", "")


def test_input_that_comes_bit_by_bit_is_passed_on_while_the_command_runs(tmp_path: Path) -> None:
    answers = [*PROGRAM, *LOCAL, "--", 'read a; echo "got $a"; read b; echo "got $b"']
    with subprocess.Popen(
        answers, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment(tmp_path / "home")
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for word in (b"one", b"two"):
            process.stdin.write(word + b"\n")
            process.stdin.flush()
            assert process.stdout.readline() == b"got " + word + b"\n"
        # Its input is still open: a command that ends does not wait for more.
        assert process.wait(timeout=10) == 0


@pytest.mark.parametrize("redirection", ["</dev/null", "<&-", "<&- >&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize("options", ["--runtime local --unsafe-local", "--runtime memory"])
def test_without_input_the_command_reads_its_end_and_nothing_is_said(
    tmp_path: Path, options: str, redirection: str
) -> None:
    done = shell(tmp_path, f'"$@" run {options} -- "cat; echo read" {redirection}')
    expected = "" if ">&-" in redirection else "read\n"
    assert (done.returncode, done.stdout, done.stderr) == (0, expected, "")


def test_a_command_on_a_terminal_reads_what_is_typed(tmp_path: Path) -> None:
    with typing_at([*PROGRAM, *LOCAL, "--", "cat; echo over"], environment(tmp_path / "home")) as (keyboard, shown):
        os.write(keyboard, b"typed\n")
        assert b"typed\r\ntyped\r\n" in shown(b"typed\r\ntyped\r\n")
        os.write(keyboard, b"\x04")
        assert b"over" in shown(b"over\r\n")


def test_a_job_in_the_background_of_a_terminal_is_not_stopped_by_it(tmp_path: Path) -> None:
    program = " ".join(shlex.quote(word) for word in (*PROGRAM, *LOCAL))
    script = f"set -m; {program} -- 'sleep 0.5; echo ended' & wait $!; echo code $?"
    with typing_at(["bash", "-c", script], environment(tmp_path / "home")) as (_, shown):
        assert b"ended\r\n" in shown(b"code 0\r\n")


def test_a_runtime_that_takes_no_input_says_that_it_was_not_read(limpet: Limpet) -> None:
    done = limpet("run", "--runtime", "memory", "--", "cat; echo ran", stdin="for nothing")
    assert (done.returncode, done.stdout) == (0, "ran\n")
    assert done.stderr == "limpet: the runtime memory takes no standard input; it was not read.\n"


@pytest.fixture
def apart() -> Iterator[dict[str, str]]:
    """The variable of a home that boxes can have their things in."""
    with home_apart() as home:
        yield {"LIMPET_HOME": str(home)}


def test_a_host_that_is_not_allowed_is_refused_with_those_that_are(limpet: Limpet, apart: dict[str, str]) -> None:
    asked = f"{fetching('http://evil.example/')}; getent hosts good.example a.wide.example wide.example evil.example"
    done = limpet("run", "--allow", "good.example", "--allow-host", "*.wide.example", "--", asked, **apart)
    refusal, *names = done.stdout.splitlines()
    assert refusal == (
        "Blocked by network policy: evil.example is not a host that this container may reach. "
        "Allowed: good.example, *.wide.example. Do not retry: the answer will be the same."
    ), done.stderr
    assert [name.split() for name in names] == [["198.18.0.1", "good.example"], ["198.18.0.1", "a.wide.example"]]


def test_without_an_allowed_host_there_is_no_door(limpet: Limpet, apart: dict[str, str]) -> None:
    done = limpet("run", "--", "env | grep -ci _proxy; getent hosts good.example; echo $?", **apart)
    assert (done.returncode, done.stdout) == (0, "0\n2\n"), done.stderr


def test_open_means_every_name_and_still_no_address(limpet: Limpet, apart: dict[str, str]) -> None:
    asked = f"{fetching('http://10.0.0.1/')}; getent hosts any.example"
    done = limpet("run", "--allow", "open", "--", asked, **apart)
    assert "addresses cannot be reached, only names" in done.stdout, done.stderr
    assert done.stdout.endswith(" any.example\n")


@pytest.mark.parametrize(
    "words, says",
    [
        (("--allow", "*"), "every host"),
        (("--allow", "https://good.example"), "is a URL"),
        (("--allow", "1.1.1.1"), "is an address"),
        (("--allow", "open", "--allow", "good.example"), "stands alone"),
        (("--runtime", "memory", "--allow", "good.example"), "network_policy"),
        (("--runtime", "local", "--unsafe-local", "--allow", "good.example"), "network_policy"),
    ],
)
def test_what_cannot_be_allowed_is_refused_in_one_line_and_nothing_runs(
    limpet: Limpet, words: tuple[str, ...], says: str
) -> None:
    done = limpet("run", *words, "--", "echo ran")
    assert (done.returncode in (1, 2), done.stdout, says in done.stderr, done.stderr.count("\n")) == (
        True,
        "",
        True,
        1,
    ), done.stderr


def test_the_module_is_the_program(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "limpet", "--help"],
        capture_output=True, text=True, env=environment(tmp_path / "home"), timeout=30, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout.split()[:2]) == (0, ["Usage:", "limpet"])


def shell(directory: Path, script: str) -> "subprocess.CompletedProcess[str]":
    """bash with this script; `"$@"` in it is the program."""
    return subprocess.run(
        ["bash", "-c", script, "bash", *PROGRAM],
        cwd=directory, capture_output=True, text=True, env=environment(directory / "home"), timeout=30, check=False,
    )  # fmt: skip


@contextmanager
def typing_at(words: Sequence[str], env: Mapping[str, str]) -> Iterator[tuple[int, Callable[[bytes], bytes]]]:
    """A program on a terminal of its own: what to write keys to, and what shows the screen once it has these bytes."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvpe(words[0], list(words), dict(env))
    screen = bytearray()

    def shown(wanted: bytes) -> bytes:
        until = time.monotonic() + 10
        while wanted not in screen and time.monotonic() < until:
            with suppress(OSError):
                if select.select([terminal], [], [], 0.2)[0]:
                    screen.extend(os.read(terminal, 4096))
        return bytes(screen)

    try:
        yield terminal, shown
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(terminal)


def test_local_needs_to_be_meant(limpet: Limpet) -> None:
    done = limpet("run", "--runtime", "local", "--", "true")
    assert (done.returncode, "--unsafe-local" in done.stderr) == (2, True)


@pytest.mark.parametrize("name, word", [("microsandbox", "not built yet"), ("dokcer", "not a runtime")])
def test_a_runtime_that_is_not_there_is_refused(limpet: Limpet, name: str, word: str) -> None:
    done = limpet("run", "--runtime", name, "--", "true")
    assert (done.returncode, word in done.stderr) == (2, True)


def test_a_reader_that_leaves_stops_the_command() -> None:
    program = Path(sys.executable).parent / "limpet"
    pipe = 'set -o pipefail; "$0" run --runtime local --unsafe-local -- yes | head -n 1'
    done = subprocess.run(["bash", "-c", pipe, program], capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (141, "y\n", "")
