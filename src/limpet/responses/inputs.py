"""The files that a request brings as `input_file` parts.

With a hosted shell they are found, fetched and decoded before anything is created, then put into the response's container, once;
the stored part remembers where (`path`), and what a provider is told of it, in this turn and in all later ones, is that path.
Without one a provider gets the file itself, if it can.
"""

import base64
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio

from limpet.containers.attachments import IncomingFile
from limpet.containers.changes import safe_name
from limpet.containers.settings import ContainerSettings
from limpet.containers.wire_objects import shown
from limpet.core.box_directories import DATA
from limpet.core.errors import NotFound, RequestInvalid
from limpet.core.settings import MIB
from limpet.egress.fetch import Fetcher
from limpet.egress.settings import FetchSettings
from limpet.responses.input_images import check_images, with_images
from limpet.responses.input_sources import InputSources, no_upload
from limpet.store.files import ContainerFileRecord
from limpet.store.uploads import Uploads

Json = dict[str, Any]
KIND = "input_file"
PATH = "path"  # of a stored part: where its file lies in the container
HOLDERS = ("content", "output")  # the fields of items that hold parts
MAX_SHOWN = 32 * MIB  # bytes of one file that a provider is sent whole
MAX_SHOWN_IN_ALL = 64 * MIB
FETCHES_URLS = frozenset({"openai", "azure_openai"})  # types of providers that open a file_url themselves


@dataclass(frozen=True, slots=True)
class FilePosition:
    """Where a part stands in a list of items."""

    item: int
    field: str
    part: int

    @property
    def param(self) -> str:
        return f"input[{self.item}].{self.field}[{self.part}]"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedFile:
    """A file of a new part, at hand."""

    place: FilePosition
    file: IncomingFile


class InputFiles:
    """Knows uploads and may fetch. `spool` is a directory of this host for what is fetched."""

    def __init__(
        self,
        uploads: Uploads,
        *,
        settings: ContainerSettings,
        fetch: FetchSettings,
        spool: Path,
        fetcher: Fetcher | None = None,
    ) -> None:
        self._uploads = uploads
        self._settings = settings
        self._spool = spool
        self._fetch_secs = fetch.timeout_secs if fetch.enabled else None
        self._fetcher = fetcher or (Fetcher(fetch) if fetch.enabled else None)

    @asynccontextmanager
    async def gathered(self, tenant: str, items: Sequence[Json]) -> AsyncIterator[Sequence[ResolvedFile]]:
        """The files of all parts of these new items, in order, for the time of the block. RequestInvalid with the part's place."""
        parts = list(parts_of(items))
        if len(parts) > self._settings.max_input_files_per_request:
            raise RequestInvalid(
                f"The request brings {len(parts)} files; the most is {self._settings.max_input_files_per_request} "
                "(features.containers.max_input_files_per_request).",
                param=parts[self._settings.max_input_files_per_request][0].param,
                code="too_many_input_files",
            )
        async with AsyncExitStack() as stack:
            sources = InputSources(
                self._uploads,
                self._fetcher,
                tenant=tenant,
                most=self._settings.max_input_bytes_per_request,
                spool=self._spool,
                stack=stack,
            )
            yield [ResolvedFile(place=place, file=file) for place, file in await self._opened(sources, parts)]

    async def _opened(
        self, sources: InputSources, parts: Sequence[tuple[FilePosition, Json]]
    ) -> list[tuple[FilePosition, IncomingFile]]:
        seconds = self._fetch_secs
        opened: list[tuple[FilePosition, IncomingFile]] = []
        try:
            with anyio.fail_after(seconds):
                for place, part in parts:
                    opened.append((place, await sources.open(part, place.param)))
        except TimeoutError as error:
            late = parts[len(opened)][0]
            raise RequestInvalid(
                f"The request's files were not there within {seconds:g} seconds. Upload large ones with POST /v1/files.",
                param=late.param,
                code="invalid_input_file_url",
            ) from error
        return opened

    async def check_images(self, tenant: str, items: Sequence[Json]) -> None:
        """Whether the images that these new items name are there. RequestInvalid."""
        await check_images(self._uploads, tenant, items)

    async def check_shown(self, tenant: str, items: Sequence[Json], *, provider: str, type: str) -> None:
        """Whether a provider of that type can be given the files of these new items themselves. RequestInvalid."""
        size = 0
        for place, part in parts_of(items):
            if part.get("file_url") is not None and type not in FETCHES_URLS:
                raise RequestInvalid(
                    f"{provider} cannot be given a file by file_url. Send file_data or file_id, or add the shell tool, "
                    "which gets it as a file.",
                    param=f"{place.param}.file_url",
                    code="unsupported_input",
                )
            if (id := part.get("file_id")) is not None:
                try:
                    size += (await self._uploads.get(tenant, id)).bytes
                except NotFound as error:
                    raise no_upload(id, f"{place.param}.file_id") from error
            if size > MAX_SHOWN:
                raise RequestInvalid(
                    f"Files of more than {MAX_SHOWN // MIB} MiB cannot be shown to a model. Add the shell tool, which gets "
                    "them as files.",
                    param=f"{place.param}.file_id",
                    code="input_file_too_large",
                )

    async def told(self, tenant: str, items: Sequence[Json], *, directory: str) -> list[Json]:
        """The items as a provider gets them: files of the container as a text that says where they lie (`directory` stands for
        /mnt/data), uploads and images with their bytes."""
        parts: dict[FilePosition, Json] = {}
        left = MAX_SHOWN_IN_ALL
        for place, part in reversed(list(parts_of(items))):
            if PATH in part:
                parts[place] = _told(part, directory)
            elif part.get("file_id") is not None:
                parts[place], left = await self._with_bytes(tenant, part, left)
        return await with_images(self._uploads, tenant, replaced(items, parts))

    async def _with_bytes(self, tenant: str, part: Json, left: int) -> tuple[Json, int]:
        name = part.get("filename")
        try:
            upload = await self._uploads.get(tenant, part["file_id"])
        except NotFound:
            # It was there when it was sent: a conversation outlives its files.
            return _text(f"[The file {safe_name(name or part['file_id'])} was deleted.]"), left
        name = name or upload.filename
        if upload.bytes > left:
            return _text(f"[The file {safe_name(name)} is left out: the conversation's files are too large.]"), left
        data = b"".join([piece async for piece in self._uploads.read(upload)])
        kind = upload.content_type or "application/octet-stream"
        encoded = base64.b64encode(data).decode()
        shown_part = {key: value for key, value in part.items() if key != "file_id"}
        url = f"data:{kind};base64,{encoded}"
        return {**shown_part, "filename": name, "file_data": url}, left - upload.bytes


def parts_of(items: Sequence[Json]) -> Iterator[tuple[FilePosition, Json]]:
    """The `input_file` parts of items and their places."""
    for number, item in enumerate(items):
        for holder in HOLDERS:
            held = item.get(holder)
            for position, part in enumerate(held if isinstance(held, list) else ()):
                if isinstance(part, dict) and part.get("type") == KIND:
                    yield FilePosition(number, holder, position), part


def replaced(items: Sequence[Json], parts: dict[FilePosition, Json]) -> list[Json]:
    """The items with other parts at these places."""
    fresh = list(items)
    for place, part in parts.items():
        item = fresh[place.item]
        held = list(item[place.field])
        held[place.part] = part
        fresh[place.item] = {**item, place.field: held}
    return fresh


def unmarked(items: Sequence[Json]) -> list[Json]:
    """New items without paths: only the gateway says where a file lies."""
    marked = {
        place: {key: value for key, value in part.items() if key != PATH}
        for place, part in parts_of(items)
        if PATH in part
    }
    return replaced(items, marked)


def as_placed(items: Sequence[Json]) -> list[Json]:
    """The items as if their files lay in a container, under the names that they came with."""
    return replaced(
        items, {place: {**part, PATH: f"{DATA}/{part.get('filename') or KIND}"} for place, part in parts_of(items)}
    )


def marked(items: Sequence[Json], gathered: Sequence[ResolvedFile], rows: Sequence[ContainerFileRecord]) -> list[Json]:
    """The items whose parts say where their files lie now."""
    paths = {each.place: shown(row.path) for each, row in zip(gathered, rows, strict=True)}
    known = dict(parts_of(items))
    return replaced(items, {place: {**known[place], PATH: path} for place, path in paths.items()})


def _told(part: Json, directory: str) -> Json:
    path = str(part[PATH]).replace(DATA, directory, 1)
    name = path.rpartition("/")[2]
    return _text(f"[The file {safe_name(part.get('filename') or name)} is at {path}.]")


def _text(text: str) -> Json:
    return {"type": "input_text", "text": text}
