"""Where the bytes of an `input_file` part come from: an upload, a URL or the request itself. What is wrong with it is a 400 here.

What a URL gives is kept in a file of this host without a name until the block ends: nothing of it outlives this process.
"""

import base64
import binascii
import posixpath
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any
from urllib.parse import unquote, urlsplit

from anyio import to_thread

from limpet.containers.attachments import IncomingFile
from limpet.core.errors import FetchError, FetchRefused, NotFound, RequestInvalid, SandboxFull
from limpet.core.settings import MIB
from limpet.egress.fetch import Fetcher
from limpet.store.uploads import Uploads

Json = dict[str, Any]
UNNAMED = "upload"

# What `mimetypes` says depends on the host's own tables; names must not.
_EXTENSIONS = {
    "application/gzip": ".gz",
    "application/json": ".json",
    "application/pdf": ".pdf",
    "application/vnd.openxmlformats-officedocument.presentationml.presentation": ".pptx",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": ".xlsx",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": ".docx",
    "application/x-tar": ".tar",
    "application/xml": ".xml",
    "application/yaml": ".yaml",
    "application/zip": ".zip",
    "audio/mpeg": ".mp3",
    "audio/wav": ".wav",
    "image/gif": ".gif",
    "image/jpeg": ".jpg",
    "image/png": ".png",
    "image/svg+xml": ".svg",
    "image/webp": ".webp",
    "text/calendar": ".ics",
    "text/css": ".css",
    "text/csv": ".csv",
    "text/html": ".html",
    "text/javascript": ".js",
    "text/markdown": ".md",
    "text/plain": ".txt",
    "text/tab-separated-values": ".tsv",
    "text/xml": ".xml",
    "video/mp4": ".mp4",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFile:
    """The bytes that stand in a request, and their type, empty where it does not say."""

    data: bytes
    content_type: str


class InputSources:
    """Opens the files of one request, one after the other, and counts their bytes. `param` is the place of the part."""

    def __init__(
        self, uploads: Uploads, fetcher: Fetcher | None, *, tenant: str, most: int, spool: Path, stack: AsyncExitStack
    ) -> None:
        self._uploads = uploads
        self._fetcher = fetcher
        self._tenant = tenant
        self._most = most
        self._spool = spool
        self._stack = stack
        self._bytes = 0

    async def open(self, part: Json, param: str) -> IncomingFile:
        """A part's file, under the name that was asked for. RequestInvalid."""
        name = part.get("filename")
        if (id := part.get("file_id")) is not None:
            return await self._upload(id, name, f"{param}.file_id")
        if (url := part.get("file_url")) is not None:
            return await self._fetched(url, name, f"{param}.file_url")
        return await self._decoded(part["file_data"], name, f"{param}.file_data")

    async def _upload(self, id: str, name: str | None, param: str) -> IncomingFile:
        try:
            record = await self._uploads.get(self._tenant, id)
        except NotFound as error:
            raise no_upload(id, param) from error
        self._count(record.bytes, param)
        return IncomingFile(name=name or record.filename, open=lambda: self._uploads.read(record), id=record.id)

    async def _decoded(self, given: str, name: str | None, param: str) -> IncomingFile:
        file = await to_thread.run_sync(decoded, given, param)
        self._count(len(file.data), param)
        return IncomingFile(name=name or f"{UNNAMED}{extension_of(file.content_type)}", open=lambda: _whole(file.data))

    async def _fetched(self, url: str, name: str | None, param: str) -> IncomingFile:
        if self._fetcher is None:
            raise RequestInvalid(
                "This gateway fetches no URLs (features.file_url.enabled). Upload the file with POST /v1/files.",
                param=param,
                code="invalid_input_file_url",
            )
        file = _SpooledUpload(self._stack.enter_context(tempfile.TemporaryFile(dir=self._spool)))  # noqa: SIM115  # the stack closes it
        left = self._most - self._bytes
        try:
            if left <= 0:
                raise FetchRefused(f"The request's files have more than {self._most} bytes.", "Send fewer.")
            async with self._fetcher.open(url, max_bytes=left) as fetched:
                async for piece in fetched.data:
                    await file.add(piece)
        except FetchError as error:
            raise RequestInvalid(error.message, param=param, code="invalid_input_file_url") from error
        self._count(file.size, param)
        return IncomingFile(
            name=name or name_in(url) or f"{UNNAMED}{extension_of(fetched.content_type)}", open=file.pieces
        )

    def _count(self, size: int, param: str) -> None:
        self._bytes += size
        if self._bytes > self._most:
            raise RequestInvalid(
                f"The files of this request have more than {self._most} bytes, which is the most that one may bring "
                "(features.containers.max_input_bytes_per_request). Send fewer.",
                param=param,
                code="input_file_too_large",
            )


class _SpooledUpload:
    """Bytes in a file without a name."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.size = 0

    async def add(self, data: bytes) -> None:
        try:
            await to_thread.run_sync(self._file.write, data)
        except OSError as error:
            raise SandboxFull(f"There is no room for a file that the request names: {error.strerror}.") from error
        self.size += len(data)

    async def pieces(self) -> AsyncIterator[bytes]:
        await to_thread.run_sync(self._file.seek, 0)
        while piece := await to_thread.run_sync(self._file.read, MIB):
            yield piece


def decoded(given: str, param: str) -> DataFile:
    """What `file_data` says: a base64 data URL, or base64 alone. RequestInvalid for anything else."""
    head, comma, encoded = given.partition(",")
    kind = ""
    if comma:
        if not head.lower().startswith("data:") or not head.lower().endswith(";base64"):
            raise _not_base64(param)
        kind = head[5:].partition(";")[0].strip().lower()
    try:
        return DataFile(data=base64.b64decode(encoded if comma else given, validate=True), content_type=kind)
    except (binascii.Error, ValueError) as error:
        raise _not_base64(param) from error


def extension_of(content_type: str | None) -> str:
    """`.csv` for `text/csv; charset=utf-8`; empty for a type that has none."""
    return _EXTENSIONS.get((content_type or "").partition(";")[0].strip().lower(), "")


def name_in(url: str) -> str:
    """The last part of a URL's path, unquoted; empty where it has none."""
    return unquote(posixpath.basename(urlsplit(url).path))


def no_upload(id: str, param: str) -> RequestInvalid:
    return RequestInvalid(
        f"There is no file {id[:100]}. Upload it with POST /v1/files, and use the id that it answers with.",
        param=param,
        code="file_not_found",
    )


def _not_base64(param: str) -> RequestInvalid:
    return RequestInvalid(
        "file_data is neither base64 nor a data URL such as data:text/csv;base64,YQ==.",
        param=param,
        code="invalid_input_file_data",
    )


async def _whole(data: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(data), MIB):
        yield data[start : start + MIB]
