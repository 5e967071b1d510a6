"""What stands in the environment of the process that opens a workspace never reaches a command, beyond an allowlist of names."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from limpet.runtimes.local.paths import LocalPaths
from tests.support.runtimes import NAMES, opened

pytestmark = pytest.mark.anyio

CANARY = "canary-7f3a9c-of-the-host"
PLANTED = dict.fromkeys(
    "OPENAI_API_KEY AWS_SECRET_ACCESS_KEY GITHUB_TOKEN LIMPET_PLANTED BASH_ENV ENV PROMPT_COMMAND PS4 HTTPS_PROXY".split(),
    CANARY,
)
OPENS = """
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import anyio

import limpet

async def main():
    async with limpet.open_workspace("planted", runtime=sys.argv[1], home=Path(sys.argv[2])) as box:
        result = await box.run(sys.argv[3])
        again = await box.run(sys.argv[3], env={"GIVEN": "1"})
        listed = await box.run(["env"])
        print((result.stdout + again.stdout + listed.stdout).decode(errors="replace"), result.exit_code)

anyio.run(main)
"""
ASKS = "env; export -p; set; cat /proc/self/environ /proc/1/environ 2>/dev/null; echo asked"


@pytest.mark.parametrize("name", NAMES)
async def test_what_was_planted_in_the_owners_environment_reaches_no_command(name: str, home: Path) -> None:
    async with opened(name, home):
        pass  # skips where it does not work
    owner = [sys.executable, "-c", OPENS, name, str(home), ASKS]

    done = subprocess.run(owner, env={**os.environ, **PLANTED}, capture_output=True, text=True, timeout=60, check=False)

    assert done.stdout.count("asked") >= 2, done.stderr
    assert CANARY not in done.stdout


def test_of_the_hosts_variables_a_local_command_gets_only_a_known_few(tmp_path: Path) -> None:
    usual = dict.fromkeys("PATH HOME USER LANG LC_ALL TERM TMPDIR TZ SSL_CERT_FILE".split(), "host")

    given = LocalPaths(directory=tmp_path).environment({**PLANTED, **usual, "EDITOR": "host"})

    assert {name for name, value in given.items() if value == "host"} <= usual.keys()
    assert not PLANTED.keys() & given.keys()
