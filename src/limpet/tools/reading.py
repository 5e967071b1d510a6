"""Reads part of a file for a model, redacted from the file's first byte, so that no cut lets half a secret through."""

import base64
from collections.abc import AsyncGenerator
from contextlib import aclosing

from limpet.tools.tool import JsonObject
from limpet.tools.view import as_commands_know
from limpet.workspace.workspace import Workspace

_LOOKS_BINARY = 8_192
MOST_READ = 64 << 20  # bytes that one call looks at, from the file's first on


async def read_lines(view: Workspace, path: str, *, first: int, count: int, most: int) -> JsonObject:
    """`{"path", "content", "startLine", "endLine", "size"}` with whole lines from line `first` on, `count` of them and `most` bytes at
    most (one longer line is cut); `nextOffset` where there is more. A file that is no text has a `note` and no content."""
    found = await view.files.stat(path)
    binary: JsonObject = {
        "path": as_commands_know(view, found.path),
        "size": found.size,
        "content": None,
        "note": _BINARY,
    }
    if b"\0" in await view.files.read(path, length=_LOOKS_BINARY):
        return binary
    lines: list[bytes] = []
    number, size, more, is_cut = 0, 0, False, False
    async with aclosing(_lines(view, path, most)) as pieces:
        async for line, cut in pieces:
            if b"\0" in line[:_LOOKS_BINARY]:
                return binary
            number += 1
            if number < first:
                continue
            if len(lines) == count or (lines and size + len(line) > most):
                more = True
                break
            lines.append(line)
            size += len(line)
            is_cut |= cut
    answer: JsonObject = {
        "path": as_commands_know(view, found.path),
        "content": b"".join(lines).decode("utf-8", errors="replace"),
        "startLine": first,
        "endLine": first + len(lines) - 1,
        "size": found.size,
    }
    if more:
        answer["nextOffset"] = first + len(lines)
    if is_cut:
        answer["note"] = f"A line longer than {most} bytes is cut. With encoding base64 every byte can be had."
    if not more and found.size > MOST_READ:
        answer["note"] = _BEYOND
    elif not lines and number:
        answer["note"] = f"The file has {number} lines; there is no line {first}."
    return answer


async def read_bytes(view: Workspace, path: str, *, start: int, most: int) -> JsonObject:
    """`{"path", "content", "encoding", "offset", "size"}` with at most `most` bytes from byte `start` on; `nextOffset` where there is
    more. Offsets count screened bytes."""
    found = await view.files.stat(path)
    kept = bytearray()
    passed, more = 0, False
    async with aclosing(_screened(view, path)) as pieces:
        async for piece in pieces:
            kept += piece[max(0, start - passed) :]
            passed += len(piece)
            if len(kept) > most:
                more = True
                break
    content = bytes(kept[:most])
    answer: JsonObject = {
        "path": as_commands_know(view, found.path),
        "content": base64.b64encode(content).decode(),
        "encoding": "base64",
        "offset": start,
        "size": found.size,
    }
    if more:
        answer["nextOffset"] = start + len(content)
    elif found.size > MOST_READ:
        answer["note"] = _BEYOND
    return answer


_BEYOND = (
    f"Only the first {MOST_READ >> 20} MiB of a file are read. Look at the rest with a command such as tail, sed or dd."
)
_BINARY = "This is no text file. Look at it with encoding base64, or with a program such as file, strings or xxd."


async def _lines(view: Workspace, path: str, most: int) -> AsyncGenerator[tuple[bytes, bool], None]:
    """Its lines with their ends; of one longer than `most` bytes the first of them, and that it is cut."""
    held = bytearray()
    is_cut = False
    async with aclosing(_screened(view, path)) as pieces:
        async for piece in pieces:
            for part in _split(piece):
                is_cut |= len(held) + len(part) > most
                held += part[: max(0, most - len(held))]
                if part.endswith(b"\n"):
                    yield bytes(held), is_cut
                    held, is_cut = bytearray(), False
    if held:
        yield bytes(held), is_cut


def _split(piece: bytes) -> list[bytes]:
    """At line feeds only."""
    parts = [part + b"\n" for part in piece.split(b"\n")]
    parts[-1] = parts[-1][:-1]
    return [part for part in parts if part]


async def _screened(view: Workspace, path: str) -> AsyncGenerator[bytes, None]:
    screen = view.redactor.screen()
    async for piece in view.files.stream(path, length=MOST_READ):
        yield screen.feed(piece)
    yield screen.end()
