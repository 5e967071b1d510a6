"""A box of bubblewrap in which generated scripts may run: no network, the host's programs read-only, and in the place of the forbidden
program one that only leaves a mark. Nothing of the host can be written, and what runs in it ends with it."""

import json
import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import anyio
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream

from tests.guard.fuzz.expand import FORBIDDEN

# It only builds on itself: it must leave its mark in the emptiest environment. FORBIDDEN under any of its names.
STAND_IN = "#!/bin/sh\n: > /mark/ran\n"
# busybox has a program of its own under the forbidden name; here its applets are the programs of the same names.
APPLETS = '#!/bin/sh\nexec "$@"\n'
_LARGEST = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Deed:
    """What a script did: ran the forbidden program, changed files; whether it was too slow, and whether bash could not read it."""

    ran: bool
    changed: tuple[str, ...]
    late: bool
    error: bool


class Box:
    """Runs scripts one after the other, each in the same fresh files."""

    def __init__(self, process: Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._stdin = process.stdin
        self._answers = BufferedByteReceiveStream(process.stdout)

    async def run(self, scripts: Sequence[str]) -> list[Deed]:
        """What each of them did."""
        if not scripts:
            return []
        await self._stdin.send(json.dumps(list(scripts)).encode() + b"\n")
        answer = json.loads(await self._answers.receive_until(b"\n", _LARGEST))
        return [
            Deed(ran=one["ran"], changed=tuple(one["changed"]), late=one["late"], error=one["error"]) for one in answer
        ]


@cache
def why_there_are_no_boxes() -> str:
    """A sentence where this machine lacks what a box needs, else nothing."""
    for program in ("bwrap", "/usr/bin/python3", "/bin/bash"):
        if shutil.which(program) is None:
            return f"{program} is not installed, and generated commands run in no other place"
    words = ["bwrap", "--unshare-user", "--unshare-all", "--ro-bind", "/", "/", "--proc", "/proc", "true"]
    tried = subprocess.run(words, capture_output=True, text=True, check=False, timeout=10)
    return f"a box does not start here: {tried.stderr.strip()}" if tried.returncode else ""


@asynccontextmanager
async def opened_box() -> AsyncIterator[Box]:
    """A box; gone afterwards with all that runs in it."""
    with tempfile.TemporaryDirectory() as directory:
        words = _words(Path(directory))
        process = await anyio.open_process(words, stderr=None)
        try:
            yield Box(process)
        finally:
            process.kill()
            with anyio.CancelScope(shield=True):
                await process.aclose()


def _words(directory: Path) -> list[str]:
    """How to start it. `directory` holds the programs that are put in the place of others."""
    made = []
    for name, text in ((FORBIDDEN, STAND_IN), ("busybox", APPLETS)):
        program = directory / name
        program.write_text(text)
        program.chmod(0o755)
        if Path(f"/usr/bin/{name}").exists():
            made += ["--ro-bind", str(program), f"/usr/bin/{name}"]
        else:  # /usr is read-only and has no place for it; this directory of it is made anew
            made += ["--tmpfs", "/usr/local/bin", "--ro-bind", str(program), f"/usr/local/bin/{name}"]
    driver = directory / "inside.py"
    driver.write_text(Path(__file__).with_name("inside.py").read_text())
    links = [word for name in ("bin", "sbin", "lib", "lib64") for word in ("--symlink", f"usr/{name}", f"/{name}")]
    writable = [
        word for place in ("/mnt/data", "/home/agent", "/mark", "/out", "/tmp")
        for word in ("--size", "33554432", "--tmpfs", place)
    ]  # fmt: skip
    return [
        "bwrap", "--unshare-user", "--unshare-all", "--uid", "1000", "--gid", "1000", "--die-with-parent", "--new-session",
        "--as-pid-1", "--clearenv", "--ro-bind", "/usr", "/usr", *made, *links, "--proc", "/proc", "--dev", "/dev", *writable,
        "--ro-bind", str(driver), "/run/inside.py", "--chdir", "/", "/usr/bin/python3", "-I", "/run/inside.py",
    ]  # fmt: skip
