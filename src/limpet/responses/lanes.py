"""The responses of one connection: those of a lane run one after the other, lanes run beside each other.

It also keeps what such a connection may chain to (`kept_responses`), and applies what its client adds to a running response (`steering`).
Knows no WebSocket: what is to be sent goes to an `Outlet`.
"""

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import anyio
import structlog
from anyio.abc import TaskGroup

from limpet.core import events as ev
from limpet.core.errors import GatewayStopping, LimpetError, NotFound, Overloaded, RequestInvalid
from limpet.responses.failures import UNFORESEEN
from limpet.responses.kept_responses import KeptResponses
from limpet.responses.prepared_run import PreparedRun
from limpet.responses.replay import StreamEvent
from limpet.responses.request import ParsedRequest, parse
from limpet.responses.service import ResponseService
from limpet.responses.steering import (
    Steer,
    Steering,
    SteerRefused,
    refuse_unsteerable,
    required_input,
    steering_items,
)

Json = dict[str, Any]
MOST_ACTIVE = 16  # responses of a connection that run at once
MOST_NAMES = 32  # of lanes; the default lane has none
MOST_WAITING = 64  # requests of a connection that wait for their turn
MOST_REMEMBERED = 256  # responses of a connection that a late `response.steer` is told the end of
_NOT_CHAINABLE = frozenset({"failed", "cancelled"})

log = structlog.get_logger()


class OutletClosed(Exception):
    """The client is gone."""


class Outlet(Protocol):
    """The client's end. What sends raises OutletClosed."""

    async def admit(self) -> None:
        """Called before each response; `done` follows where it did not raise. Raises LimpetError, or its own kind for `refuse`."""

    def done(self) -> None: ...

    async def events(self, lane: str | None, events: Sequence[StreamEvent]) -> int:
        """Returns their bytes."""
        ...

    async def refuse(self, lane: str | None, problem: LimpetError) -> None: ...

    async def tell(self, lane: str | None, event: Json) -> None: ...

    def charge(self, size: int) -> None:
        """So many bytes are kept for this connection between its responses."""


@dataclass(frozen=True, slots=True)
class WaitingRequest:
    """A request of `size` bytes that waits for its turn; `read` gives its JSON object, once, and may raise RequestError. One that is not
    read is released."""

    size: int
    read: Callable[[], Json]
    release: Callable[[], None]


@dataclass(slots=True, eq=False)
class _Lane:
    """`pending` is input that waits for the answers to the calls of the response of that id."""

    name: str | None
    waiting: deque[WaitingRequest] = field(default_factory=deque)
    is_running: bool = False
    pending: tuple[str, list[Steer]] | None = None


@dataclass(slots=True, kw_only=True)
class _Target:
    """A response of this connection, as steering sees it. `body` is its request without the input, until its end; `seq` the number of its
    last event that was sent, `size` what its request and its events have in bytes."""

    id: str
    lane: _Lane
    body: Json
    steering: Steering
    status: str = "in_progress"
    seq: int = 0
    size: int = 0
    output: list[Json] = field(default_factory=list)


class Lanes:
    """Of one connection, for as long as `tasks` runs; `close` ends what no other client can read. Nothing that one response does ends
    another."""

    def __init__(self, service: ResponseService, tasks: TaskGroup, outlet: Outlet, *, tenant: str) -> None:
        self._service = service
        self._tasks = tasks
        self._outlet = outlet
        self._tenant = tenant
        self._lanes: dict[str | None, _Lane] = {None: _Lane(None)}
        self._active = anyio.Semaphore(MOST_ACTIVE)
        self._waiting = 0
        self._kept = KeptResponses()
        self._targets: dict[str, _Target] = {}
        self._in_use: list[str | None] = []
        self._sizes: dict[str, int] = {}

    def create(self, name: str | None, request: WaitingRequest) -> None:
        """Queue a request. Raises RequestInvalid (websocket_stream_limit_reached), Overloaded."""
        lane = self._lanes.get(name)
        if lane is None:
            if len(self._lanes) > MOST_NAMES:
                raise RequestInvalid(
                    f"This WebSocket connection has reached its maximum number of distinct stream IDs ({MOST_NAMES}). "
                    "Reuse an existing stream_id or open a new WebSocket connection.",
                    param="stream_id",
                    code="websocket_stream_limit_reached",
                )
            lane = self._lanes[name] = _Lane(name)
        if self._waiting >= MOST_WAITING:
            raise Overloaded(
                f"{MOST_WAITING} requests wait on this connection already. Send it again when one of them has begun.",
                code="too_many_waiting_requests",
            )
        self._waiting += 1
        lane.waiting.append(request)
        if not lane.is_running:
            lane.is_running = True
            self._tasks.start_soon(self._run, lane, name=f"lane {name}")

    async def steer(self, event: Json) -> None:
        """Queue input for a running response; the outlet is told what becomes of it."""
        given, wanted = event.get("input"), event.get("previous_response_id")
        target = self._targets.get(wanted) if isinstance(wanted, str) else None
        lane, seq = (target.lane.name, target.seq) if target is not None else (None, 0)
        try:
            items = steering_items(event)
            if not isinstance(wanted, str):
                raise SteerRefused("invalid_input", "`previous_response_id` must name the response to steer.")
            if target is None:
                raise SteerRefused(
                    "response_not_found", f"No response {wanted[:80]!r} of this connection can be steered."
                )
            _refuse_ended(target)
            refuse_unsteerable(target.body)
            steer = target.steering.add(given, items)  # type: ignore[arg-type]  # steering_items has checked it
        except SteerRefused as problem:
            named = {"input": given, "previous_response_id": wanted if isinstance(wanted, str) else ""}
            await self._outlet.tell(lane, _failed(problem, named, seq))
            return
        accepted = {"type": "response.steer.accepted", "sequence_number": seq, "steer": _named(steer, target.id)}
        await self._outlet.tell(lane, accepted)

    async def close(self) -> None:
        """The client has left, and `tasks` are over: forget what waits and what is not stored."""
        for lane in self._lanes.values():
            while lane.waiting:
                lane.waiting.popleft().release()
        for response_id in self._kept.take_all():
            await self._service.forget(response_id)

    async def _run(self, lane: _Lane) -> None:
        while lane.waiting:
            async with self._active:
                self._waiting -= 1
                await self._turn(lane, lane.waiting.popleft())
        lane.is_running = False

    async def _turn(self, lane: _Lane, request: WaitingRequest) -> None:
        """One request, and what follows on it by itself."""
        previous: str | None = None
        steers: list[Steer] = []
        try:
            given = request.read()
            previous = given.get("previous_response_id")
            steers = _taken_pending(lane, previous)
            await self._respond(lane, _with_steers(given, steers), request.size)
        except OutletClosed:
            raise
        except GatewayStopping:
            return  # the connection is closed with a code that says so
        except LimpetError as problem:
            await self._refused(lane, previous, steers, problem)
        except Exception:
            log.exception("lane_broke")
            await self._refused(lane, previous, steers, LimpetError(UNFORESEEN))

    async def _refused(self, lane: _Lane, previous: str | None, steers: Sequence[Steer], problem: LimpetError) -> None:
        self._kept.evict(lane.name, previous if isinstance(previous, str) else None)
        await self._sweep()
        await self._outlet.refuse(lane.name, problem)
        if steers and previous is not None:
            await self._give_back(lane, previous, steers, SteerRefused("successor_creation_failed", problem.message))

    async def _respond(self, lane: _Lane, given: Json, size: int) -> None:
        """A response, then its automatic successors. Raises LimpetError for the first; that of a successor is told to its steers."""
        target = await self._admitted(lane, given, size)
        while steers := await self._left_steers(target):
            successor = {**target.body, "previous_response_id": target.id, "input": _items_of(steers)}
            target.body = {}
            try:
                after = await self._admitted(lane, successor, sum(steer.size for steer in steers))
            except GatewayStopping:
                raise
            except LimpetError as problem:
                self._kept.evict(lane.name, target.id)
                refused = SteerRefused("successor_creation_failed", problem.message)
                await self._give_back(lane, target.id, steers, refused)
                return
            target = after
        target.body = {}

    async def _admitted(self, lane: _Lane, given: Json, size: int) -> _Target:
        await self._outlet.admit()
        try:
            return await self._carried(lane, given, size)
        finally:
            self._outlet.done()

    async def _carried(self, lane: _Lane, given: Json, size: int) -> _Target:
        """One response from its request to its last event."""
        asked = _asked(given)
        previous = asked.body.previous_response_id
        asked = replace(asked, kept=self._kept.before(previous))
        self._in_use.append(previous)
        try:
            created = await self._service.create(self._tenant, asked)
            target = self._target(lane, given, created, size)
            try:
                await self._follow(target)
                await self._end_deleted(target)
            finally:
                with anyio.CancelScope(shield=True):
                    await self._ended(target, created, asked)
        finally:
            self._in_use.remove(previous)
        return target

    def _target(self, lane: _Lane, given: Json, created: PreparedRun, size: int) -> _Target:
        body = {key: value for key, value in given.items() if key not in ("input", "generate", "previous_response_id")}
        target = _Target(id=created.record.id, lane=lane, body=body, steering=created.run().steering, size=size)
        self._targets[target.id] = target
        ended = [each.id for each in self._targets.values() if each.status != "in_progress"]
        for response_id in ended[: max(0, len(self._targets) - MOST_REMEMBERED)]:
            del self._targets[response_id]
        return target

    async def _follow(self, target: _Target) -> None:
        async with aclosing(self._service.follow(self._tenant, target.id)) as batches:
            async for batch in batches:
                last = batch[-1]
                if last.type in ev.TERMINAL:
                    target.steering.close()
                    response = last.data["response"]
                    target.status, target.output = response["status"], response["output"]
                target.size += await self._outlet.events(target.lane.name, batch)
                target.seq = last.seq

    async def _end_deleted(self, target: _Target) -> None:
        """A response that was deleted while it ran has no last event; its client must not wait for one."""
        if target.status == "in_progress":
            target.status = "cancelled"
            reason = f"The response {target.id} was deleted before its end."
            await self._outlet.refuse(target.lane.name, NotFound(reason, code="response_not_found"))

    async def _ended(self, target: _Target, created: PreparedRun, asked: ParsedRequest) -> None:
        """Keep a response for the chain where it may have one; otherwise it is gone."""
        target.steering.close()
        is_kept = target.status not in (*_NOT_CHAINABLE, "in_progress")
        await self._service.release(target.id, keeps_events=is_kept)
        if is_kept:
            record = replace(created.record, status=target.status)
            self._kept.advance(target.lane.name, record, is_stored=asked.is_stored)
            self._sizes |= {} if asked.is_stored else {target.id: target.size}
        else:
            self._kept.evict(target.lane.name, asked.body.previous_response_id)
        await self._sweep()

    async def _sweep(self) -> None:
        for response_id in self._kept.take_unreachable(self._in_use):
            self._sizes.pop(response_id, None)
            await self._service.forget(response_id)
        self._charge()

    def _charge(self) -> None:
        pending = [steer.size for lane in self._lanes.values() if lane.pending for steer in lane.pending[1]]
        self._outlet.charge(sum(self._sizes.values()) + sum(pending))

    async def _left_steers(self, target: _Target) -> list[Steer]:
        """What was accepted for a response and is to be applied now, by a successor. What waits for the client, or cannot be applied any
        more, is told and left out."""
        steers = target.steering.close()
        output, target.output = target.output, []
        if not steers:
            return []
        lane, wanted = target.lane, required_input(output)
        if target.status == "completed" and wanted:
            await self._hold_back(target, steers, wanted)
            return []
        if target.status in _NOT_CHAINABLE or target.status == "in_progress":
            refused = SteerRefused("response_not_active", f"The response ended {target.status}.")
            await self._give_back(lane, target.id, steers, refused)
            return []
        return steers

    async def _hold_back(self, target: _Target, steers: list[Steer], wanted: Sequence[Json]) -> None:
        """The client must answer calls first. What waited on the lane for another response's waits no more."""
        lane = target.lane
        if lane.pending is not None:
            over = SteerRefused("response_not_active", f"The lane went on to the response {target.id}.")
            await self._give_back(lane, *lane.pending, over)
        lane.pending = (target.id, steers)
        self._charge()
        for steer in steers:
            pending = {"reason": "waiting_for_required_input", "required_input": wanted}
            event = {"type": "response.steer.pending", "sequence_number": target.seq, **pending}
            await self._outlet.tell(lane.name, {**event, "steer": _named(steer, target.id)})

    async def _give_back(self, lane: _Lane, previous: str, steers: Sequence[Steer], problem: SteerRefused) -> None:
        target = self._targets.get(previous)
        for steer in steers:
            named = {"input": steer.given, **_named(steer, previous)}
            await self._outlet.tell(lane.name, _failed(problem, named, target.seq if target is not None else 0))


def _taken_pending(lane: _Lane, previous: object) -> list[Steer]:
    """What waits for the answers to a response's calls, where this request brings them on the same lane."""
    if lane.pending is None or lane.pending[0] != previous:
        return []
    (_, steers), lane.pending = lane.pending, None
    return steers


def _asked(given: Json) -> ParsedRequest:
    """A request over such a connection: always streamed, never in the background. Raises RequestInvalid."""
    if given.get("background"):
        raise RequestInvalid(
            "`background` is not supported over WebSocket. Send the request by POST /v1/responses.",
            param="background",
            code="unsupported_parameter",
        )
    if given.get("generate") is False and given.get("input") is None:
        given = {**given, "input": []}
    return parse(given)


def _with_steers(given: Json, steers: Sequence[Steer]) -> Json:
    """The request with what its client had added before in front of its input."""
    if not steers:
        return given
    own = given.get("input") or []
    return {
        **given,
        "input": [*_items_of(steers), *([{"role": "user", "content": own}] if isinstance(own, str) else own)],
    }


def _items_of(steers: Sequence[Steer]) -> list[Json]:
    return [item for steer in steers for item in steer.items]


def _refuse_ended(target: _Target) -> None:
    if target.status == "completed":
        raise SteerRefused(
            "response_already_completed", f"The response {target.id} has completed. Chain a new one to it."
        )
    if target.status != "in_progress":
        raise SteerRefused("response_not_active", f"The response {target.id} ended {target.status}.")


def _named(steer: Steer, response_id: str) -> Json:
    return {"id": steer.id, "previous_response_id": response_id}


def _failed(problem: SteerRefused, steer: Json, seq: int) -> Json:
    error: Json = {"type": problem.type, "code": problem.code, "message": problem.message}
    return {"type": "response.steer.failed", "sequence_number": seq, "error": error, "steer": steer}
