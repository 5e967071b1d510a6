"""What a benchmark hands back, how it takes times, and the table that is printed."""

import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

Action = Callable[[], Awaitable[object]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """How much is measured, and with which runtime, whose own things go to `home`. Quick is for seeing that everything still runs."""

    home: Path
    is_quick: bool = False
    runtime: str = "bubblewrap"

    def of(self, count: int, *, least: int = 3) -> int:
        """`count`, or a tenth of it."""
        return max(least, count // 10) if self.is_quick else count


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line: what was measured, ours, what it stands beside, in which unit, from how many measurements (medians), and what ours,
    or the ratio (×), should be."""

    name: str
    ours: float
    beside: str
    floor: float
    unit: str
    n: int
    target: str = ""

    @property
    def ratio(self) -> str:
        return f"{self.ours / self.floor:.2f}" if self.floor > 0 else "-"


@dataclass(frozen=True, slots=True, kw_only=True)
class NotMeasured:
    """A benchmark that cannot run here; the reason is a sentence. An optional one may be missing."""

    name: str
    reason: str
    is_optional: bool = False


Line = Row | NotMeasured


async def seconds(action: Action) -> float:
    """How long one call takes."""
    begun = time.perf_counter()
    await action()
    return time.perf_counter() - begun


async def by_turns(*actions: Action, n: int, pause: Action | None = None) -> list[list[float]]:
    """Each action's n times in milliseconds, after one unmeasured round. They take turns, so that what disturbs one disturbs all."""
    times: list[list[float]] = [[] for _ in actions]
    for action in actions:
        await action()
    for _ in range(n):
        for taken, action in zip(times, actions, strict=True):
            if pause is not None:
                await pause()
            taken.append(await seconds(action) * 1000)
    return times


def compared(
    name: str, ours: Sequence[float], beside: str, floor: Sequence[float], unit: str = "ms", *, target: str = ""
) -> Row:
    """A row of medians."""
    return Row(
        name=name,
        ours=statistics.median(ours),
        beside=beside,
        floor=statistics.median(floor),
        unit=unit,
        n=len(ours),
        target=target,
    )


def as_table(lines: Sequence[Line]) -> str:
    """The lines under one head, columns aligned."""
    head = ("benchmark", "ours", "floor", "ratio", "unit", "n", "target", "floor is")
    cells = [head] + [_cells(line) for line in lines if isinstance(line, Row)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(head))]
    shown = [
        "  ".join(
            cell.ljust(width) if column in (0, 4, 6, 7) else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    ]
    shown += [f"{line.name}: not measured. {line.reason}" for line in lines if isinstance(line, NotMeasured)]
    return "\n".join(shown)


def _cells(row: Row) -> tuple[str, ...]:
    return (row.name, f"{row.ours:.2f}", f"{row.floor:.2f}", row.ratio, row.unit, str(row.n), row.target, row.beside)
