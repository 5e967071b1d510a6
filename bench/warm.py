"""One command in a box that is already there, beside `bash -c` on the bare host."""

from functools import partial

import anyio

from bench import bare
from bench.table import Action, Line, Scale, by_turns, compared
from limpet import open_workspace

APART = 0.005
BLOCK = 20
FLOOR = "bash -c true by asyncio, bare host"


async def rows(scale: Scale) -> list[Line]:
    floor = partial(bare.run, "bash", "-c", "true")
    async with open_workspace("bench", runtime=scale.runtime, home=scale.home) as box:
        ours = partial(box.run, "true")
        apart = await by_turns(ours, floor, n=scale.of(300), pause=partial(anyio.sleep, APART))

        dense = await by_turns(partial(_block, ours), partial(_block, floor), n=scale.of(20))
    each = [[taken / BLOCK for taken in times] for times in dense]
    return [
        compared(f"exec true, warm {scale.runtime}, 5 ms apart", apart[0], FLOOR, apart[1], target="≤ 0.35 ×"),
        compared(f"exec true, warm {scale.runtime}, back to back", each[0], FLOOR, each[1], target="≤ 1.0 ×"),
    ]


async def _block(action: Action) -> None:
    for _ in range(BLOCK):
        await action()
