"""A workspace for the time of an `async with`, or from `open` to `close`.

The parts under a workspace are structured: task groups that must be left in the task that entered them. `open` and `close` may be called
from different tasks (cells of a notebook, start and stop of a server), so between them a task of its own, the owner, holds the block:
it enters it, waits until `close`, and leaves it. This is the one place where a task has no parent that waits for it; `close` does.
"""

import asyncio
from collections.abc import Callable, Generator
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any

import anyio

from limpet.core.errors import ConfigInvalid
from limpet.workspace.workspace import Closer, Workspace, ends_with_its_block

Make = Callable[[Closer], AbstractAsyncContextManager[Workspace]]
_OWNERS: set["_Owner"] = set()  # the event loop alone would keep no owner alive


class WorkspaceContext:
    """What `open_workspace` gives: `async with` it, or `open` it (`await` it does the same) and `close` it or its workspace later.

    It may be used once.
    """

    def __init__(self, make: Make) -> None:
        self._make = make
        self._block: AbstractAsyncContextManager[Workspace] | None = None
        self._owner: _Owner | None = None

    async def __aenter__(self) -> Workspace:
        self._refuse_twice()
        self._block = self._make(ends_with_its_block)
        return await self._block.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        assert self._block is not None, "left before it was entered"
        return await self._block.__aexit__(kind, error, trace)

    def __await__(self) -> Generator[object, None, Workspace]:
        return self.open().__await__()

    async def open(self) -> Workspace:
        """The workspace, until `close`, from whatever task that is called. A box of lifetime "process" that is never closed ends with
        the event loop or the process. Only on asyncio.

        Raises what `open_workspace` raises; ConfigInvalid where this was used before. If it is cancelled, the box is ended.
        """
        self._refuse_twice()
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError as error:
            raise ConfigInvalid("open_workspace", "open", "it needs asyncio's event loop; use `async with`.") from error
        self._owner = _Owner(self._make(self.close), loop)
        return await self._owner.open()

    async def close(self) -> None:
        """Leave the block: the box is ended or released, as `lifetime` says. Twice is quiet, also at once from several tasks. Raises
        what the block raised, such as a part of the box that broke. Raises ConfigInvalid."""
        if self._owner is None:
            raise ConfigInvalid("workspace", "close", "it is not open by `open()`; `async with` closes what it opened.")
        await self._owner.close()

    def _refuse_twice(self) -> None:
        if self._block is not None or self._owner is not None:
            raise ConfigInvalid("open_workspace", "open", "this was opened before; call open_workspace again.")


class _Owner:
    def __init__(self, block: AbstractAsyncContextManager[Workspace], loop: asyncio.AbstractEventLoop) -> None:
        self._block = block
        self._closing = asyncio.Event()
        self._loop = loop
        self._opened: asyncio.Future[Workspace] = self._loop.create_future()
        self._task: asyncio.Task[None] | None = None

    async def open(self) -> Workspace:
        self._task = self._loop.create_task(self._own(), name="limpet workspace")
        _OWNERS.add(self)
        self._task.add_done_callback(lambda task: _OWNERS.discard(self))
        either: set[asyncio.Future[Any]] = {self._task, self._opened}
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            # The caller is gone: cancel a boot that is under way, and end the box if there is one already.
            self._task.cancel()
            self._closing.set()
            with anyio.CancelScope(shield=True):
                await asyncio.wait([self._task])
            raise
        if not self._opened.done():
            await self._task  # raises why
            raise AssertionError("the owner ended without a workspace")
        return self._opened.result()

    async def close(self) -> None:
        if asyncio.get_running_loop() is not self._loop:
            raise ConfigInvalid("workspace", "close", "it was opened in another event loop; close it in that one.")
        assert self._task is not None
        self._closing.set()
        # A cancelled caller leaves the owner at its work: the box still ends.
        await asyncio.shield(self._task)

    async def _own(self) -> None:
        async with self._block as workspace:
            self._opened.set_result(workspace)
            await self._closing.wait()
