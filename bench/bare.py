"""The floors: what the same thing costs with nothing of ours around it. asyncio starts the programs, as our callers would."""

import asyncio
import resource
from collections.abc import Sequence
from subprocess import DEVNULL, PIPE

PIECE = 64 * 1024


async def run(*argv: str) -> None:
    """Run a program to its end, its output read to the end."""
    process = await asyncio.create_subprocess_exec(*argv, stdin=DEVNULL, stdout=PIPE, stderr=PIPE)
    await process.communicate()
    if process.returncode != 0:
        raise RuntimeError(f"{argv} ended with {process.returncode}.")


async def first_output(argv: Sequence[str]) -> None:
    """Run a program until its first byte of output, then to its end."""
    process = await asyncio.create_subprocess_exec(*argv, stdin=DEVNULL, stdout=PIPE)
    if process.stdout is None:
        raise RuntimeError("There is no pipe.")
    await process.stdout.read(1)
    await process.wait()


async def read_all(*argv: str) -> int:
    """Run a program and count the bytes that it prints, keeping none."""
    process = await asyncio.create_subprocess_exec(*argv, stdin=DEVNULL, stdout=PIPE)
    if process.stdout is None:
        raise RuntimeError("There is no pipe.")
    size = 0
    while data := await process.stdout.read(PIECE):
        size += len(data)
    await process.wait()
    return size


def resident_mib() -> float:
    """What this process holds in memory now, in MiB."""
    with open("/proc/self/statm", encoding="ascii") as file:
        pages = int(file.read().split()[1])
    return pages * resource.getpagesize() / (1 << 20)
