"""Files that a command was to write, as facts: path, SHA-256, size. Reads them piece by piece."""

import hashlib

from limpet.core.errors import FileError
from limpet.core.ports import Files
from limpet.tools.tool import JsonObject

MOST_HASHED = 256 << 20


async def describe(files: Files, path: str, *, shown: str) -> JsonObject:
    """`{"path", "sha256", "bytes"}` of a regular file, without `sha256` of one beyond MOST_HASHED bytes; `{"path", "error"}` of anything
    else. `shown` is the path in the result."""
    digest = hashlib.sha256()
    size = 0
    try:
        there = (await files.stat(path)).size
        if there > MOST_HASHED:
            await files.read(path, length=0)  # raises for what is no regular file
            return {"path": shown, "bytes": there}
        async for piece in files.stream(path, length=MOST_HASHED):
            digest.update(piece)
            size += len(piece)
    except FileError as error:
        return {"path": shown, "error": str(error)}
    return {"path": shown, "sha256": digest.hexdigest(), "bytes": size}
