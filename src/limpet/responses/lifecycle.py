"""The first and the last events of a response, with what its row says of them."""

from dataclasses import replace

import anyio
import structlog
from msgspec import to_builtins

from limpet.core import events as ev
from limpet.core import exit_codes
from limpet.core.clock import Clock
from limpet.core.errors import StoreError
from limpet.responses.budgets import Spending
from limpet.responses.conversation_items import conversation_turn
from limpet.responses.failures import closed_item
from limpet.responses.loop import Ending
from limpet.responses.metrics import Metrics
from limpet.responses.prepare import CLEARING, Preparer
from limpet.responses.prepared_run import PreparedRun
from limpet.responses.resource import response_object, stored_object
from limpet.responses.run_meter import Spendings
from limpet.responses.writer import Writer
from limpet.store.responses import ResponseRecord, Responses
from limpet.upstreams.endings import ResponseError

log = structlog.get_logger()


def queued(record: ResponseRecord) -> ResponseRecord:
    """A response that is not stored yet and has to wait for a place."""
    return replace(record, status="queued", request={**record.request, "queued": True})


def _first_events(record: ResponseRecord) -> tuple[str, ...]:
    return (ev.CREATED, ev.QUEUED) if record.request.get("queued") else (ev.CREATED,)


class ResponseLifecycle:
    """Begins and ends responses, in their rows and in their journals."""

    def __init__(
        self, *, responses: Responses, preparer: Preparer, spendings: Spendings, clock: Clock, metrics: Metrics
    ) -> None:
        self._responses = responses
        self._preparer = preparer
        self._spendings = spendings
        self._clock = clock
        self._metrics = metrics

    async def withdraw(self, prepared: PreparedRun) -> None:
        """Leave nothing of a response that was recorded and will not begin. Where its row cannot be removed, the next start of a gateway
        carries it."""
        with anyio.move_on_after(CLEARING, shield=True):
            if prepared.made_container:
                await self._preparer.end_unused(prepared.record)
            if prepared.is_stored:
                try:
                    await self._responses.delete(prepared.record.tenant, prepared.record.id)
                except StoreError as problem:
                    log.warning("response_not_withdrawn", response_id=prepared.record.id, reason=problem.message)

    async def announce(self, record: ResponseRecord, writer: Writer) -> None:
        """What comes before a run has a place, as far as it was not told before."""
        begun = stored_object(record, [])
        for type in _first_events(record)[writer.next_seq :]:
            await writer.tell(type, response=begun)

    async def begin(self, record: ResponseRecord, writer: Writer) -> None:
        """What comes before the model's first turn, as far as it was not told before."""
        if writer.next_seq > len(_first_events(record)):
            return
        begun = replace(record, status="in_progress")
        if record.status == "queued" and record.request.get("store") is not False:
            await self._responses.update(record.id, status="in_progress")
        await writer.tell(ev.IN_PROGRESS, response=stored_object(begun, []))

    async def finish(self, record: ResponseRecord, writer: Writer, ending: Ending, ran: PreparedRun | None) -> None:
        """Close what is open, write down how it ended, then tell it: the row is true before a client sees the last event. `ran` is the run,
        where this process had one."""
        writer.skip_told()
        ev.move(ev.RESPONSE_MOVES, "in_progress", ending.status)
        await _close_items(writer, ending)
        with anyio.CancelScope(shield=True):  # a cancel behind the row would tell another end than the row's
            await self._end(record, writer, ending, ran)

    async def _end(self, record: ResponseRecord, writer: Writer, ending: Ending, ran: PreparedRun | None) -> None:
        self._metrics.responses.labels(ending.status).inc()
        at = self._clock.now()
        usage = None if ran is None else ran.usage()
        own = Spending() if ran is None else ran.meter.own()
        if ran is not None:
            ran.meter.is_counted = True
        self._metrics.spent(own, usage, stopped_by=ending.budget)
        if record.request.get("store") is False:
            await self._spendings.count_unstored(record, own, usage)
        else:
            items = [str(item["id"]) for item in writer.snapshot.items() if item.get("id")]
            await self._responses.finish(
                record.id,
                status=ending.status,
                completed_at=at,
                usage=to_builtins(usage),
                error=to_builtins(ending.error),
                items=items,
                spent=to_builtins(own),
                counted=self._spendings.record(record, own, usage),
                event=f"response.{ending.status}" if record.background else None,
                turn=conversation_turn(record, writer.snapshot.items(), status=ending.status),
                epoch=writer.epoch,
            )
        await self._spendings.end(record)
        ended = response_object(
            record,
            status=ending.status,
            completed_at=at,
            output=writer.snapshot.items(),
            usage=usage,
            error=ending.error,
            incomplete_reason=ending.reason,
            network=None if ran is None else ran.network(),
            budget=ending.budget,
            shown=None if ran is None else ran.shown(),
        )
        await writer.tell(ev.ENDING[ending.status], response=ended)

    async def fail(self, record: ResponseRecord, writer: Writer, reason: str) -> None:
        """End it with what it had, and close its journal. Its commands go on in their boxes until their own time is over."""
        try:
            await self.announce(record, writer)
            await self.begin(record, writer)
            await self._preparer.end_unused(record)
            lost = ResponseError(code="server_error", message=reason)
            await self.finish(record, writer, Ending(status="failed", error=lost), None)
        finally:
            with anyio.CancelScope(shield=True):
                await writer.close()


async def _close_items(writer: Writer, ending: Ending) -> None:
    code = exit_codes.INTERRUPTED if ending.status == "cancelled" else exit_codes.LOST
    for index in writer.snapshot.unfinished():
        item = closed_item(writer.snapshot.item(index), code)
        await writer.tell(ev.ITEM_DONE, output_index=index, item=item)
    await writer.flush()
