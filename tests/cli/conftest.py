"""Runs the program as a person would: in a process of its own, with an empty home and none of our variables.

Where nothing is piped to it, it is forked from one that was loaded before (tests/support/prepared.py). That a fresh interpreter does the
the same is proved where `PROGRAM` is used.
"""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.prepared import ran

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
        env = environment(tmp_path / "home", **variables)
        if not stdin:
            return ran(args, env=env, directory=tmp_path)
        return subprocess.run(
            [*PROGRAM, *args],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
            cwd=tmp_path,
            env=env,
        )

    return run
