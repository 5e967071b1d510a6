"""Runs as the process that carries them knows them, and how one of them ends."""

from dataclasses import dataclass, field

import anyio
import structlog

from limpet.core.errors import LimpetError, StoreError, UpstreamError
from limpet.responses.failures import error_of
from limpet.responses.loop import Ending, converse
from limpet.responses.prepared_run import PreparedRun
from limpet.responses.run_queue import QueueTicket
from limpet.store.runs import FIRST_EPOCH, RunClaim

log = structlog.get_logger()


PAUSE, LONGEST_PAUSE = 1.0, 30.0  # seconds


def pause_before(takeovers: int) -> float:
    """Seconds to wait before a run is taken up: none the first time, then twice as long each time. One that ends each gateway which carries
    it would otherwise end the next one at its start, before that has done anything for others."""
    return 0.0 if takeovers < 2 else min(LONGEST_PAUSE, PAUSE * 2 ** (takeovers - 2))


@dataclass(frozen=True, slots=True)
class ClaimedRun:
    """A run of another process that is being taken up; `is_open` once its journal can be followed. `hurries` ends its pause."""

    run: RunClaim
    is_open: anyio.Event = field(default_factory=anyio.Event)
    hurries: anyio.Event = field(default_factory=anyio.Event)

    async def pause(self) -> None:
        """Wait, as long as one that was taken over so often has to."""
        with anyio.move_on_after(pause_before(self.run.epoch - FIRST_EPOCH)):
            await self.hurries.wait()


@dataclass(slots=True)
class LiveRun:
    """A run of this process, with its place in the queue. `refusal` is the provider's error, where it came before anything of the model
    was told."""

    prepared: PreparedRun
    ticket: QueueTicket
    ended: anyio.Event = field(default_factory=anyio.Event)
    refusal: UpstreamError | None = None
    failure: LimpetError | None = None
    is_cancelled: bool = False


async def ending_of(live: LiveRun) -> Ending:
    """Carry it to its end. Raises StoreError."""
    response_id, writer = live.prepared.record.id, live.prepared.writer
    try:
        return await converse(live.prepared.run())
    except UpstreamError as problem:
        if writer.snapshot.next_index == 0:
            live.refusal = problem
        log.warning("provider_failed", response_id=response_id, reason=problem.message)
        return Ending(status="failed", error=error_of(problem))
    except StoreError:
        raise
    except LimpetError as problem:
        return Ending(status="failed", error=error_of(problem))
    except Exception as fault:
        # A fault of ours must end the response, not the gateway; the client gets no traceback.
        log.exception("run_broke", response_id=response_id)
        return Ending(status="failed", error=error_of(fault))
