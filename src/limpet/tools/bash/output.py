"""Which part of a command's output is in a result, and which in a file that the result names. Redacted bytes in, text out."""

import codecs
import secrets
from dataclasses import dataclass
from functools import partial

from limpet.core.box_directories import DATA
from limpet.core.command import Stream
from limpet.tools.output import pieces
from limpet.tools.tool import JsonObject
from limpet.workspace.result import KeptOutput
from limpet.workspace.workspace import Workspace

SIDE = 10_000  # bytes of the head and of the tail of an output that is too long for a result
SIDE_LINES = 100
MOST_IN_FILE = 60 << 20
MOST_WITHOUT_FILE = 128 << 10  # still fits a model; more of it can only be asked for in parts
_TOLD_WITHIN = 16 << 10
_LOOKED_AT = 8_000


class WholeOutput:
    """All bytes of one stream, without the line in which the shell told something."""

    def __init__(self, kept: KeptOutput, hole: tuple[int, int] = (0, 0)) -> None:
        self._kept = kept
        self._hole = hole
        self.size = kept.size - (hole[1] - hole[0])

    def read(self, start: int = 0, length: int | None = None) -> bytes:
        end = self.size if length is None else min(self.size, start + length)
        first, last = self._hole
        before = self._kept.read(start, max(0, min(end, first) - start)) if start < first else b""
        skipped = last - first
        begins = max(start, first)
        after = self._kept.read(begins + skipped, end - begins) if end > begins else b""
        return before + after


def without_mark(kept: KeptOutput, mark: str | None) -> tuple[WholeOutput, str | None]:
    """The stream, and what the shell told at its end."""
    if mark is None:
        return WholeOutput(kept), None
    begins = max(0, kept.size - _TOLD_WITHIN)
    tail = kept.read(begins)
    token = f"{mark} ".encode()
    at = tail.rfind(token)
    end = tail.find(b"\n", at)
    if at < 0 or end < 0:
        return WholeOutput(kept), None
    told = tail[at + len(token) : end].decode(errors="surrogateescape")
    return WholeOutput(kept, (begins + at, begins + end + 1)), told if told.startswith("/") else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Excerpt:
    """The text for a result. `left_out` bytes of it are only in the file, if there is one."""

    text: str
    left_out: int
    is_binary: bool


def excerpt(whole: WholeOutput, *, inline: int, where: str | None) -> Excerpt:
    """Whole while it has at most `inline` bytes; else its first and last lines around a sentence that names the file. Where there is
    none, as many of its first and last bytes as fit a result."""
    is_binary = looks_binary(whole.read(0, _LOOKED_AT))
    if whole.size <= inline:
        return Excerpt(text=whole.read().decode(errors="replace"), left_out=0, is_binary=is_binary)
    if where is None:
        head = _whole_characters(whole.read(0, inline // 2))
        tail = _without_a_cut_character(whole.read(whole.size - inline // 2))
    else:
        head = _first_lines(whole.read(0, SIDE))
        tail = _last_lines(whole.read(whole.size - SIDE))
    left_out = whole.size - len(head) - len(tail)
    rest = (
        f"the whole output is in {where}" if where else "no file could be written: ask for parts (head, tail, sed -n)"
    )
    text = (
        f"{head.decode(errors='replace')}\n[... {left_out} bytes left out; {rest} ...]\n{tail.decode(errors='replace')}"
    )
    return Excerpt(text=text, left_out=left_out, is_binary=is_binary)


def _first_lines(data: bytes) -> bytes:
    lines = data.split(b"\n")
    kept = b"\n".join(lines[:SIDE_LINES])
    return kept if len(lines) > SIDE_LINES else data[: data.rfind(b"\n")] if b"\n" in data else _whole_characters(data)


def _last_lines(data: bytes) -> bytes:
    lines = data.split(b"\n")
    if len(lines) > SIDE_LINES + 1:
        return b"\n".join(lines[-SIDE_LINES - 1 :])
    cut = data.find(b"\n", 0, -1) + 1
    return data[cut:] if cut else _without_a_cut_character(data)


def _without_a_cut_character(data: bytes) -> bytes:
    """Without the rest of a character that began before it."""
    return data[next((place for place in range(min(4, len(data))) if data[place] & 0xC0 != 0x80), 0) :]


def _whole_characters(data: bytes) -> bytes:
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    decoder.decode(data)
    held = decoder.getstate()[0]
    return data[: len(data) - len(held)]


def looks_binary(data: bytes) -> bool:
    """Whether these first bytes are no text: a NUL among them, or much that is not UTF-8."""
    if b"\0" in data:
        return True
    return _whole_characters(data).decode(errors="replace").count("\ufffd") * 10 > len(data)


async def spill(workspace: Workspace, directory: str, whole: WholeOutput, *, ending: str) -> str | None:
    """Write it to a new file that the workspace keeps, if it can be in `directory` below /mnt/data; returns its path as commands know
    it, or None where none can be written. Past 60 MiB its middle is left out, and counted in the file."""
    name = f"bash_{secrets.token_hex(4)}{ending}"
    return await workspace.keep(name, partial(pieces, whole, most=MOST_IN_FILE), beside=f"{DATA}/{directory}")


async def present(
    workspace: Workspace, directory: str, stream: Stream, whole: WholeOutput, *, inline: int
) -> JsonObject:
    """One stream as a result shows it: its text, and what there is to say where that is not all."""
    where: str | None = None
    binary = looks_binary(whole.read(0, _LOOKED_AT))
    if whole.size > inline or binary:
        ending = {"stdout": "", "stderr": ".stderr"}[stream] + (".bin" if binary else ".txt")
        where = await spill(workspace, directory, whole, ending=ending)
        if where is None:
            inline = MOST_WITHOUT_FILE
    shown = excerpt(whole, inline=inline, where=where)
    facts: JsonObject = {stream: shown.text, f"{stream}_bytes": whole.size}
    if where is not None:
        facts[f"{stream}_file"] = where
    if shown.left_out:
        facts[f"{stream}_left_out_bytes"] = shown.left_out
    if binary:
        facts[f"{stream}_is_binary"] = True
    return facts
