"""Reads a multipart body part by part while it arrives. Nothing of it is collected but names and small fields.

The parser is python-multipart's; whatever it or the client breaks off is told as RequestInvalid, so that a form that was cut
short never looks like a whole one.
"""

from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.requests import ClientDisconnect, Request

from limpet.core.errors import RequestError, RequestInvalid, RequestTooLarge

# What the parts' heads and a few small fields may have beside the files.
AROUND = 64 * 1024
MAX_FIELDS = 32
MAX_HEAD_BYTES = 16 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class FormField:
    """A part without a file name."""

    name: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FormFile:
    """A part with a file name, which may be empty and is as the client wrote it, directories and all. `pieces` are its bytes; what of
    them was not taken when the next part is asked for is lost."""

    name: str
    filename: str
    content_type: str | None
    pieces: AsyncIterator[bytes]


FormPart = FormField | FormFile


async def form_parts(
    request: Request, *, limit: int, max_files: int = 1, too_many: RequestError | None = None
) -> AsyncGenerator[FormPart, None]:
    """The parts of a form in their order; close the generator if you stop early. A file beyond `max_files` is still given out, so that
    its consumer can say what is wrong in its own words; at a further one `too_many` is raised.

    It ends only where the form does. Raises RequestInvalid for what is no form, or broke off; RequestTooLarge for a body of more
    than `limit` bytes and what parts' heads and fields need, as soon as that is known.
    """
    too_many = too_many or RequestInvalid(f"The form has more than {max_files} files.", param="file")
    reader = _MultipartReader(request, limit, max_files, too_many)
    head: _PartHead | None = None
    while (event := await reader.next()) is not None:
        match event:
            case _PartHead(filename=None):
                yield FormField(name=event.name, value=await _whole(reader, event.name))
            case _PartHead(filename=str(filename)):
                head = event
                pieces = _pieces(reader)
                yield FormFile(name=head.name, filename=filename, content_type=head.content_type, pieces=pieces)
                async for _ in pieces:
                    pass  # the consumer did not want it
            case _:
                pass  # the rest of a part that its consumer stopped reading


def too_large(limit: int) -> RequestTooLarge:
    """The error for a file larger than `limit` bytes."""
    return RequestTooLarge(
        f"The file is larger than {limit} bytes, which is the most that this gateway takes.",
        param="file",
        code="file_too_large",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _PartHead:
    name: str
    filename: str | None
    content_type: str | None


class _End:
    """The end of a part."""


_Event = _PartHead | bytes | _End


async def _whole(reader: "_MultipartReader", name: str) -> str:
    value = b""
    while isinstance(event := await reader.next(), bytes):
        value += event
        if len(value) > AROUND:
            raise RequestInvalid(f"The field {name[:64]} is longer than {AROUND} bytes.", param=name[:64])
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise RequestInvalid(f"The field {name[:64]} is not UTF-8.", param=name[:64]) from error


async def _pieces(reader: "_MultipartReader") -> AsyncGenerator[bytes, None]:
    while isinstance(event := await reader.next(), bytes):
        yield event


class _MultipartReader:
    """Feeds the parser from the request, and gives out what it found one by one; None at the form's end."""

    def __init__(self, request: Request, limit: int, max_files: int, too_many: RequestError) -> None:
        self._request = request
        self._limit = limit
        self._stream = request.stream()
        self._parser: MultipartParser | None = None
        self._events: deque[_Event] = deque()
        self._fields = 0
        self._files = 0
        self._max_files = max_files
        self._too_many = too_many
        self._size = 0
        self._is_whole = False
        self._headers: dict[bytes, bytes] = {}
        self._header_name = b""
        self._header_value = b""

    async def next(self) -> _Event | None:
        while not self._events:
            if self._parser is None:
                self._parser = self._begin()
            chunk = await self._receive()
            if chunk is None:
                if not self._is_whole:
                    raise _broken_off()
                return None
            try:
                self._parser.write(chunk)
            except FormParserError as problem:
                raise RequestInvalid(f"The form cannot be read: {problem}.", param="file") from problem
        return self._events.popleft()

    def _begin(self) -> MultipartParser:
        kind, options = parse_options_header(self._request.headers.get("content-type", ""))
        if kind.lower() != b"multipart/form-data" or not options.get(b"boundary"):
            raise RequestInvalid(
                "Send the file as multipart/form-data with a boundary, in a part named `file`.",
                param="file",
                code="unsupported_content_type",
            )
        announced = self._request.headers.get("content-length", "")
        if announced.isascii() and announced.isdigit() and int(announced[:19]) > self._limit + AROUND:
            raise too_large(self._limit)
        return MultipartParser(
            options[b"boundary"],
            {
                "on_part_begin": self._headers.clear,
                "on_header_field": self._on_header_field,
                "on_header_value": self._on_header_value,
                "on_header_end": self._on_header_end,
                "on_headers_finished": self._on_headers_finished,
                "on_part_data": lambda data, start, end: self._events.append(data[start:end]),
                "on_part_end": lambda: self._events.append(_End()),
                "on_end": self._on_end,
            },
        )

    async def _receive(self) -> bytes | None:
        try:
            chunk = await anext(self._stream, None)
        except ClientDisconnect as gone:
            raise _broken_off() from gone
        self._size += len(chunk or b"")
        if self._size > self._limit + AROUND:
            raise too_large(self._limit)
        return chunk

    def _on_header_field(self, data: bytes, start: int, end: int) -> None:
        self._header_name += data[start:end]

    def _on_header_value(self, data: bytes, start: int, end: int) -> None:
        self._header_value += data[start:end]
        if len(self._header_value) > MAX_HEAD_BYTES:
            raise RequestInvalid(f"A part's head is longer than {MAX_HEAD_BYTES} bytes.", param="file")

    def _on_header_end(self) -> None:
        self._headers[self._header_name.lower()] = self._header_value
        self._header_name = self._header_value = b""

    def _on_headers_finished(self) -> None:
        _, options = parse_options_header(self._headers.get(b"content-disposition"))
        if b"name" not in options:
            raise RequestInvalid("A part of the form has no name in its Content-Disposition.", param="file")
        filename = options.get(b"filename")
        if filename is None:
            self._fields += 1
            if self._fields > MAX_FIELDS:
                raise RequestInvalid(f"The form has more than {MAX_FIELDS} fields.", param="file")
        else:
            self._files += 1
            if self._files > self._max_files + 1:
                raise self._too_many
        kind = self._headers.get(b"content-type")
        self._events.append(
            _PartHead(
                name=_text(options[b"name"]),
                filename=None if filename is None else _text(filename),
                content_type=None if kind is None else _text(kind),
            )
        )

    def _on_end(self) -> None:
        self._is_whole = True


def _broken_off() -> RequestInvalid:
    return RequestInvalid("The upload broke off before its end; nothing of it was kept.", param="file")


def _text(value: bytes) -> str:
    """Names are UTF-8 from today's clients; others are shown as best they can be."""
    return value.decode("utf-8", "replace")
