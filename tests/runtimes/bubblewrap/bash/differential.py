"""Runs one script in a box and takes down all that shows: output, exit code, files. Numbers of processes are made alike."""

import hashlib
import itertools
import os
import re
import shutil
import stat
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import anyio

from limpet.core.command import Argv, Command, Exited, Script
from limpet.core.errors import BadCommand
from limpet.core.ports import Sandbox
from tests.runtimes.bubblewrap.bash import commands, control, words

CHAPTERS: dict[str, list[str]] = {**words.CHAPTERS, **commands.CHAPTERS, **control.CHAPTERS}
SHELL = "/bin/bash"
_ids = itertools.count()
# What a box says of its processors, the same on every machine and for every user.
VARIABLES = {"OMP_NUM_THREADS": "1", "GOMAXPROCS": "1", "PYTHON_CPU_COUNT": "1"}
_JOB = re.compile(rb"(\[\d+\][+-]? +)\d+")
_DIED = re.compile(rb"(line \d+:|^) +\d+ (?=[A-Z])", re.MULTILINE)
_OURS = re.compile(rb"(\(|/dev/fd/|pid |nohup\.)\d{2,}")
_OF_THE_MACHINE = re.compile(r"ulimit|git |tar |python3|MACHTYPE|BASH_VER|RANDOM|^set|^env|proc|ps |help|tcp")
_DATED = re.compile(rb"\d\d:\d\d:\d\d(\.\d+)?")


@dataclass(frozen=True, slots=True)
class Seen:
    """What a script did."""

    code: int | str
    stdout: str
    stderr: str
    files: list[str]


def key(script: str) -> str:
    """A script, or what stands for one that is long."""
    return script if len(script) < 2000 else "sha256:" + hashlib.sha256(script.encode()).hexdigest()


def shown(seen: Seen) -> dict[str, object]:
    return asdict(seen)


def fresh(script: str, **settings: Any) -> Command:
    """A script for a new `bash -c`."""
    return Command(what=Argv((SHELL, "-c", script)), timeout=15, **settings)


def waiting(script: str, **settings: Any) -> Command:
    """The same for the shell that waits, where the rule lets it."""
    return Command(what=Script(script), timeout=15, **settings)


async def see(box: Sandbox, data: Path, command: Command) -> Seen:
    """Run it in an empty working directory."""
    await anyio.to_thread.run_sync(_empty, data)
    try:
        process = await box.start(command, f"seen-{next(_ids)}")
    except BadCommand:
        return Seen("refused", "", "", [])
    output = {"stdout": bytearray(), "stderr": bytearray()}
    async for chunk in process.output():
        output[chunk.stream] += chunk.data
    outcome = await process.wait()
    await process.forget()
    return Seen(
        code=outcome.code if isinstance(outcome, Exited) else str(outcome),
        stdout=_alike(bytes(output["stdout"])),
        stderr=_alike(bytes(output["stderr"])),
        files=sorted(_described(path, data) for path in data.rglob("*")),
    )


def _alike(data: bytes) -> str:
    for pattern, replacement in ((_JOB, rb"\1N"), (_DIED, rb"\1 N "), (_OURS, rb"\1N"), (_DATED, b"T")):
        data = pattern.sub(replacement, data)
    text = data.decode("utf-8", "backslashreplace")
    return text if len(text) < 20_000 else f"{len(text)} sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def _empty(directory: Path) -> None:
    for path in directory.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def _described(path: Path, root: Path) -> str:
    """Name, mode and content of one entry; repositories and archives hold times."""
    about = path.lstat()
    name = f"{path.relative_to(root)} {stat.filemode(about.st_mode)}"
    if stat.S_ISLNK(about.st_mode):
        return f"{name} -> {os.readlink(path)}"
    if not stat.S_ISREG(about.st_mode) or path.suffix in (".tar", ".gz") or "r/" in str(path.relative_to(root)):
        return name
    return f"{name} {_alike(path.read_bytes())}"


def is_recorded(script: str) -> bool:
    """Not where the machine, its programs or the time decide what is printed; those are compared live only."""
    return not _OF_THE_MACHINE.search(script)
