"""`limpet mcp` as a person meets it: without its packages, and started in a terminal."""

import os
import pty
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.conftest import environment
from tests.mcp.conftest import LIMPET, program
from tests.mcp.test_endings import HANDSHAKE, send

# Keeps one package from being found, as where it is not installed, and starts the program.
WITHOUT = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == package:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

package = sys.argv.pop(1)
sys.meta_path.insert(0, Missing())
from limpet.cli import main
main()
"""


@pytest.mark.parametrize("package", ["mcp", "starlette", "uvicorn", "httptools", "httpx2"])
def test_without_its_packages_it_names_the_extra_that_brings_them(home: Path, package: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, package, "mcp"], env=environment(home), stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    assert (package in done.stderr, 'pip install "limpet[mcp]"' in done.stderr) == (True, True)
    assert done.stderr.count("\n") == 1


def test_in_a_terminal_it_says_that_it_waits_for_a_client_and_to_a_client_nothing(home: Path) -> None:
    master, slave = pty.openpty()
    command = [LIMPET, "mcp", "--runtime", "memory"]
    process = subprocess.Popen(
        command, env=environment(home), stdin=slave, stdout=subprocess.PIPE, stderr=slave, start_new_session=True
    )
    os.close(slave)
    seen, until = b"", time.monotonic() + 30
    try:
        while b"Ctrl-C ends it." not in seen and time.monotonic() < until:
            if select.select([master], [], [], 1.0)[0]:
                seen += os.read(master, 4096)
    finally:
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=20)
        os.close(master)
    assert b"waits for an MCP client" in seen
    assert out == b""

    done = subprocess.run(command, env=environment(home), input=b"", capture_output=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == (b"", b"")


def test_what_it_runs_is_on_record_on_standard_error(home: Path) -> None:
    asked = {
        "jsonrpc": "2.0",
        "id": 2,
        "method": "tools/call",
        "params": {"name": "Bash", "arguments": {"command": "echo hi"}},
    }
    with program(home, "--runtime", "memory") as process:
        send(process, id=1, method="initialize", params=HANDSHAKE)
        assert process.stdout is not None
        process.stdout.readline()
        send(process, method="notifications/initialized")
        send(process, **{name: value for name, value in asked.items() if name != "jsonrpc"})
        process.stdout.readline()
        _, err = process.communicate(timeout=20)
    (line,) = [line for line in err.decode().splitlines() if "shell_audit" in line]
    assert all(word in line for word in ('command="echo hi"', "exit_code=0", 'cwd="/mnt/data"', "stdout_bytes=3"))
