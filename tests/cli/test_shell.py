"""`limpet shell` in a fresh box, driven through a pseudo-terminal as a person drives it."""

import hashlib
import os
import random
import re
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from limpet.cli.shell import surroundings
from tests.cli.conftest import PROGRAM, environment
from tests.cli.terminals import BOOT, Typist, terminal
from tests.runtimes.bubblewrap.boxes import processes_naming
from tests.support.host import eventually
from tests.support.users import again_as_an_ordinary_user

PROMPT = b"/mnt/data\x1b[0m$ "


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    """Not below pytest's own directory, which lets no box's user pass. Skips where there can be no boxes."""
    with tempfile.TemporaryDirectory(prefix="limpet-test-") as apart:
        Path(apart).chmod(0o711)
        home = Path(apart) / "home"
        tried = subprocess.run(
            [*PROGRAM, "run", "true"], capture_output=True, text=True, env=environment(home), timeout=60, check=False
        )
        if tried.returncode:
            pytest.skip(f"There are no boxes here: {tried.stderr}")
        yield home


@pytest.fixture
def typist(home: Path) -> Iterator[Typist]:
    """A fresh box's shell, at its first prompt."""
    with terminal("shell", env=environment(home, TERM="xterm-256color")) as typist:
        typist.until(PROMPT, within=BOOT)
        yield typist


def piped(home: Path, commands: bytes) -> "subprocess.CompletedProcess[bytes]":
    return subprocess.run(
        [*PROGRAM, "shell"], input=commands, capture_output=True, env=environment(home), timeout=60, check=False
    )


def test_what_is_typed_runs_and_the_shells_code_comes_back(typist: Typist) -> None:
    typist.type("echo $((40 + 2)); false\r")
    typist.until(b"\r42\r\n")
    typist.until(PROMPT)
    typist.type("exit 7\r")

    assert typist.end() == 7


def test_the_terminal_is_given_back_as_it_was(home: Path) -> None:
    with terminal("shell", env=environment(home, TERM="xterm")) as typist:
        before = typist.attributes()
        typist.until(PROMPT, within=BOOT)
        assert typist.attributes() != before
        typist.type("printf '\\033[?1049h\\033[?25l'; exit 0\r")
        assert typist.end() == 0

        assert typist.attributes() == before
        assert typist.all.endswith(b"\x1b[?25h\x1b[?1049l\x1b[0m")


def test_ctrl_d_ends_it_with_the_last_commands_code(typist: Typist) -> None:
    typist.type("(exit 5)\r")
    typist.until(PROMPT)
    typist.type(b"\x04")

    assert typist.end() == 5


def test_ctrl_c_interrupts_the_command_and_not_the_shell(typist: Typist) -> None:
    # Its own word that it runs: bash loses a signal that comes while it forks.
    typist.type("sh -c 'echo now-it-$((1)); exec sleep 100'\r")
    typist.until(b"now-it-1\r\n")
    typist.type(b"\x03")
    typist.until(PROMPT)
    typist.type("echo code $?\r")
    typist.until(b"\rcode 130\r\n")


def test_ctrl_z_stops_a_command_and_fg_goes_on_with_it(typist: Typist) -> None:
    typist.type("cat\r")
    typist.until(b"cat\r\n")
    typist.type("before\r")
    typist.until(b"before\r\nbefore\r\n")
    typist.type(b"\x1a")
    typist.until(b"Stopped")
    typist.until(PROMPT)
    typist.type("fg\r")
    typist.until(b"fg\r\n")
    # fg names the command once the line editor has let go of the terminal; what is typed before may be read by that.
    typist.until(b"cat\r\n")
    typist.type("after\r")
    typist.until(b"after\r\nafter\r\n")
    typist.type(b"\x03")
    typist.until(PROMPT)


def test_the_box_knows_the_terminals_size_and_hears_when_it_changes(typist: Typist) -> None:
    typist.type("stty size; trap 'echo changed to $(stty size)' WINCH\r")
    typist.until(b"\r30 100\r\n")
    typist.until(PROMPT)
    typist.resize(77, 22)
    typist.until(b"changed to 22 77\r\n")
    typist.type("tput cols\r")
    typist.until(b"\r77\r\n")


def test_colours_and_the_kind_of_terminal_pass(typist: Typist) -> None:
    typist.type("echo $TERM; tput setaf 1; touch f; mkdir d; ls --color=auto\r")
    shown = typist.until(PROMPT)

    assert b"xterm-256color\r\n\x1b[31m" in shown
    assert b"\x1b[01;34md\x1b[0m" in shown


def test_bytes_pass_unchanged_in_both_directions(typist: Typist) -> None:
    pasted = random.Random(1).randbytes(100_000) + "äß€😀".encode() + b"\x1c\x1c\x1c"
    typist.type(
        f"stty raw -echo; printf 'go\\n'; head -c {len(pasted)} > pasted; cat pasted; stty sane; sha256sum pasted\r"
    )
    typist.until(b"\rgo\n")
    typist.type(pasted)
    digest = hashlib.sha256(pasted).hexdigest().encode()

    assert pasted in typist.until(digest)


def test_a_terminal_that_says_nothing_of_itself_gets_a_prompt_that_every_terminal_can_show() -> None:
    assert surroundings("box", {}) == surroundings("box", {"TERM": "xterm"})
    plain = r"box:\w\$ "
    assert surroundings("box", {"TERM": "dumb", "HOME": "/x"}) == {"TERM": "dumb", "PS1": plain}
    assert surroundings("box", {"TERM": "xterm", "NO_COLOR": "1"}) == {"TERM": "xterm", "NO_COLOR": "1", "PS1": plain}


def test_a_box_that_dies_ends_with_125_and_says_so_on_a_terminal_that_works(home: Path) -> None:
    with terminal("shell", env=environment(home, TERM="xterm")) as typist:
        before = typist.attributes()
        typist.until(PROMPT, within=BOOT)
        (record,) = (home / "run").glob("*.json")
        agent = int(re.findall(r'"pid": (\d+)', record.read_text())[0])
        os.kill(agent, signal.SIGKILL)

        assert typist.end() == 125
        # Whether its end is heard first or the next question fails first.
        assert re.search(
            rb"\nlimpet: The sandbox is gone\. It(s agent does not answer any more| ended)\.\r\n", typist.all
        )
        assert typist.attributes() == before


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_ends_the_shell_and_its_box_and_gives_the_terminal_back(home: Path, number: signal.Signals) -> None:
    with terminal("shell", env=environment(home, TERM="xterm")) as typist:
        before = typist.attributes()
        typist.until(PROMPT, within=BOOT)
        typist.process.send_signal(number)

        assert typist.end() == 128 + number
        assert typist.attributes() == before
    assert list((home / "run").iterdir()) == []
    eventually(lambda: not processes_naming(str(home)))


def test_without_a_terminal_commands_come_from_standard_input(home: Path) -> None:
    done = piped(home, "echo ü; echo err >&2; tty; exit 3\necho never".encode())

    assert (done.returncode, done.stdout, done.stderr) == (3, "ü\nnot a tty\n".encode(), b"err\n")


def test_a_file_and_nothing_at_all_can_be_standard_input(home: Path, tmp_path: Path) -> None:
    (tmp_path / "script").write_text("read line\nfrom the file\necho got $line\n")
    codes = {}
    for name, file in (("script", tmp_path / "script"), ("null", Path(os.devnull))):
        with file.open() as stdin:
            codes[name] = subprocess.run(
                [*PROGRAM, "shell"], stdin=stdin, capture_output=True, env=environment(home), timeout=60, check=False
            )
    assert (codes["script"].returncode, codes["script"].stdout) == (0, b"got from the file\n")
    assert (codes["null"].returncode, codes["null"].stdout, codes["null"].stderr) == (0, b"", b"")


def test_a_pipe_answers_while_it_stays_open_and_ends_with_the_shell(home: Path) -> None:
    with subprocess.Popen(
        [*PROGRAM, "shell"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment(home)
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"echo one\n")
        process.stdin.flush()
        assert process.stdout.readline() == b"one\n"
        process.stdin.write(b"echo two; exit 9\n")
        process.stdin.flush()

        assert process.stdout.read() == b"two\n"
        assert process.wait(timeout=20) == 9


def test_a_shell_in_a_runtime_without_terminals_is_refused(home: Path) -> None:
    with terminal("shell", "--runtime", "memory", env=environment(home)) as typist:
        assert typist.end() == 1
        assert b"limpet: The runtime memory does not offer " in typist.all


def test_local_needs_to_be_meant(home: Path) -> None:
    with terminal("shell", "--runtime", "local", env=environment(home)) as typist:
        assert typist.end() == 2
        assert b"--unsafe-local" in typist.all


def test_an_ordinary_user_has_the_same_shell() -> None:
    again_as_an_ordinary_user(__file__, "-k", "typed or ctrl_z or size or bytes or dies or signal or pipe")
