"""Files that a workspace writes itself: the whole of an output of which a result shows a part. The newest are kept.

Rules on writing bind commands and callers; a `readonly` workspace still owes its caller all that a command printed.
"""

import posixpath
import re
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress

from limpet.core.command import START, Command, Exited, Script
from limpet.core.errors import LimpetError
from limpet.core.ids import new_id
from limpet.core.ports import Sandbox

KEPT = ".limpet/output"  # below the box's home
MOST_FILES = 64
_MOST_SECONDS = 60.0
# Where no file of the box takes it (a full disk, directories that were locked): its temporary directory lies elsewhere, and is
# reached by a command. `set -C` lets no link that waits there lead it elsewhere.
_IN_TEMPORARY = """set -eC; umask 077; kept="${{TMPDIR:-/tmp}}/$LIMPET_KEPT"; {runs}
exec 3> "$kept"
{copies} || {{ : >| "$kept"; rm -f -- "$kept"; exit 1; }}
printf %s "$kept" """
_BY_CAT = _IN_TEMPORARY.format(runs="cat < /dev/null 2>/dev/null", copies="cat >&3")
# A policy may have left no program in the box: bash's builtins copy too, a tenth as fast, what comes in blocks of one size.
_BY_BUILTINS = _IN_TEMPORARY.format(
    runs="",
    copies='while IFS= read -rN "$LIMPET_BLOCK" block; do printf %b "$block" >&3 || break; done && [[ ! $block ]]',
)
_MOST_LISTED = 1_000
_BLOCK = 32 << 10
_ESCAPED = re.compile(rb"[\0\x01\\\x7f]")  # what bash's read drops or marks, and what printf takes for more than itself
_ESCAPE = 5  # bytes, of each

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
        files = await sandbox.files.list(directory, limit=_MOST_LISTED)
        for old in sorted(files, key=lambda file: file.modified)[:-MOST_FILES]:
            await sandbox.files.delete(old.path)
    return path


async def keep_in_temporary(sandbox: Sandbox, name: str, pieces: Pieces) -> str | None:
    """The same in the temporary directory that commands have; the path is the one that they know."""
    name = posixpath.basename(name)
    if (path := await _keep_by(_BY_CAT, sandbox, name, pieces())) is not None:
        return path
    return await _keep_by(_BY_BUILTINS, sandbox, name, (b"".join(_blocks(piece)) async for piece in pieces()))


async def _keep_by(script: str, sandbox: Sandbox, name: str, pieces: AsyncIterator[bytes]) -> str | None:
    command = Command(
        what=Script(script),
        env={"LIMPET_KEPT": name, "LIMPET_BLOCK": str(_BLOCK), "LC_ALL": "C"},
        keeps_stdin_open=True,
        timeout=_MOST_SECONDS,
    )
    try:
        process = await sandbox.start(command, new_id("keep"))
        try:
            async for piece in pieces:
                await process.write(piece)
            await process.close_stdin()
            said = b"".join([chunk.data async for chunk in process.output(START) if chunk.stream == "stdout"])
            return said.decode(errors="surrogateescape") if await process.wait() == Exited(0) else None
        finally:
            await process.abort()
            await process.forget()
    except LimpetError:
        return None


def _blocks(data: bytes) -> Iterator[bytes]:
    """`data` in blocks of _BLOCK bytes, each of which `printf %b` turns back; no block ends within an escape."""
    data = _ESCAPED.sub(lambda found: b"\\%04o" % found[0][0], data)
    while data:
        end = _BLOCK - 2
        if len(data) > end and (cut := data.rfind(b"\\", end - _ESCAPE + 1, end)) >= 0:
            end = cut
        yield (data[:end] + b"\\c").ljust(_BLOCK)
        data = data[end:]
