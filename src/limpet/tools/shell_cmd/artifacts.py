"""Files that a command was to write, as facts: path, SHA-256, size. Reads them piece by piece."""

import hashlib

from limpet.core.errors import FileError
from limpet.core.ports import Files
from limpet.tools.tool import JsonObject


async def describe(files: Files, path: str, *, shown: str) -> JsonObject:
    """`{"path", "sha256", "bytes"}` of a regular file, `{"path", "error"}` of anything else. `shown` is the path that is told."""
    digest = hashlib.sha256()
    size = 0
    try:
        async for piece in files.stream(path):
            digest.update(piece)
            size += len(piece)
    except FileError as error:
        return {"path": shown, "error": str(error)}
    return {"path": shown, "sha256": digest.hexdigest(), "bytes": size}
