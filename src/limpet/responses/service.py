"""The life of responses: created, run by the engine, read from the journal, kept or deleted.

There is one path: a foreground request is a background run with a follower from its first event (docs/architecture.md).
"""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from typing import Any, Self

import anyio
import structlog

from limpet.core import events as ev
from limpet.core.clock import Clock
from limpet.core.errors import GatewayStopping, LimpetError, NotFound, StoreError, UpstreamError
from limpet.responses.engine import LeaseEngine, RunNews
from limpet.responses.failures import UNFORESEEN
from limpet.responses.lifecycle import ResponseLifecycle, queued
from limpet.responses.live_runs import ClaimedRun, LiveRun, ending_of
from limpet.responses.loop import Ending
from limpet.responses.metrics import Metrics
from limpet.responses.prepare import Preparer
from limpet.responses.prepared_run import PreparedRun
from limpet.responses.reader_leases import ReaderLeases
from limpet.responses.reading import as_it_is_now, missing_end
from limpet.responses.recovery import Recovery
from limpet.responses.replay import DecodedEvent, StreamEvent, follow, replay
from limpet.responses.request import ParsedRequest
from limpet.responses.run_meter import Spendings
from limpet.responses.run_queue import Rank, RunQueue
from limpet.responses.settings import ResponseSettings
from limpet.responses.writer import Writer
from limpet.store.idempotency import IdempotencyKey
from limpet.store.journal import Journal
from limpet.store.responses import FIRST_EPOCH, ResponseRecord, Responses
from limpet.store.runs import RunClaim, Runs

Json = dict[str, Any]
RECOVERIES_AT_ONCE = 16
log = structlog.get_logger()


class ResponseService:
    """The resource behind `/v1/responses`. Open it with `async with`: it goes on with the runs that an earlier process left. `owner` names
    this process among those that carry runs."""

    def __init__(
        self,
        *,
        responses: Responses,
        runs: Runs,
        journal: Journal,
        preparer: Preparer,
        recovery: Recovery,
        clock: Clock,
        metrics: Metrics,
        settings: ResponseSettings,
        spendings: Spendings,
        owner: str,
    ) -> None:
        self._responses = responses
        self._journal = journal
        self._preparer = preparer
        self._metrics = metrics
        self._spendings = spendings
        self._lifecycle = ResponseLifecycle(
            responses=responses, preparer=preparer, spendings=spendings, clock=clock, metrics=metrics
        )
        self._recovery = recovery
        self._live: dict[str, LiveRun] = {}
        self._claims: dict[str, ClaimedRun] = {}
        self._recoveries = anyio.Semaphore(RECOVERIES_AT_ONCE)
        self._stack = AsyncExitStack()
        self.queue = RunQueue(settings)
        self._metrics.queued.set_function(lambda: self.queue.waiting)
        self._leases = ReaderLeases(settings.leave_grace_secs, runs=runs, clock=clock, expired=self._left)
        told = RunNews(claimed=self._claimed, cancelled=self._wanted_cancelled)
        silence = settings.takeover_secs
        self._engine = LeaseEngine(self._carry, runs=runs, owner=owner, clock=clock, silence=silence, news=told)
        self.is_closing = False

    @property
    def preparer(self) -> Preparer:
        return self._preparer

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._leases)
            await stack.enter_async_context(self._engine)
            if claimed := await self._engine.recover():
                log.warning("responses_go_on", count=len(claimed))
            await self._end_orphans()
            self._stack = stack.pop_all()
        return self

    def _closes(self) -> bool:
        return self.is_closing

    async def __aexit__(self, *exc: object) -> None:
        await self.stop()
        await self._stack.aclose()

    async def stop(self) -> None:
        """Take no more requests and release the runs; followers get GatewayStopping. Their commands go on in their boxes."""
        self.is_closing = True
        self._journal.stop_following()
        await self._engine.close()

    async def create(self, tenant: str, asked: ParsedRequest, *, key: IdempotencyKey | None = None) -> PreparedRun:
        """Record a request and start its run. What was prepared is shown; the run is the engine's.

        Raises RequestError, GatewayStopping, IdempotencyKeyTaken; nothing is left behind then but, perhaps, a container's row."""
        if self.is_closing:
            raise GatewayStopping
        if asked.body.previous_response_id is not None:
            await self._settle(asked.body.previous_response_id)
        ticket = self.queue.enter(tenant, asked.rank)
        try:
            prepared = await self._preparer.prepare(
                tenant, asked, keeps_commands=lambda: self.is_closing and asked.is_stored
            )
            if not ticket.is_admitted:
                prepared.record = queued(prepared.record)
            if prepared.is_stored:
                await self._preparer.record(prepared, key)
            if self._closes():  # since it was asked above: no engine would begin it
                await self._lifecycle.withdraw(prepared)
                raise GatewayStopping
        except BaseException:
            self.queue.leave(ticket)
            raise
        self._live[prepared.record.id] = LiveRun(prepared, ticket)
        if not asked.is_background:
            self._leases.begin(prepared.record.id)
            self._leases.come(prepared.record.id)  # the client itself, until `release`
        # The journal opens here, not in the run, so that a follower finds it however early it asks.
        prepared.writer = Writer(
            self._journal.begin(prepared.record.id, tenant=tenant, stored=prepared.is_stored, epoch=FIRST_EPOCH)
        )
        await self._engine.start(prepared.record.id)
        return prepared

    async def follow(
        self, tenant: str, response_id: str, *, after: int = -1
    ) -> AsyncGenerator[list[StreamEvent], None]:
        """The events above `after`, to the terminal one, in the pieces in which they come. Raises NotFound, GatewayStopping, and
        StoreError where the journal could not be kept."""
        await self._is_open(response_id)
        live = self._live.get(response_id)
        known = live.prepared.record if live is not None else None
        # A run of this process is known to be there.
        record = known if known is not None and known.tenant == tenant else await self._record(tenant, response_id)
        last = None
        with self._leases.reading(record):
            async for batch in follow(self._journal, response_id, after=after):
                last = batch[-1]
                yield batch
        if last is None or last.type not in ev.TERMINAL:
            if live is not None and live.failure is not None:
                raise live.failure
            if self.is_closing:
                raise GatewayStopping
            closing = await self._missing_end(record)
            if closing is not None and closing.seq > after:
                yield [closing]

    async def refusal(self, response_id: str, *, within: float) -> UpstreamError | None:
        """The provider's error, if the run fails with it before anything of the model was told. Waits at most that many seconds."""
        live = self._live.get(response_id)
        if live is None or not live.ticket.is_admitted:
            return None
        with anyio.move_on_after(within):
            async for entry in self._journal.tail(response_id, after=1):
                return None if entry.type != ev.FAILED else live.refusal
        return None

    async def get(self, tenant: str, response_id: str) -> Json:
        """The response object as it is now. Raises NotFound."""
        record = await self._record(tenant, response_id)
        await self._leases.renew(record)
        return as_it_is_now(record, await replay(self._journal, response_id))

    async def cancel(self, tenant: str, response_id: str) -> Json:
        """Stop it, with the model's turn and its running command, and keep what there is; returns it as it is then. One that has ended
        stays as it is. Raises NotFound, GatewayStopping."""
        await self._record(tenant, response_id)
        if self.is_closing:
            raise GatewayStopping
        await self._is_open(response_id, at_once=True)
        await self._cancel(response_id)
        return await self.get(tenant, response_id)

    async def _cancel(self, response_id: str) -> None:
        self._wanted_cancelled(response_id)
        await self._engine.cancel(response_id)

    def _wanted_cancelled(self, response_id: str) -> bool:
        """False where there is no such run here, or where it is being taken up still."""
        if (live := self._live.get(response_id)) is not None:
            live.is_cancelled = True
        return live is not None

    async def _left(self, response_id: str) -> None:
        """A foreground response had no reader for its grace time."""
        if not self.is_closing:
            log.info("response_left", response_id=response_id)
            await self._cancel(response_id)

    async def delete(self, tenant: str, response_id: str) -> None:
        """Stop it if it runs, and forget it and its events. Its container stays. Raises NotFound."""
        await self._record(tenant, response_id)
        await self._is_open(response_id, at_once=True)
        live = self._live.get(response_id)
        await self._engine.cancel(response_id)
        if live is not None:
            await self._end_unused(live)
            await self._count_unended(live)
        await self._responses.delete(tenant, response_id)  # with its events: a row without them would run again
        await self._journal.forget(response_id)

    async def whole(self, tenant: str, response_id: str) -> Json:
        """The response object at its end. Raises the provider's error, if it came before anything of the model was told; NotFound
        if it was deleted before its end."""
        live = self._live.get(response_id)
        shape: Json | None = None
        async for batch in self.follow(tenant, response_id):
            if batch[-1].type in ev.TERMINAL:
                shape = batch[-1].data["response"]
        if live is not None and live.refusal is not None:
            raise live.refusal
        if shape is None:
            raise NotFound(f"The response {response_id} was deleted before its end.", code="response_not_found")
        return shape

    async def release(self, response_id: str, *, keeps_events: bool = False) -> None:
        """The creator has disconnected. No other client can read an unstored response, so it is stopped with its command and deleted; with
        `keeps_events` its events stay in memory until `forget`. A stored one has its grace time for another reader."""
        self._leases.leave(response_id)
        live = self._live.get(response_id)
        if live is None or live.prepared.is_stored:
            return
        await self._engine.cancel(response_id)
        await self._end_unused(live)  # also of a run that was cancelled before its first step
        del self._live[response_id]
        if not keeps_events:
            await self.forget(response_id)
        await self._count_unended(live)

    async def forget(self, response_id: str) -> None:
        await self._journal.forget(response_id)

    async def _count_unended(self, live: LiveRun) -> None:
        """What was used up by a run that is forgotten before its end."""
        if not live.prepared.meter.is_counted:
            live.prepared.meter.is_counted = True
            prepared = live.prepared
            await self._spendings.count_unstored(prepared.record, prepared.meter.own(), prepared.usage())
        await self._spendings.end(live.prepared.record)

    async def _record(self, tenant: str, response_id: str) -> ResponseRecord:
        live = self._live.get(response_id)
        if live is not None and not live.prepared.is_stored and live.prepared.record.tenant == tenant:
            return live.prepared.record
        record = await self._responses.get(tenant, response_id)
        if record is None:
            raise NotFound(
                f"Response with id {response_id[:80]!r} not found.", param="response_id", code="response_not_found"
            )
        return record

    async def _settle(self, response_id: str) -> None:
        """A client may chain as soon as it has seen the last event; the run's last breath after it is waited for."""
        live = self._live.get(response_id)
        if live is not None:
            with anyio.move_on_after(1):
                await live.ended.wait()

    async def _claimed(self, claim: RunClaim) -> None:
        self._claims[claim.response_id] = ClaimedRun(claim)

    async def _is_open(self, response_id: str, *, at_once: bool = False) -> None:
        """Returns when the journal of a run of another process is open here, if there is one to be opened; `at_once` without a pause."""
        if (claim := self._claims.get(response_id)) is not None:
            if at_once:
                claim.hurries.set()
            await claim.is_open.wait()

    async def _carry(self, run_id: str) -> None:
        claim = self._claims.get(run_id)
        if claim is not None:
            try:
                await claim.pause()
                async with self._recoveries:
                    await self._take_up(claim.run)
            except Exception:
                log.exception("run_broke", response_id=run_id)
            finally:
                del self._claims[run_id]
                claim.is_open.set()
        if run_id in self._live:
            await self._carry_live(run_id, self._live[run_id])

    async def _take_up(self, claim: RunClaim) -> None:
        """Go on with a run of another process; where that cannot be, it ends as failed."""
        record = await self._responses.get(claim.tenant, claim.response_id)
        if record is None:
            return
        try:
            prepared = await self._recovery.resume(record, claim, keeps_commands=self._closes)
        except LimpetError as problem:
            log.warning("response_was_lost", response_id=record.id, reason=problem.message)
            reason = problem.message
        except Exception:
            log.exception("run_broke", response_id=record.id)
            reason = UNFORESEEN
        else:
            rank = Rank.BACKGROUND if record.background else Rank.FOREGROUND
            self._live[record.id] = LiveRun(prepared, self.queue.enter(record.tenant, rank, is_bounded=False))
            if not record.background:
                self._leases.begin(record.id)
            return
        await self._lifecycle.fail(record, await self._recovery.writer(record, epoch=claim.epoch), reason)

    async def _carry_live(self, run_id: str, live: LiveRun) -> None:
        prepared, writer = live.prepared, live.prepared.writer
        self._metrics.running.inc()
        self._spendings.begin(prepared.record, prepared.meter)
        prepared.secrets.lend()
        try:
            await self._lifecycle.announce(prepared.record, writer)
            await live.ticket.admitted.wait()
            await self._lifecycle.begin(prepared.record, writer)
            ending = await ending_of(live)
            await self._end_unused(live)
            await self._lifecycle.finish(prepared.record, writer, ending, prepared)
        except anyio.get_cancelled_exc_class():
            if live.is_cancelled:
                with anyio.CancelScope(shield=True):
                    await self._end_cancelled(live)
            raise
        except StoreError as failure:
            # The journal cannot record this failure: followers raise it, and the next start of the gateway takes the run up.
            live.failure = failure
            log.error("response_not_kept", response_id=run_id, reason=failure.message)
        except Exception:
            # Nothing that one response does may end the gateway; the next start takes the run up.
            log.exception("run_broke", response_id=run_id)
            live.failure = LimpetError(UNFORESEEN)
        finally:
            with anyio.CancelScope(shield=True):
                await self._let_go(run_id, live, writer)

    async def _end_cancelled(self, live: LiveRun) -> None:
        """Its command was ended before this; what it printed until then is kept."""
        try:
            await self._end_unused(live)
            ending = Ending(status="cancelled")
            await self._lifecycle.finish(live.prepared.record, live.prepared.writer, ending, live.prepared)
        except StoreError as failure:
            live.failure = failure
        except Exception:  # raised here it would end every run
            log.exception("run_broke", response_id=live.prepared.record.id)
            live.failure = LimpetError(UNFORESEEN)

    async def _let_go(self, run_id: str, live: LiveRun, writer: Writer) -> None:
        self._leases.end(run_id)
        self.queue.leave(live.ticket)
        self._spendings.drop(live.prepared.record)
        try:
            await writer.close()
        except StoreError as failure:
            live.failure = live.failure or failure
        if not self.is_closing:
            await self._end_unused(live)
        live.ended.set()
        self._metrics.running.dec()
        if live.prepared.is_stored:
            self._live.pop(run_id, None)

    async def _end_unused(self, live: LiveRun) -> None:
        """Before its last event is sent, so that a client that has seen it no longer finds a container that was never used."""
        live.prepared.secrets.take_back()
        if live.prepared.made_container:
            with anyio.CancelScope(shield=True):
                await self._preparer.end_unused(live.prepared.record)
            live.prepared.made_container = False

    async def _end_orphans(self) -> None:
        """Unfinished responses that are no runs, as older versions left them, end `failed`, with what they had."""
        for record in await self._responses.orphans():
            log.warning("response_was_lost", response_id=record.id)
            writer = await self._recovery.writer(record)
            await self._lifecycle.fail(record, writer, "The gateway stopped while this response was running.")

    async def _missing_end(self, record: ResponseRecord) -> DecodedEvent | None:
        current = await self._responses.get(record.tenant, record.id)
        return missing_end(current, await replay(self._journal, record.id))
