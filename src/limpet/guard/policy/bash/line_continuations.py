"""Lines that a backslash joins, where the parser and bash may differ. Pure.

shfmt 3.14 takes the line after a comment that ends in a backslash for a part of the line before, and does not see `$(…)` when a
backslash and a line break stand behind the `$`; bash runs both. Only the everyday form is left: a blank, the backslash, the break.
And in `$(…)` bash ends a here-document at a line that only begins with its word, where a bracket follows; one that stands in
another's body ends with the outer one's word.
"""

import re
from collections.abc import Iterator

from limpet.guard.policy.bash.side_effects import everything
from limpet.guard.policy.bash.tree import CmdSubst, DblQuoted, File, ProcSubst, Redirect, SglQuoted

_ODD = re.compile(rb"[\x01-\x08\x0b-\x1f\x7f]")
_JOINED = re.compile(rb"(?<!\\)((?:\\\\)*)\\\n")
_COMMENT = re.compile(rb"(?:^|[\s;&|(){}`])#")


def unclear_lines(source: bytes, file: File) -> Iterator[str]:
    """The lines whose joining is not sure."""
    if b"\\\n" not in source:
        return
    literal = list(_literal(file))
    for found in _JOINED.finditer(source):
        at = found.start()
        begin = source.rfind(b"\n", 0, found.end() - 1) + 1
        is_plain = not found[1] and source[at - 1 : at] in (b" ", b"\t") and not _COMMENT.search(source[begin:at])
        if not is_plain and not any(start <= at < end for start, end in literal):
            yield source[begin : found.end()].decode(errors="replace")


def odd_characters(source: bytes, file: File) -> Iterator[str]:
    """Control characters beside tab and line feed: blanks for the parser, letters for bash (a carriage return before a # above all)."""
    odd = list(_ODD.finditer(source))
    literal = list(_literal(file)) if odd else []
    for found in odd:
        if not any(start <= found.start() < end for start, end in literal):
            yield repr(found[0].decode())


def unclear_ends(source: bytes, file: File) -> Iterator[str]:
    """Lines of here-documents at which bash may end them: that are their word, and in substitutions that begin with it."""
    if b"<<" not in source:
        return
    for outer in everything(file):
        if isinstance(outer, Redirect):
            yield from _early(source, outer, is_inside=False)
        elif isinstance(outer, CmdSubst | ProcSubst):
            for node in everything(outer):
                if isinstance(node, Redirect):
                    yield from _early(source, node, is_inside=True)


def _early(source: bytes, node: Redirect, *, is_inside: bool) -> Iterator[str]:
    if node.op not in ("<<", "<<-") or node.word is None:
        return
    word = "".join(getattr(part, "value", "") or _text(part) for part in node.word.parts).replace("\\", "")
    if node.hdoc is None or node.hdoc.pos is None or node.hdoc.end is None:
        return
    lines = source[node.hdoc.pos.offset : node.hdoc.end.offset].decode(errors="replace").split("\n")
    if lines[-1].lstrip("\t") == word:  # its own end
        lines.pop()
    for line in lines:
        bare = line.lstrip("\t")
        if bare == word or (is_inside and bare.startswith(word)):
            yield line


def _text(part: object) -> str:
    return "".join(getattr(piece, "value", "") for piece in part.parts) if isinstance(part, DblQuoted) else ""


def _literal(file: File) -> Iterator[tuple[int, int]]:
    """Where nothing is joined: single quotes, and here-documents with a quoted end."""
    for node in everything(file):
        if isinstance(node, Redirect) and node.hdoc is not None and node.word is not None:
            quoted = any(
                isinstance(part, SglQuoted | DblQuoted) or "\\" in getattr(part, "value", "")
                for part in node.word.parts
            )
            if quoted and node.hdoc.pos and node.hdoc.end:
                yield node.hdoc.pos.offset, node.hdoc.end.offset
        elif isinstance(node, SglQuoted) and not node.dollar and node.pos and node.end:
            yield node.pos.offset, node.end.offset
