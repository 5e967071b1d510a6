"""The other gateways on the database, as this one knows them: whether each is alive, and where it is reached."""

from contextlib import AsyncExitStack
from typing import Self

import anyio
import structlog

from limpet.core.clock import Clock
from limpet.core.errors import StoreError
from limpet.store.nodes import NodeRecord, Nodes

BEATS = 4  # within the silence after which a gateway counts as gone
MOST_PAUSE = 5.0  # seconds between two heartbeats
PAUSE = 0.2  # seconds between two looks at one that is late
log = structlog.get_logger()


class NodeDirectory:
    """`home` is this gateway's own, `address` where others reach it, None where they cannot; `silence` is in seconds. While it is open
    (`async with`) the others see that this one is alive; where the database is no shared one there are none, and it does nothing."""

    def __init__(self, nodes: Nodes, *, home: str, address: str | None, silence: float, clock: Clock) -> None:
        self.home = home
        self.silence = silence
        self._nodes = nodes
        self._address = address
        self._clock = clock
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        if self._nodes.is_shared:
            await self._announce()
            tasks = await self._stack.enter_async_context(anyio.create_task_group())
            self._stack.callback(tasks.cancel_scope.cancel)
            tasks.start_soon(self._announce_for_ever, name="this node")
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._stack.aclose()

    async def find(self, home: str | None) -> NodeRecord | None:
        """The gateway of a home; None where none ever said that it is there, as those of older versions do not. StoreFailed."""
        if home is None or not self._nodes.is_shared:
            return None
        return await self._nodes.get(home, now=self._clock.now())

    async def settled(self, home: str | None) -> NodeRecord | None:
        """The same once it is known whether that gateway lives: one that is late with its heartbeats is waited for until it has sent one,
        or counts as gone."""
        while True:
            node = await self.find(home)
            if node is None or not self.silence / 2 <= node.silent < self.silence:
                return node
            await anyio.sleep(PAUSE)

    def is_gone(self, node: NodeRecord) -> bool:
        """Whether it was silent for so long that others go on in its place."""
        return node.silent >= self.silence

    async def _announce_for_ever(self) -> None:
        while True:
            await anyio.sleep(min(self.silence / BEATS, MOST_PAUSE))
            try:
                await self._nodes.read_clock()
                await self._announce()
            except StoreError as problem:
                log.warning("node_not_announced", reason=problem.message)

    async def _announce(self) -> None:
        await self._nodes.announce(self.home, address=self._address, at=self._clock.now())
