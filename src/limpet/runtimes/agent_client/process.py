"""One command in a box, as the ports want it."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence

import anyio

from limpet.core.command import START, Chunk, Exited, Outcome, Position, TimedOut
from limpet.core.errors import SandboxGone
from limpet.runtimes.agent import wire
from limpet.runtimes.agent_client.client import Client
from limpet.runtimes.agent_client.events import Answer, Described, RequestRefused
from limpet.runtimes.agent_client.pending import OutputSubscription, Pending

_STDIN_PIECE = 1 << 18


class BoxProcess:
    """core.ports.Process. `number` is the agent's; None while it has not answered."""

    def __init__(self, exec_id: str, client: Client, number: int | None = None) -> None:
        self._exec_id = exec_id
        self._client = client
        self.number = number
        self.pid: int | None = None  # inside the box, where the agent told it
        self.is_overdue = False
        self._ahead: OutputSubscription | None = None
        self._readings: set[OutputSubscription] = set()
        self._limit: asyncio.TimerHandle | None = None
        self._outcome: Outcome | None = None
        self._ended: anyio.Event | None = None  # made by the first caller that waits

    @property
    def exec_id(self) -> str:
        return self._exec_id

    @property
    def has_ended(self) -> bool:
        return self._outcome is not None

    def comes_with(self, ahead: OutputSubscription) -> None:
        """The first of its output comes unasked; it is for the first who reads from the start."""
        self._ahead = ahead

    def hold_limit(self, seconds: float, overdue: Callable[[], None]) -> None:
        """Call `overdue` then, unless it ends before."""
        self._limit = asyncio.get_running_loop().call_later(seconds, overdue)

    def end(self, outcome: Outcome) -> None:
        """It has ended so. Later calls change nothing."""
        if self._outcome is not None:
            return
        # Once its time is up and past, a shell that was killed from outside has timed out.
        self._outcome = TimedOut() if self.is_overdue and isinstance(outcome, Exited) else outcome
        if self._limit is not None:
            self._limit.cancel()
        if self._ended is not None:
            self._ended.set()

    def cut_off(self, outcome: Outcome) -> None:
        """It counts as ended so, whatever its agent does: who reads its output gets what has come."""
        self.end(outcome)
        for reading in [*self._readings, *([self._ahead] if self._ahead else [])]:
            reading.has_all = True
            reading.wake()

    async def output(self, since: Position = START) -> AsyncIterator[Chunk]:
        if self.number is None:
            return  # the agent has reported nothing of it
        if since == START and self._ahead is not None:
            reading, self._ahead = self._ahead, None
        else:
            reading = await self._client.open_reading(self.number, since)
        self._readings.add(reading)
        used = 0
        try:
            while (chunk := await self._client.next_chunk(reading)) is not None:
                if reading.ahead and not reading.has_all:
                    self._client.grant(reading, wire.WINDOW - wire.AHEAD)
                yield chunk
                used += len(chunk.data)
                if used >= wire.WINDOW // 4:
                    self._client.grant(reading, used)
                    used = 0
        finally:
            self._readings.discard(reading)
            self._client.close_reading(reading)

    async def extent(self) -> tuple[Position, Position]:
        answer = await self._client.ask(wire.FIND, {"exec_id": self._exec_id})
        return answer.kept if isinstance(answer, Described) else (Position(), Position())

    async def wait(self) -> Outcome:
        if self._outcome is None:
            self._ended = self._ended or anyio.Event()
            await self._ended.wait()
            assert self._outcome is not None
        return self._outcome

    def notes(self) -> Sequence[str]:
        return () if self.number is None else self._client.notes(self.number)

    async def write(self, data: bytes) -> None:
        for at in range(0, len(data), _STDIN_PIECE):
            payload = wire.NUMBER.pack(self._known()) + data[at : at + _STDIN_PIECE]
            await self._client.ask_with(wire.WRITE, payload, Pending())

    async def close_stdin(self) -> None:
        await self._ask(wire.CLOSE_STDIN)

    async def resize(self, columns: int, rows: int) -> None:
        await self._ask(wire.RESIZE, columns=columns, rows=rows)

    async def signal(self, number: int) -> None:
        await self._ask(wire.SIGNAL, number=number)

    async def abort(self) -> None:
        if self._outcome is None and not isinstance(await self._ask(wire.ABORT), RequestRefused):
            await self.wait()

    async def forget(self) -> None:
        if self._ahead is not None:
            self._client.close_reading(self._ahead)
        if self.number is not None:
            # No answer is awaited: requests are handled in order, so a later one for this id comes after it.
            self._client.forget(self.number)

    async def _ask(self, kind: int, **values: int) -> Answer:
        return await self._client.ask(kind, {"process": self._known(), **values})

    def _known(self) -> int:
        if self.number is None:
            raise SandboxGone("Its agent did not say that the command began.")
        return self.number
