"""Which commands were started, by which caller, and how they ended; and how to stop them. Runs nothing itself.

A state changes only along MOVES; any other move raises (`core.events.move`).
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import anyio

from limpet.core.clock import Clock, SystemClock
from limpet.core.events import move
from limpet.core.ids import new_id

Status = Literal["queued", "starting", "running", "completed", "failed", "canceled", "timed_out"]
Cancelled = Literal["cancel_requested", "already_finished", "not_found"]

EXECUTION = "run"
MOST_FINISHED = 2_000  # records of ended executions that are kept; running ones are always kept
LISTED = 100

_ENDS = ("completed", "failed", "canceled", "timed_out")
MOVES: dict[str, frozenset[str]] = {
    "queued": frozenset({"starting", "running", "failed", "canceled", "timed_out"}),
    "starting": frozenset({"running", "failed", "canceled", "timed_out"}),
    "running": frozenset(_ENDS),
    **dict.fromkeys(_ENDS, frozenset()),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """One command, as a record. Times are microseconds UTC, None where that moment has not come; `exit_code` is None until
    it ended by itself. `command` is redacted."""

    id: str
    session: str
    chat: str | None
    command: str
    directory: str
    status: Status = "queued"
    queued_at: int
    started_at: int | None = None
    finished_at: int | None = None
    cancel_requested: bool = False
    exit_code: int | None = None
    stdout_bytes: int = 0
    stderr_bytes: int = 0
    error: str = ""

    @property
    def has_ended(self) -> bool:
        return self.status in _ENDS


@dataclass(slots=True)
class _KeptExecution:
    record: Execution
    abort: anyio.Event = field(default_factory=anyio.Event)


class Executions:
    """The executions of any number of tools, which share one registry so that a stop reaches all of them."""

    def __init__(self, *, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._kept: dict[str, _KeptExecution] = {}
        self._finished: deque[str] = deque()

    def queue(self, *, session: str, chat: str | None, command: str, directory: str) -> Execution:
        """A new record in state `queued`."""
        record = Execution(
            id=new_id(EXECUTION),
            session=session,
            chat=chat,
            command=command,
            directory=directory,
            queued_at=self._clock.now(),
        )
        self._kept[record.id] = _KeptExecution(record)
        return record

    def abort_event(self, execution_id: str) -> anyio.Event:
        """Set once it is cancelled: what `Workspace.run` takes as `abort`."""
        return self._kept[execution_id].abort

    def advance(self, execution_id: str, status: Literal["starting", "running"]) -> Execution:
        started = self._clock.now() if status == "running" else None
        return self._change(execution_id, status, started_at=started)

    def finish(
        self,
        execution_id: str,
        status: Literal["completed", "failed", "canceled", "timed_out"],
        *,
        exit_code: int | None = None,
        stdout_bytes: int = 0,
        stderr_bytes: int = 0,
        error: str = "",
    ) -> Execution:
        """Its last state. Of ended executions the newest MOST_FINISHED are kept."""
        record = self._change(
            execution_id,
            status,
            finished_at=self._clock.now(),
            exit_code=exit_code,
            stdout_bytes=stdout_bytes,
            stderr_bytes=stderr_bytes,
            error=error,
        )
        self._finished.append(execution_id)
        while len(self._finished) > MOST_FINISHED:
            self._kept.pop(self._finished.popleft(), None)
        return record

    def get(self, execution_id: str, *, session: str) -> Execution | None:
        """The record, if it is that session's: another session's id is as unknown as one that never was."""
        kept = self._kept.get(execution_id)
        return kept.record if kept is not None and kept.record.session == session else None

    def list(
        self,
        *,
        session: str,
        chat: str | None = None,
        statuses: Sequence[Status] = (),
        only_active: bool = False,
        limit: int = LISTED,
    ) -> list[Execution]:
        """That session's records, newest first; of one chat where it is named."""
        found = [
            record
            for record in self._of(session, chat)
            if (not statuses or record.status in statuses) and not (only_active and record.has_ended)
        ]
        return found[::-1][:limit]

    def cancel(self, *, session: str, chat: str | None = None) -> int:
        """Stop all that runs for that session, or for one chat of it; returns how many. Twice is quiet."""
        wanted = [record for record in self._of(session, chat) if not record.has_ended and not record.cancel_requested]
        for record in wanted:
            self._cancel(record.id)
        return len(wanted)

    def cancel_one(self, execution_id: str, *, session: str) -> Cancelled:
        record = self.get(execution_id, session=session)
        if record is None:
            return "not_found"
        if record.has_ended:
            return "already_finished"
        self._cancel(execution_id)
        return "cancel_requested"

    def _of(self, session: str, chat: str | None) -> Sequence[Execution]:
        records = (kept.record for kept in self._kept.values())
        return [one for one in records if one.session == session and (chat is None or one.chat == chat)]

    def _cancel(self, execution_id: str) -> None:
        kept = self._kept[execution_id]
        kept.record = replace(kept.record, cancel_requested=True)
        kept.abort.set()

    def _change(self, execution_id: str, status: Status, **facts: object) -> Execution:
        kept = self._kept[execution_id]
        move(MOVES, kept.record.status, status)
        known = {name: fact for name, fact in facts.items() if fact is not None}
        kept.record = replace(kept.record, status=status, **known)  # type: ignore[arg-type]  # named by the callers above
        return kept.record
