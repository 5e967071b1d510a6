"""Runs the program as a person would: in a process of its own, with an empty home and none of our variables."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Limpet = Callable[..., "subprocess.CompletedProcess[str]"]
PROGRAM = (sys.executable, "-c", "from limpet.cli import main; main()")


def environment(home: Path, **more: str) -> dict[str, str]:
    """This process's environment without any setting of ours or of a provider."""
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("LIMPET_", "OPENAI_", "ANTHROPIC_"))
    }
    return {**kept, "LIMPET_HOME": str(home), **more}


@pytest.fixture
def limpet(tmp_path: Path) -> Limpet:
    """`limpet("run", "true", stdin="…", VARIABLE="…")`: the finished process, its output as text."""

    def run(*args: str, stdin: str = "", **variables: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [*PROGRAM, *args],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
            cwd=tmp_path,
            env=environment(tmp_path / "home", **variables),
        )

    return run
