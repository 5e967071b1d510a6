"""The newest lines of one stream of a task, in bounded memory, with true totals. Knows no tasks."""

from collections import deque
from dataclasses import dataclass

LONGEST_LINE = 4_000  # characters kept of one line
MOST_CHARACTERS = 8 << 20  # kept of one stream


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """All that came: lines (a last one without its end counts), bytes, and how many lines are no longer kept."""

    lines: int
    bytes: int
    dropped_lines: int


class LineBuffer:
    """At most `most` lines. Long lines are cut in their middle and say so; the oldest go first and are counted."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lines: deque[str] = deque()
        self._characters = 0
        self._complete = 0
        self._bytes = 0
        self._open = _OpenLine()

    def feed(self, text: str) -> list[str]:
        """Take the next text; returns the lines that it completed, each as it is kept."""
        self._bytes += len(text.encode("utf-8", "replace"))
        *ended, rest = text.split("\n")
        completed = []
        for part in ended:
            self._open.add(part)
            completed.append(self._open.take().removesuffix("\r"))
        self._open.add(rest)
        for line in completed:
            self._keep(line)
        return completed

    @property
    def totals(self) -> Totals:
        return Totals(
            lines=self._complete + bool(self._open),
            bytes=self._bytes,
            dropped_lines=self._complete - len(self._lines),
        )

    def tail(self, most: int | None = None) -> str:
        """The newest lines, the unfinished one included, as they came; all that are kept by default."""
        lines = list(self._lines)
        if self._open:
            lines.append(str(self._open))
        shown = lines if most is None else lines[-most:]
        return "\n".join(shown) + ("\n" if shown and not self._open else "")

    @property
    def open_line(self) -> str:
        """What stands after the last end of a line: a prompt, often."""
        return str(self._open)

    def _keep(self, line: str) -> None:
        self._complete += 1
        self._lines.append(line)
        self._characters += len(line)
        while len(self._lines) > self._most or self._characters > MOST_CHARACTERS:
            self._characters -= len(self._lines.popleft())


class _OpenLine:
    """A line that has not ended: whole while short, then its head and a tail that moves along."""

    def __init__(self) -> None:
        self._head = ""
        self._tail = ""
        self._left_out = 0

    def __bool__(self) -> bool:
        return bool(self._head)

    def add(self, text: str) -> None:
        room = max(0, LONGEST_LINE // 2 - len(self._head))
        self._head += text[:room]
        rest = self._tail + text[room:]
        cut = max(0, len(rest) - LONGEST_LINE // 2)
        self._left_out += cut
        self._tail = rest[cut:]

    def take(self) -> str:
        line = str(self)
        self._head, self._tail, self._left_out = "", "", 0
        return line

    def __str__(self) -> str:
        middle = f"… [{self._left_out} characters left out] …" if self._left_out else ""
        return f"{self._head}{middle}{self._tail}"
