"""What is there when nothing happens: the memory of a box that waits, and how long the program takes to begin."""

import statistics
import sys
import time
from functools import partial
from pathlib import Path

import anyio
import httpx2

from bench import bare
from bench.gateway import LIMPET, gateway
from bench.table import Line, NotMeasured, Row, Scale, by_turns, compared
from limpet import open_workspace


async def rows(scale: Scale) -> list[Line]:
    return [await _box(scale), await _help(scale), await _ready(scale)]


async def _box(scale: Scale) -> Line:
    """A box that has run commands and waits for the next one: everything in it, and bubblewrap's own process."""
    name = f"idle box, {scale.runtime}, PSS of all its processes"
    async with open_workspace("bench", runtime=scale.runtime, home=scale.home) as box:
        for _ in range(5):
            await box.run("true")
            await anyio.sleep(0.1)
        pid = box.ref.facts.get("pid")
        if not isinstance(pid, int):
            return NotMeasured(name=name, reason="A box of this runtime is not a process.")
        try:
            size = box_mib(pid)
        except PermissionError:
            return NotMeasured(name=name, reason="Only root can look at the agent's memory.")
    return Row(name=name, ours=size, beside="none", floor=0.0, unit="MiB", n=1, target="≤ 12 MiB")


def box_mib(pid: int) -> float:
    """PSS of a box's processes, from its agent's up to bubblewrap's own and down to all others. PermissionError for others than root."""
    return sum(map(_pss_mib, [_parent(pid), *_below(pid)]))


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def _below(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(one for child in children for one in _below(int(child)))]


def _pss_mib(pid: int) -> float:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024


async def _help(scale: Scale) -> Line:
    ours, floor = await by_turns(
        partial(bare.run, str(LIMPET), "--help"), partial(bare.run, sys.executable, "-c", "pass"), n=scale.of(20)
    )
    return compared("limpet --help", ours, "python -c pass, same interpreter", floor, target="≤ 200 ms")


async def _ready(scale: Scale) -> Line:
    """From the start of the program to its first answer, with a new home each time."""
    times, floor = [], []
    for _ in range(scale.of(5)):
        begun = time.perf_counter()
        async with gateway(scale.runtime) as url, httpx2.AsyncClient(trust_env=False) as client:
            (await client.get(f"{url}/livez")).raise_for_status()
            times.append((time.perf_counter() - begun) * 1000)
        begun = time.perf_counter()
        await bare.run(sys.executable, "-c", "import starlette, uvicorn, sqlalchemy, pydantic")
        floor.append((time.perf_counter() - begun) * 1000)
    beside = "python -c 'import starlette, uvicorn, sqlalchemy, pydantic'"
    return Row(
        name=f"server ready, {scale.runtime}",
        ours=statistics.median(times),
        beside=beside,
        floor=statistics.median(floor),
        unit="ms",
        n=len(times),
        target="≤ 2000 ms",
    )
