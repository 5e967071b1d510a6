"""Many commands at once in one box, beside the same many on the bare host."""

from functools import partial

import anyio

from bench import bare
from bench.table import Action, Line, Scale, by_turns, compared, seconds
from limpet import open_workspace

MANY = 50


async def rows(scale: Scale) -> list[Line]:
    async with open_workspace("bench", runtime=scale.runtime, home=scale.home) as box:
        ours, floor = await by_turns(
            partial(_at_once, partial(box.run, "sleep 0.1")),
            partial(_at_once, partial(bare.run, "bash", "-c", "sleep 0.1")),
            n=scale.of(10),
        )
    beside = "bash -c by asyncio, bare host"
    return [compared(f"{MANY} × sleep 0.1 at once, {scale.runtime}", ours, beside, floor, target="≤ 300 ms")]


async def _at_once(action: Action) -> None:
    async with anyio.create_task_group() as tasks:
        for _ in range(MANY):
            tasks.start_soon(seconds, action)
