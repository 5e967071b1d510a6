"""Clients that the project does not depend on, installed once for each set of versions into a cache of the user's.

Node packages by npm, Python clients into virtual environments of their own, since some of them want other versions of what the
project uses. Where they cannot be installed the tests are skipped, with the reason in words.
"""

import fcntl
import hashlib
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

HERE = Path(__file__).parent
INSTALL_SECONDS = 300
NODE_MAJOR = 22  # the oldest that the newest clients run on


def node_clients() -> Path:
    """A directory with the packages of `node/package.json` in node_modules. Skips the test where npm cannot bring them."""
    wanted = (HERE / "node/package.json").read_bytes()
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("npm is not on the PATH, and the Node clients come by it")

    def install(directory: Path) -> None:
        (directory / "package.json").write_bytes(wanted)
        _run([npm, "install", "--no-audit", "--no-fund", "--no-package-lock", "--ignore-scripts"], directory)

    return _installed("node", wanted, install)


def python_client(*requirements: str) -> Path:
    """The interpreter of an environment with these pinned requirements. Skips the test where they cannot be installed."""

    def install(directory: Path) -> None:
        uv = shutil.which("uv")
        if uv is not None:
            _run([uv, "venv", "--quiet", "--python", sys.executable, "venv"], directory)
            _run([uv, "pip", "install", "--quiet", "--python", "venv/bin/python", *requirements], directory)
            return
        _run([sys.executable, "-m", "venv", "venv"], directory)
        _run(["venv/bin/python", "-m", "pip", "install", "--quiet", *requirements], directory)

    named = " ".join(requirements).encode()
    return _installed(requirements[0].partition("=")[0], named, install) / "venv/bin/python"


def node() -> str:
    """A Node that is new enough: the machine's, else the one beside the clients."""
    found = shutil.which("node")
    if found is not None and _major(found) >= NODE_MAJOR:
        return found
    kind = {"x86_64": "x64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    beside = node_clients() / f"node_modules/node-linux-{kind}/bin/node"
    if not beside.exists():
        pytest.skip(f"there is no Node {NODE_MAJOR} for this machine ({kind})")
    return str(beside)


def _major(program: str) -> int:
    said = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=30, check=False).stdout
    return int(said.strip().removeprefix("v").partition(".")[0] or 0)


def _installed(name: str, wanted: bytes, install: Callable[[Path], None]) -> Path:
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "limpet-test-clients"
    directory = root / f"{name}-{hashlib.sha256(wanted).hexdigest()[:12]}"
    with _locked(root / f"{directory.name}.lock"):
        if not (directory / "complete").exists():
            shutil.rmtree(directory, ignore_errors=True)
            directory.mkdir(parents=True)
            install(directory)
            (directory / "complete").touch()
    return directory


@contextmanager
def _locked(file: Path) -> Iterator[None]:
    """One process at a time: each worker of the tests comes here."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


def _run(command: Sequence[str], directory: Path) -> None:
    try:
        done = subprocess.run(
            command, cwd=directory, capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        pytest.skip(f"{command[0]} did not install the clients within {INSTALL_SECONDS} s")
    if done.returncode != 0:
        words = done.stderr.strip().splitlines()[-1:] or ["it gave no reason"]
        pytest.skip(f"the clients cannot be installed here: {words[0][:300]}")
