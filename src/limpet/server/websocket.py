"""`GET /v1/responses` as a WebSocket: each `response.create` of a client is a request, its events come back as they do over SSE.

The same service, validation and errors as over HTTP; lanes and steering are `responses/lanes.py`. A connection lives for an hour, and is
closed with 1012 where the gateway stops, so that clients come back. `tests/wire/test_websocket.py`.
"""

import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import anyio
import msgspec
import structlog
from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send
from websockets.frames import CloseCode

from limpet.core.errors import LimpetError, RequestError, RequestInvalid
from limpet.ingress.limits import ConnectionLimits
from limpet.ingress.memory import MemoryBudget
from limpet.ingress.refusals import Refusal
from limpet.ingress.takeover import RawConnection, control_of
from limpet.ingress.websocket import TextMessage, WebSocket, WebSocketClosed, handshake
from limpet.responses.lanes import Lanes, OutletClosed, WaitingRequest
from limpet.responses.replay import StreamEvent
from limpet.responses.service import ResponseService
from limpet.server.betas import refuse_betas
from limpet.server.bodies import MAX_JSON_BYTES, decoded
from limpet.server.callers import WorkAdmission, tenant_of, work_admission_of
from limpet.server.errors import error_response, response_of

Json = dict[str, Any]
STOP_SECONDS = 1.5  # for closing all connections when the gateway stops
MOST_WRONG = 32  # messages in a row that are no requests
_LANE = re.compile(r"[A-Za-z0-9_.-]{1,256}")

log = structlog.get_logger()


class _Envelope(msgspec.Struct):
    """What decides where a message goes."""

    type: Any = None
    stream_id: Any = None


_envelope = msgspec.json.Decoder(_Envelope)


class _NotAdmitted(RequestError):
    """The answer to a piece of work that is not let in."""

    def __init__(self, answer: Response) -> None:
        super().__init__("This request is not let in.")
        self.answer = answer


class LiveConnections:
    """All WebSockets of this gateway."""

    def __init__(self) -> None:
        self.stopping = anyio.Event()
        self.reading = anyio.Lock()
        self._all: set[object] = set()
        self._none = anyio.Event()

    def add(self, connection: object) -> None:
        self._all.add(connection)

    def remove(self, connection: object) -> None:
        self._all.discard(connection)
        if not self._all:
            self._none.set()

    async def stop(self) -> None:
        """Close them, and wait a moment for it."""
        self.stopping.set()
        with anyio.move_on_after(STOP_SECONDS):
            while self._all:
                self._none = anyio.Event()
                await self._none.wait()


def websocket_routes(
    service: ResponseService, live: LiveConnections, *, limits: ConnectionLimits, keep_alive: float
) -> list[Route]:
    """`keep_alive` is in seconds: after that much silence a ping is sent."""

    async def connect(request: Request) -> ASGIApp:
        refuse_betas(request)
        if request.headers.get("upgrade", "").lower() != "websocket":
            return _upgrade_required("GET is for WebSocket here. Send a request by POST /v1/responses.")
        names = ("sec-websocket-version", "sec-websocket-key")
        head = handshake({name: request.headers.getlist(name) for name in names})
        if isinstance(head, Refusal):
            if head.status == 426:
                return _upgrade_required(head.message)
            return error_response(head.status, head.message, code=head.code)
        if live.stopping.is_set():
            return error_response(503, "The gateway is stopping.", type="server_error", code="gateway_stopping")
        return _Upgrade(service, live, request, head, limits=limits, keep_alive=keep_alive)

    return [Route("/v1/responses", connect, methods=["GET"])]


def _upgrade_required(message: str) -> Response:
    headers = {"upgrade": "websocket", "connection": "upgrade", "sec-websocket-version": "13"}
    return error_response(426, message, code="upgrade_required", headers=headers)


class _Upgrade:
    """Takes the connection over and serves it to its end."""

    def __init__(
        self,
        service: ResponseService,
        live: LiveConnections,
        request: Request,
        head: bytes,
        *,
        limits: ConnectionLimits,
        keep_alive: float,
    ) -> None:
        self._service = service
        self._live = live
        self._request = request
        self._head = head
        self._limits = limits
        self._keep_alive = keep_alive

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        control = control_of(scope)
        connection = control.take() if control is not None else None
        if connection is None:
            message = "For a WebSocket send `Connection: Upgrade` beside `Upgrade`, in a request without a body that waits for no other."
            await error_response(400, message, code="upgrade_unsupported")(scope, receive, send)
            return
        self._live.add(connection)
        try:
            await connection.write(self._head)
            await self._serve(connection)
        except OSError:
            pass  # the client is gone
        except Exception:  # there is no answer any more that could say so
            log.exception("websocket_broke")
            connection.abort()
        finally:
            self._live.remove(connection)

    async def _serve(self, connection: RawConnection) -> None:
        memory: MemoryBudget = self._request.app.state.body_memory
        tenant = tenant_of(self._request)
        socket = WebSocket(
            connection,
            memory=memory,
            owner=tenant,
            reading=self._live.reading,
            limits=self._limits,
            max_message_bytes=MAX_JSON_BYTES,
        )
        outlet = SocketOutlet(socket, work_admission_of(self._request), connection, memory=memory, owner=tenant)
        lifetime = self._limits.websocket_lifetime_secs
        session = _SocketSession(socket, outlet, self._live, keep_alive=self._keep_alive, lifetime=lifetime)
        code, reason = CloseCode.NORMAL_CLOSURE, ""
        try:
            code, reason = await session.run(lambda tasks: Lanes(self._service, tasks, outlet, tenant=tenant))
        finally:
            with anyio.CancelScope(shield=True):
                outlet.release()
                await socket.close(code, reason)


class SocketOutlet:
    """What lanes tell, as messages of a WebSocket."""

    def __init__(
        self,
        socket: WebSocket,
        work: WorkAdmission,
        connection: RawConnection,
        *,
        memory: MemoryBudget,
        owner: str,
    ) -> None:
        self._socket = socket
        self._work = work
        self._connection = connection
        self._memory = memory
        self._owner = owner
        self._holding = memory.hold(owner, connection.abort)
        self._active = 0
        self.spoke_at = anyio.current_time()
        connection.set_idle(True)

    async def admit(self) -> None:
        if (answer := await self._work.begin()) is not None:
            raise _NotAdmitted(answer)
        self._active += 1
        self._connection.set_idle(False)

    def done(self) -> None:
        self._work.end()
        self._active -= 1
        self._connection.set_idle(self._active == 0)

    async def events(self, lane: str | None, events: Sequence[StreamEvent]) -> int:
        payloads = [_on_lane(event.payload(), lane) for event in events]
        await self._send(payloads)
        return sum(map(len, payloads))

    async def refuse(self, lane: str | None, problem: LimpetError) -> None:
        answer = problem.answer if isinstance(problem, _NotAdmitted) else response_of(problem)
        await self._send([_on_lane(_error_event(answer), lane)])

    async def tell(self, lane: str | None, event: Json) -> None:
        await self._send([_on_lane(msgspec.json.encode(event), lane)])

    def charge(self, size: int) -> None:
        self._holding.release()
        self._holding = self._memory.hold(self._owner, self._connection.abort)
        if size:
            self._holding.add(size)

    def release(self) -> None:
        """Nothing is kept any more."""
        self._holding.release()

    async def _send(self, payloads: Sequence[bytes]) -> None:
        self.spoke_at = anyio.current_time()
        try:
            await self._socket.send(payloads)
        except WebSocketClosed as gone:
            raise OutletClosed from gone


def _on_lane(payload: bytes, lane: str | None) -> bytes:
    """The event with the lane's name, which needs no escapes."""
    return payload if lane is None else b'%b,"stream_id":"%b"}' % (payload[:-1], lane.encode())


def _error_event(answer: Response) -> bytes:
    """An HTTP answer that is an error, as an event. An id that is not found is a 400 here, as OpenAI has it."""
    event: Json = {"type": "error", "status": answer.status_code, **msgspec.json.decode(answer.body)}
    if event["error"].get("code") == "previous_response_not_found":
        event["status"] = 400
    if "retry-after" in answer.headers:
        event["error"]["headers"] = {"retry-after": answer.headers["retry-after"]}
    return msgspec.json.encode(event)


class _SocketSession:
    """One connection from its handshake to its end."""

    def __init__(
        self, socket: WebSocket, outlet: SocketOutlet, live: LiveConnections, *, keep_alive: float, lifetime: float
    ) -> None:
        self._socket = socket
        self._outlet = outlet
        self._live = live
        self._keep_alive = keep_alive
        self._lifetime = lifetime
        self._wrong = 0
        self._code, self._reason = CloseCode.NORMAL_CLOSURE, ""

    async def run(self, lanes_of: Callable[[TaskGroup], Lanes]) -> tuple[CloseCode, str]:
        """Returns how it is to be closed."""
        lanes: Lanes | None = None
        try:
            async with anyio.create_task_group() as tasks:
                lanes = lanes_of(tasks)
                for part in (self._stop, self._expire, self._ping):
                    tasks.start_soon(self._until_closed, tasks, part)
                await self._until_closed(tasks, lambda: self._read(lanes))
                tasks.cancel_scope.cancel()
        except* OutletClosed:
            pass  # a lane found the client gone
        finally:
            with anyio.CancelScope(shield=True):
                if lanes is not None:
                    await lanes.close()
        return self._code, self._reason

    async def _until_closed(self, tasks: TaskGroup, part: Callable[[], Awaitable[None]]) -> None:
        try:
            await part()
        except (WebSocketClosed, OutletClosed):
            pass
        tasks.cancel_scope.cancel()

    async def _read(self, lanes: Lanes) -> None:
        while True:
            message = await self._socket.receive()
            await checkpoint()  # many small messages may have come at once
            try:
                await self._take(lanes, message)
            except RequestError as problem:
                message.release()
                await self._outlet.refuse(_lane_in(message.payload), problem)
                self._wrong += problem.status < 500
                if self._wrong >= MOST_WRONG:
                    self._code, self._reason = CloseCode.POLICY_VIOLATION, "too many messages that are no requests"
                    return
            else:
                self._wrong = 0

    async def _take(self, lanes: Lanes, message: TextMessage) -> None:
        envelope = _read_envelope(message.payload)
        match envelope.type:
            case "response.create":
                lane = _lane(envelope.stream_id)
                lanes.create(lane, WaitingRequest(len(message.payload), lambda: _request(message), message.release))
            case "response.steer":
                event = decoded(message.payload)
                message.release()
                await lanes.steer(event)
            case str(kind):
                raise RequestInvalid(
                    f"The event {kind[:64]!r} is not served. Send `response.create` or `response.steer`.",
                    param="type",
                    code="unsupported_event",
                )
            case _:
                raise RequestInvalid('Every message needs a `type` such as "response.create".', param="type")

    async def _stop(self) -> None:
        await self._live.stopping.wait()
        self._code, self._reason = CloseCode.SERVICE_RESTART, "the gateway is stopping; connect again"

    async def _expire(self) -> None:
        await anyio.sleep(self._lifetime)
        minutes = f"{self._lifetime / 60:g}"
        message = f"Responses websocket connection limit reached ({minutes} minutes). Create a new websocket connection to continue."
        await self._outlet.refuse(None, RequestInvalid(message, code="websocket_connection_limit_reached"))
        self._code, self._reason = CloseCode.GOING_AWAY, "the connection has reached its age"

    async def _ping(self) -> None:
        while True:
            await anyio.sleep_until(self._outlet.spoke_at + self._keep_alive)
            if anyio.current_time() >= self._outlet.spoke_at + self._keep_alive:
                self._outlet.spoke_at = anyio.current_time()
                await self._socket.ping()


def _read_envelope(payload: bytes) -> _Envelope:
    try:
        return _envelope.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
        raise RequestInvalid(f"The message is not a JSON object: {problem}.", code="invalid_json") from problem


def _lane(name: object) -> str | None:
    """A lane's name. Raises RequestInvalid (invalid_stream_id)."""
    if name is None:
        return None
    if not isinstance(name, str) or not _LANE.fullmatch(name):
        raise RequestInvalid(
            "The 'stream_id' field must be a non-empty string with at most 256 characters and may only contain letters, numbers, "
            "underscores, hyphens, and periods.",
            param="stream_id",
            code="invalid_stream_id",
        )
    return name


def _lane_in(payload: bytes) -> str | None:
    """The lane of a message that was refused, where it names one."""
    try:
        return _lane(_read_envelope(payload).stream_id)
    except RequestInvalid:
        return None


def _request(message: TextMessage) -> Json:
    """The body of the request in a message, which is given up. Raises RequestError."""
    try:
        body = decoded(message.payload)
    finally:
        message.release()
    return {key: value for key, value in body.items() if key not in ("type", "stream_id")}
