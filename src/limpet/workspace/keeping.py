"""Files that a workspace writes itself: whole outputs, of which a result shows a part. The newest stay.

Rules on writing bind commands and whoever calls; a `readonly` workspace still owes its caller all that a command printed.
"""

import posixpath
from collections.abc import AsyncIterator, Callable
from contextlib import suppress

from limpet.core.command import START, Command, Exited, Script
from limpet.core.errors import LimpetError
from limpet.core.ids import new_id
from limpet.core.ports import Sandbox

KEPT = ".limpet/output"  # below the box's home
MOST_FILES = 64
_MOST_SECONDS = 60.0
# Where no file of the box takes it (a full disk, directories that were locked): its temporary directory is memory, and is looked
# for by a command. What is said before the data is the name; `set -C` lets no link that waits there lead it elsewhere.
_IN_MEMORY = """set -eC; umask 077; kept="${TMPDIR:-/tmp}/$LIMPET_KEPT"; cat > "$kept" || { rm -f -- "$kept"; exit 1; }
printf %s "$kept" """

Pieces = Callable[[], AsyncIterator[bytes]]


async def keep_in_home(sandbox: Sandbox, home: str, name: str, pieces: Pieces) -> str | None:
    """Write a new file below `home` (as the sandbox's files know it) and return its path; None where none can be written."""
    directory = f"{home}/{KEPT}"
    path = f"{directory}/{name}"
    try:
        await sandbox.files.write(path, pieces())
    except LimpetError:
        return None  # full, or something else lies there: the next place is tried
    with suppress(LimpetError):  # what another call took away meanwhile is as good as taken away here
        files = await sandbox.files.list(directory)
        for old in sorted(files, key=lambda file: file.modified)[:-MOST_FILES]:
            await sandbox.files.delete(old.path)
    return path


async def keep_in_memory(sandbox: Sandbox, name: str, pieces: Pieces) -> str | None:
    """The same in the temporary directory that commands have; the path is the one that they know."""
    command = Command(
        what=Script(_IN_MEMORY),
        env={"LIMPET_KEPT": posixpath.basename(name)},
        keeps_stdin_open=True,
        timeout=_MOST_SECONDS,
    )
    try:
        process = await sandbox.start(command, new_id("keep"))
        try:
            async for piece in pieces():
                await process.write(piece)
            await process.close_stdin()
            said = b"".join([chunk.data async for chunk in process.output(START) if chunk.stream == "stdout"])
            return said.decode(errors="surrogateescape") if await process.wait() == Exited(0) else None
        finally:
            await process.abort()
            await process.forget()
    except LimpetError:
        return None
