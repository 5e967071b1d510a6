"""A lot of output through a callback, beside a bare pipe; and what it costs in memory."""

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from bench import bare
from bench.table import Line, Row, Scale, by_turns, compared
from limpet import Workspace, open_workspace

MEGABYTE = 1_000_000
Taker = TypeVar("Taker", bound="Counted")


class Counted:
    """How many bytes came."""

    def __init__(self) -> None:
        self.size = 0

    async def take(self, data: bytes) -> None:
        self.size += len(data)


class Peak(Counted):
    """And the most memory that this process held meanwhile, looked at on every chunk."""

    def __init__(self) -> None:
        super().__init__()
        self._begun = self._most = bare.resident_mib()

    async def take(self, data: bytes) -> None:
        await super().take(data)
        self._most = max(self._most, bare.resident_mib())

    @property
    def growth(self) -> float:
        return self._most - self._begun


async def rows(scale: Scale) -> list[Line]:
    size = 100 * MEGABYTE // (10 if scale.is_quick else 1)
    count = scale.of(20)
    peaks = []
    async with open_workspace("bench", runtime=scale.runtime, home=scale.home) as box:
        ours, floor = await by_turns(
            partial(_through_callback, box, size, Counted),
            partial(bare.read_all, "head", "-c", str(size), "/dev/zero"),
            n=count,
        )
        for _ in range(count):  # not timed: to look costs more than to take
            peaks.append((await _through_callback(box, size, Peak)).growth)
    name = f"{size // MEGABYTE} MB of output, {scale.runtime}"
    growth = Row(
        name=f"{name}, growth of memory",
        ours=max(peaks),
        beside="none",
        floor=0.0,
        unit="MiB",
        n=count,
        target="< 15.2 MiB",
    )
    beside = "the same through a bare asyncio pipe"
    return [compared(name, ours, beside, floor, target="≤ 1.43 × (rate ≥ 0.7)"), growth]


async def _through_callback(box: Workspace, size: int, kind: Callable[[], Taker]) -> Taker:
    taker = kind()
    result = await box.run(f"head -c {size} /dev/zero", on_stdout=taker.take, keep_output=False)
    if (result.exit_code, taker.size) != (0, size):
        raise RuntimeError(f"{taker.size} of {size} bytes came, and then {result.outcome}.")
    return taker
