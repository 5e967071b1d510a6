"""A lot of output through a callback, beside a bare pipe; and what it costs in memory."""

from functools import partial

from bench import bare
from bench.table import Line, Row, Scale, by_turns, compared
from limpet import Workspace, open_workspace

MEGABYTE = 1_000_000


class Peak:
    """The most memory that this process held, looked at on every chunk."""

    def __init__(self) -> None:
        self.begun = bare.resident_mib()
        self.most = self.begun
        self.size = 0

    async def take(self, data: bytes) -> None:
        self.size += len(data)
        self.most = max(self.most, bare.resident_mib())


async def rows(scale: Scale) -> list[Line]:
    size = 100 * MEGABYTE // (10 if scale.is_quick else 1)
    count = scale.of(5)
    peaks: list[float] = []
    async with open_workspace("bench", runtime=scale.runtime, home=scale.home) as box:
        ours, floor = await by_turns(
            partial(_through_callback, box, size, peaks),
            partial(bare.read_all, "head", "-c", str(size), "/dev/zero"),
            n=count,
        )
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


async def _through_callback(box: Workspace, size: int, peaks: list[float]) -> None:
    peak = Peak()
    result = await box.run(f"head -c {size} /dev/zero", on_stdout=peak.take, keep_output=False)
    if (result.exit_code, peak.size) != (0, size):
        raise RuntimeError(f"{peak.size} of {size} bytes came, and then {result.outcome}.")
    peaks.append(peak.most - peak.begun)
