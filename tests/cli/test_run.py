import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Limpet

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


def test_standard_input_is_empty(limpet: Limpet) -> None:
    assert limpet(*LOCAL, "--", "cat", stdin="not for the box").stdout == ""


def test_local_needs_to_be_meant(limpet: Limpet) -> None:
    done = limpet("run", "--runtime", "local", "--", "true")
    assert (done.returncode, "--unsafe-local" in done.stderr) == (2, True)


@pytest.mark.parametrize("name, word", [("docker", "not built yet"), ("dokcer", "not a runtime")])
def test_a_runtime_that_is_not_there_is_refused(limpet: Limpet, name: str, word: str) -> None:
    done = limpet("run", "--runtime", name, "--", "true")
    assert (done.returncode, word in done.stderr) == (2, True)


def test_a_reader_that_leaves_stops_the_command() -> None:
    program = Path(sys.executable).parent / "limpet"
    pipe = 'set -o pipefail; "$0" run --runtime local --unsafe-local -- yes | head -n 1'
    done = subprocess.run(["bash", "-c", pipe, program], capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (141, "y\n", "")
