"""This program's standard input: whether there is any, and handing it to a process while that runs."""

import os
import select
import stat
from contextlib import suppress

import anyio

from limpet.cli.session import KEYBOARD, read_some
from limpet.core.errors import SandboxClosed, SandboxGone
from limpet.core.ports import Process

BACKGROUND_POLL = 0.2  # seconds between two looks whether a background job has been brought to the foreground


def has_input() -> bool:
    """Whether anything may come on standard input: it is neither closed nor the null device."""
    try:
        status = os.fstat(KEYBOARD)
    except OSError:
        return False
    return not (stat.S_ISCHR(status.st_mode) and status.st_rdev == os.stat(os.devnull).st_rdev)


def has_unread_input() -> bool:
    """Whether bytes wait on standard input right now; takes one of them to be sure. Never of a terminal."""
    if not has_input() or os.isatty(KEYBOARD):
        return False
    with suppress(OSError, ValueError):
        return bool(select.select([KEYBOARD], [], [], 0)[0] and os.read(KEYBOARD, 1))
    return False


async def feed(process: Process) -> None:
    """Hand standard input to the process until its end, then end the process's own. Returns too when the sandbox is gone."""
    with suppress(SandboxGone, SandboxClosed):  # the task that reads the output reports it
        while data := await _read():
            await process.write(data)
        await process.close_stdin()


async def _read() -> bytes:
    """A background job that reads its terminal is stopped by the kernel (SIGTTIN), so it waits for the foreground instead."""
    while _is_in_background():  # noqa: ASYNC110 - the kernel sends no event when the foreground changes
        await anyio.sleep(BACKGROUND_POLL)
    return await read_some(KEYBOARD)


def _is_in_background() -> bool:
    try:
        return os.isatty(KEYBOARD) and os.tcgetpgrp(KEYBOARD) != os.getpgrp()
    except OSError:  # not the terminal of this session: then no job control applies either
        return False
