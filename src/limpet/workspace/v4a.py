"""The diff format V4A of OpenAI's `apply_patch` tool: a text and a diff in, the new text out. Pure.

A diff of a new file has lines that begin with `+`. One of an existing file has hunks: optional `@@` lines that name a line above, then
lines that begin with a space (as they stand there), `-` (which go) or `+` (which come). Lines are found as they stand, then without the
space at their end, then without any around them. The reference of the format is `agents.apply_diff` of openai-agents, to which
`tests/workspace/test_v4a.py` compares this. A text has at most LINES_LIMIT lines, and the search of all hunks takes at most WORK_LIMIT
steps and one search more: about a second.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

SHOWN_LINES = 6  # of what was not found
SHOWN_CHARACTERS = 200  # of each of them
LINES_LIMIT = 200_000  # of a text that is changed
WORK_LIMIT = 5_000_000  # lines looked at for the hunks of one diff
END_OF_FILE = "*** End of File"
_ENDS = ("*** End Patch", "*** Update File:", "*** Delete File:", "*** Add File:")
_NEWLINES = re.compile(r"\r?\n")
_AS: tuple[Callable[[str], str], ...] = (str, str.rstrip, str.strip)


class DiffFailed(ValueError):
    """The diff does not fit the text, or is not of the format; the sentence says what would be right."""


@dataclass(frozen=True, slots=True)
class _Change:
    """At line `at` of the text, from 0, `removed` lines go and `added` come."""

    at: int
    removed: int
    added: list[str]


@dataclass(slots=True)
class _Hunk:
    """`context` is what stands in the text; the changes are counted from its beginning. `line` is where it begins in the diff, from 1."""

    line: int
    context: list[str] = field(default_factory=list)
    changes: list[_Change] = field(default_factory=list)
    is_at_end: bool = False


def created(diff: str) -> str:
    """The text of a new file; it ends with a newline unless it is empty. Raises DiffFailed."""
    newline = "\r\n" if "\r\n" in diff else "\n"
    lines = _body(_lines_of(diff))
    for number, line in enumerate(lines, start=1):
        if not line.startswith("+"):
            raise DiffFailed(
                f"In the diff of a new file every line begins with +, and line {number} does not: {_quoted(line)}"
            )
    return "".join(line[1:] + newline for line in lines)


def updated(text: str, diff: str) -> str:
    """The text after the diff. A line that stays keeps its newline; one that comes has that of the line in whose place or below which it
    comes. Raises DiffFailed."""
    if text.count("\n") > LINES_LIMIT:
        raise DiffFailed(
            f"The file has more than {LINES_LIMIT} lines, the most that a diff can change. Change it with a command."
        )
    *ended, last = text.split("\n")
    lines = [*(line.removesuffix("\r") for line in ended), last]
    returns = ["\r" if line.endswith("\r") else "" for line in ended]
    returns.append(returns[-1] if returns else "\r" if "\r\n" in diff else "")
    changes = _Placement(lines, _body(_lines_of(diff))).changes()
    if not changes:
        raise DiffFailed("The diff changes nothing: it has no line that begins with + or -.")
    result: list[tuple[str, str]] = []  # lines, and what stands before their line feed
    cursor = 0
    for change in changes:
        if change.at < cursor:
            raise DiffFailed(
                f"Two hunks change the same lines, around line {change.at + 1} of the file. Write them as one."
            )
        result += zip(lines[cursor : change.at], returns[cursor : change.at], strict=True)
        beside = returns[change.at if change.removed else max(change.at - 1, 0)]
        result += [(line, beside) for line in change.added]
        cursor = change.at + change.removed
    result += zip(lines[cursor:], returns[cursor:], strict=True)
    return "\n".join([*(line + end for line, end in result[:-1]), *(line for line, _ in result[-1:])])


def _lines_of(diff: str) -> list[str]:
    lines = [line.rstrip("\r") for line in _NEWLINES.split(diff)]
    return lines[:-1] if lines[-1] == "" else lines


def _body(lines: list[str]) -> list[str]:
    """Without the envelope that models put around it."""
    if lines and lines[0].strip() == "*** Begin Patch":
        lines = lines[1:]
    if lines and lines[0].startswith(("*** Update File:", "*** Add File:")):
        lines = lines[1:]
    if lines and lines[-1].strip() == "*** End Patch":
        lines = lines[:-1]
    for line in lines:
        if line.startswith(_ENDS):
            raise DiffFailed(
                f"One call changes one file, and the diff goes on with {_quoted(line)} Make a call for each file."
            )
    return lines


class _LineIndex:
    """The lines of a file in one of the forms in which they are compared, and where each of them stands. `looked_at` counts the work."""

    def __init__(self, lines: list[str]) -> None:
        self._lines = lines
        self._places: dict[str, list[int]] = {}
        for place, line in enumerate(lines):
            self._places.setdefault(line, []).append(place)
        self.looked_at = 0

    def stands_before(self, line: str, end: int) -> bool:
        """Whether the line stands above line `end`."""
        places = self._places.get(line)
        return places is not None and places[0] < end

    def first_from(self, line: str, start: int) -> int | None:
        """Where the line stands first at `start` or below it."""
        places = self._places.get(line, [])
        at = bisect_left(places, start)
        return places[at] if at < len(places) else None

    def place_of(self, wanted: Sequence[str], start: int, end: int) -> int | None:
        """Where the lines stand together first, from `start` to `end`. Looks only where the rarest of them stands, unless that is in too
        many places."""
        rarest: tuple[int, int, int, list[int]] | None = None
        for offset, line in enumerate(wanted):
            places = self._places.get(line, [])
            low = bisect_left(places, start + offset)
            high = bisect_right(places, end - len(wanted) + offset, low)
            if low >= high:
                return None
            if rarest is None or high - low < rarest[0]:
                rarest = high - low, low, offset, places
        assert rarest is not None, "a hunk has a line"
        count, low, offset, places = rarest
        if count * len(wanted) > end - start:
            found, _, _ = _find(self._lines, wanted, start, end)
            self.looked_at += (end if found is None else found + len(wanted)) - start
            return found
        for at in range(low, low + count):
            place = places[at] - offset
            self.looked_at += len(wanted)
            if self._lines[place : place + len(wanted)] == wanted:
                return place
        return None


class _Placement:
    """Finds the place of each hunk in the lines of a file."""

    def __init__(self, lines: list[str], diff: list[str]) -> None:
        self._lines = lines
        self._diff = diff
        self._at = 0  # in the diff
        self._cursor = 0  # in the file: behind the hunk before
        self._forms: dict[int, list[str]] = {0: lines}
        self._indexes: dict[int, _LineIndex] = {}

    def changes(self) -> list[_Change]:
        """Of all hunks, in their order."""
        found: list[_Change] = []
        while self._at < len(self._diff):
            anchors = self._read_anchors()
            if not anchors and self._cursor:
                raise DiffFailed(
                    f"Line {self._at + 1} of the diff should begin a hunk with @@: {_quoted(self._diff[self._at])}"
                )
            named = [each for each in anchors if each.strip()]
            for number, anchor in enumerate(named):
                self._go_behind(anchor, is_required=len(anchors) > 1, only_forward=number > 0)
            hunk = self._read_hunk()
            place = self._place_of(hunk)
            found += [_Change(place + each.at, each.removed, each.added) for each in hunk.changes]
            self._cursor = place + len(hunk.context)
        return found

    def _read_anchors(self) -> list[str]:
        anchors = []
        while self._at < len(self._diff) and (self._diff[self._at] == "@@" or self._diff[self._at].startswith("@@ ")):
            anchors.append(self._diff[self._at][3:])
            self._at += 1
        return anchors

    def _go_behind(self, anchor: str, *, is_required: bool, only_forward: bool) -> None:
        for form, written in ((0, anchor), (2, anchor.strip())):
            index = self._index(form)
            if not only_forward and index.stands_before(written, self._cursor):
                return
            place = index.first_from(written, self._cursor)
            if place is not None:
                self._cursor = place + 1
                return
        if is_required:
            raise DiffFailed(f"The line that @@ names is not in the file below line {self._cursor}: {_quoted(anchor)}")

    def _read_hunk(self) -> _Hunk:
        hunk = _Hunk(self._at + 1)
        removed, added = 0, list[str]()

        def close() -> None:
            nonlocal removed, added
            if removed or added:
                hunk.changes.append(_Change(len(hunk.context) - removed, removed, added))
            removed, added = 0, []

        while self._at < len(self._diff):
            line = self._diff[self._at] or " "
            if line.startswith(("@@", "***")):
                break
            self._at += 1
            match line[0]:
                case "+":
                    added.append(line[1:])
                case "-":
                    # What comes before a line that goes stands before it.
                    if added and not removed:
                        close()
                    removed += 1
                    hunk.context.append(line[1:])
                case " ":
                    close()
                    hunk.context.append(line[1:])
                case _:
                    raise DiffFailed(f"Line {self._at} of the diff begins with none of space, + and -: {_quoted(line)}")
        close()
        if self._at < len(self._diff) and self._diff[self._at] == END_OF_FILE:
            hunk.is_at_end = True
            self._at += 1
        elif self._at < len(self._diff) and self._diff[self._at].startswith("***"):
            raise DiffFailed(f"Line {self._at + 1} of the diff cannot be read: {_quoted(self._diff[self._at])}")
        elif self._at + 1 == hunk.line:
            raise DiffFailed(f"The hunk at line {hunk.line} of the diff is empty.")
        return hunk

    def _place_of(self, hunk: _Hunk) -> int:
        """The line of the file at which the hunk's context begins. Raises DiffFailed, which shows what differs."""
        end = len(self._lines) - (self._lines[-1] == "" and hunk.is_at_end)
        starts = [max(0, end - len(hunk.context)), min(self._cursor, end)] if hunk.is_at_end else [self._cursor]
        if not hunk.context:
            return starts[0]
        for start in starts:
            for form, simplified in enumerate(_AS):
                place = self._index(form).place_of([simplified(line) for line in hunk.context], start, end)
                if place is not None:
                    return place
                if sum(index.looked_at for index in self._indexes.values()) > WORK_LIMIT:
                    raise DiffFailed(
                        f"The diff has too many hunks whose lines stand in too many places: the search ended at line "
                        f"{hunk.line} of it. Send it in parts, or with context that stands in one place."
                    )
        nearest = (0, 0)
        for start in starts:
            for form, simplified in enumerate(_AS):
                wanted = [simplified(line) for line in hunk.context]
                nearest = max(nearest, _find(self._form(form), wanted, start, end)[1:])
        raise DiffFailed(self._mismatch(hunk, *nearest))

    def _mismatch(self, hunk: _Hunk, matched: int, place: int) -> str:
        said = [f"The hunk at line {hunk.line} of the diff was not found in the file below line {self._cursor}."]
        if matched:
            there = self._lines[place + matched] if place + matched < len(self._lines) else None
            found = "the file ends" if there is None else f"the file has {_quoted(there)}"
            said.append(
                f"Its first {matched} lines stand at line {place + 1}; then, at line {place + matched + 1}, {found} "
                f"where the diff has {_quoted(hunk.context[matched])}"
            )
        else:
            shown = "\n".join(line[:SHOWN_CHARACTERS] for line in hunk.context[:SHOWN_LINES])
            said.append(f"No line of the file is its first one. It looks for:\n{shown}")
        return " ".join(said) + "\nRead the file again and copy the lines as they stand."

    def _form(self, form: int) -> list[str]:
        if form not in self._forms:
            self._forms[form] = [_AS[form](line) for line in self._lines]
        return self._forms[form]

    def _index(self, form: int) -> _LineIndex:
        if form not in self._indexes:
            self._indexes[form] = _LineIndex(self._form(form))
        return self._indexes[form]


def _find(lines: Sequence[str], wanted: Sequence[str], start: int, end: int) -> tuple[int | None, int, int]:
    """Where `wanted` stands among the lines from `start` to `end`, and else the longest beginning of it that does and where (Knuth,
    Morris and Pratt: linear, also where all lines are alike)."""
    back = [0] * len(wanted)
    length = 0
    for at in range(1, len(wanted)):
        while length and wanted[at] != wanted[length]:
            length = back[length - 1]
        length += wanted[at] == wanted[length]
        back[at] = length
    matched, longest, place = 0, 0, start
    for at in range(start, end):
        while matched and (matched == len(wanted) or lines[at] != wanted[matched]):
            matched = back[matched - 1]
        matched += lines[at] == wanted[matched]
        if matched > longest:
            longest, place = matched, at - matched + 1
        if matched == len(wanted):
            return place, matched, place
    return None, longest, place


def _quoted(line: str) -> str:
    return repr(line[:SHOWN_CHARACTERS] + ("…" if len(line) > SHOWN_CHARACTERS else "")) + "."
