"""How much of a command's output a result shows, and where the rest is. Reads the kept output a piece at a time."""

import codecs
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

from limpet.workspace.result import KeptOutput
from limpet.workspace.workspace import Workspace

PIECE = 1 << 20
MOST_IN_FILE = 256 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputExcerpt:
    """What a result shows of one stream. `size` is all of it in bytes; `is_text` says whether what is shown was UTF-8. `file` holds
    all of it, where something is left out or is no text (None: it could not be written, or there was no need)."""

    text: str
    size: int
    left_out: bool
    is_text: bool
    file: str | None = None


def head(kept: KeptOutput, limit: int) -> OutputExcerpt:
    """The first `limit` characters."""
    data = kept.read(0, limit * 4)
    is_end = len(data) == kept.size
    text = _decoder("replace").decode(data, final=is_end)
    return OutputExcerpt(
        text=text[:limit],
        size=kept.size,
        left_out=len(text) > limit or not is_end,
        is_text=_is_text(data, is_end=is_end),
    )


def head_and_tail(kept: KeptOutput, limit: int) -> OutputExcerpt:
    """All of it if it has at most `limit` bytes; else half of that from its head, half from its tail, and between them a line
    that counts the bytes left out. Cut between characters."""
    if kept.size <= limit:
        data = kept.read()
        return OutputExcerpt(
            text=data.decode("utf-8", errors="replace"),
            size=kept.size,
            left_out=False,
            is_text=_is_text(data, is_end=True),
        )
    half = limit // 2
    first, last = kept.read(0, half), kept.read(kept.size - half)
    decoder = _decoder("replace")
    before = decoder.decode(first)
    cut_from_head = len(decoder.getstate()[0])
    # A character that began before the tail is left out whole.
    cut_from_tail = next((place for place in range(min(4, len(last))) if last[place] & 0xC0 != 0x80), 0)
    after = last[cut_from_tail:]
    left_out = kept.size - 2 * half + cut_from_head + cut_from_tail
    return OutputExcerpt(
        text=f"{before}\n... [{left_out} bytes left out] ...\n{after.decode('utf-8', errors='replace')}",
        size=kept.size,
        left_out=True,
        is_text=_is_text(first, is_end=False) and _is_text(after, is_end=True),
    )


async def show_whole(workspace: Workspace, kept: KeptOutput, *, limit: int, name: str) -> OutputExcerpt:
    """`head_and_tail`, and all of it in a file where that is not all, or no text."""
    return await with_file(workspace, kept, head_and_tail(kept, limit), name=name)


async def with_file(workspace: Workspace, kept: KeptOutput, shown: OutputExcerpt, *, name: str) -> OutputExcerpt:
    """`shown`, and where it is not all of it, or no text, the file that holds all of it."""
    if not shown.left_out and shown.is_text:
        return shown
    return replace(shown, file=await keep_whole(workspace, kept, name=name))


async def keep_whole(workspace: Workspace, kept: KeptOutput, *, name: str) -> str | None:
    """Write it to a file that the workspace keeps and return its path, as commands know it; None where nothing takes a file. Past
    MOST_IN_FILE bytes its middle is left out, and counted in the file."""
    return await workspace.keep(f"{name}.txt", partial(pieces, kept, most=MOST_IN_FILE))


class Readable(Protocol):
    """An output, or what is to be shown of one."""

    @property
    def size(self) -> int: ...

    def read(self, start: int = 0, length: int | None = None) -> bytes: ...


async def pieces(whole: Readable, *, most: int) -> AsyncIterator[bytes]:
    """All of it, for a file; of more than `most` bytes that many, half from its head, half from its tail, around a line that counts
    the rest."""
    spans: Sequence[tuple[int, int]] = ((0, whole.size),)
    if whole.size > most:
        spans = ((0, most // 2), (whole.size - most // 2, whole.size))
    for number, (start, end) in enumerate(spans):
        if number:
            yield f"\n[... {start - spans[0][1]} bytes left out ...]\n".encode()
        for at in range(start, end, PIECE):
            yield whole.read(at, min(PIECE, end - at))


def _decoder(errors: str) -> codecs.IncrementalDecoder:
    return codecs.getincrementaldecoder("utf-8")(errors=errors)


def _is_text(data: bytes, *, is_end: bool) -> bool:
    try:
        _decoder("strict").decode(data, final=is_end)
    except UnicodeDecodeError:
        return False
    return True
