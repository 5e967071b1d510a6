"""Processes with engines over one store, for the engines' suite; and engines with a deliberate fault each."""

import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

import anyio

from limpet.core.clock import SystemClock
from limpet.core.errors import StoreError
from limpet.responses.engine import LeaseEngine, RunNews, owner_in
from limpet.store.database import Database
from limpet.store.entries import Entry
from limpet.store.journal import Journal
from limpet.store.responses import FIRST_EPOCH, Responses
from limpet.store.runs import RunClaim, Runs
from limpet.testing.engines import CarryRun
from tests.store.samples import a_response

SILENCE = 3600.0  # seconds: a predecessor of the same home is taken over at once


@dataclass
class Steps:
    """One run in one process, under the epoch of its claim; without a fence, under none."""

    run_id: str
    journal: Journal
    responses: Responses
    epoch: int | None

    async def append(self, text: str) -> None:
        number = len([entry async for entry in self.journal.read(self.run_id)])
        log = self.journal.resume(self.run_id, tenant="default", next_seq=number, epoch=self.epoch)
        try:
            await log.append(Entry(seq=number, step=0, type="said", data=b'"%b"' % text.encode()))
            await log.flush()
        finally:
            with anyio.CancelScope(shield=True), suppress(StoreError):
                await log.close()

    async def finish(self) -> None:
        await self.responses.finish(self.run_id, status="completed", completed_at=1)


@dataclass
class LeaseLab:
    """The lease engine, or a subclass of it, on a database. All processes are of one home, one after the other."""

    db: Database
    kind: type[LeaseEngine] = LeaseEngine
    has_fence: bool = True
    owners: dict[int, str] = field(default_factory=dict)
    _homes: itertools.count = field(default_factory=itertools.count)

    @asynccontextmanager
    async def process(self, carry: CarryRun) -> AsyncIterator[LeaseEngine]:
        owner, claims = owner_in("home"), dict[str, RunClaim]()
        async with Journal(self.db) as journal:

            async def claimed(claim: RunClaim) -> None:
                claims[claim.response_id] = claim

            async def carry_run(run_id: str) -> None:
                epoch = claims[run_id].epoch if run_id in claims else FIRST_EPOCH
                await carry(Steps(run_id, journal, Responses(self.db), epoch if self.has_fence else None))

            engine = self.kind(
                carry_run,
                runs=Runs(self.db),
                owner=owner,
                clock=SystemClock(),
                silence=SILENCE,
                news=RunNews(claimed=claimed, cancelled=lambda run_id: True),
            )
            self.owners[id(engine)] = owner
            async with engine:
                yield engine

    async def submit(self, engine: LeaseEngine) -> str:
        return (await Responses(self.db).insert(a_response(owner=self.owners[id(engine)]))).id

    async def written(self, run_id: str) -> list[str]:
        async with Journal(self.db) as journal:
            return [entry.data.decode().strip('"') async for entry in journal.read(run_id)]


class DoubleStart(LeaseEngine):
    """Carries a run again that it carries already."""

    async def start(self, run_id: str) -> None:
        if run_id in self._runs and self._group is not None:
            self._group.start_soon(self._carry, run_id)
        await super().start(run_id)


class LostWakeUp(LeaseEngine):
    """Begins one run each time that it is woken; what arrives before it waits again is forgotten."""

    async def __aenter__(self) -> "LostWakeUp":
        await super().__aenter__()
        self._woken, self._waiting = anyio.Event(), list[str]()
        assert self._group is not None
        self._group.start_soon(self._begin_waiting)
        return self

    async def start(self, run_id: str) -> None:
        if run_id not in self._waiting:
            self._waiting.append(run_id)
        self._woken.set()

    async def _begin_waiting(self) -> None:
        while True:
            await self._woken.wait()
            self._woken = anyio.Event()
            await super().start(self._waiting.pop(0))
