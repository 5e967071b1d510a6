"""The door of one box: all that leaves it comes through these listeners, and nothing leaves that its policy does not admit.

It runs outside the box; the box has no other way to anywhere. Once it has ended, however that was, the box is closed.
"""

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address
from typing import Protocol

import anyio

from limpet.core.network import DOOR_ADDRESS, DoorListeners
from limpet.core.turns import Turns
from limpet.egress.connection import BoxConnection
from limpet.egress.connection_budget import ConnectionBudget
from limpet.egress.dns_answers import MOST_QUERY, answer
from limpet.egress.http_heads import RequestHead
from limpet.egress.pace import ConnectionPace
from limpet.egress.policy import SECRET_RULE, Admitted, Decision, EgressPolicy, Reason, Refused
from limpet.egress.record_throttle import RecordThrottle
from limpet.egress.records import EgressRecord, OnRecord, record_of
from limpet.egress.refusals import response
from limpet.egress.resolver import Lookups, Resolve, system_resolve
from limpet.egress.secrets import PlacedSecret, carries_any
from limpet.egress.streams import ReadAhead, SocketStream
from limpet.egress.upstream_dialer import dial
from limpet.egress.usage import NetworkLedger, NetworkUsage

log = logging.getLogger("limpet.egress")
TURNED_AWAY = 0.005  # seconds behind each connection that is too many
NAMES_AT_ONCE, NAMES_PAUSE = 32, 0.002  # questions, and seconds behind them: 16,000 questions a second at most


@dataclass(frozen=True, slots=True, kw_only=True)
class DoorLimits:
    """`connections` of one box at a time; `beginning` seconds until it is known what one is for, and for each handshake with it; `idle`
    seconds without a byte end one."""

    connections: int = 128
    beginning: float = 15.0
    idle: float = 900.0


class Interception(Protocol):
    """`interception.Interceptor`, which is not loaded where there are no secrets."""

    @property
    def secrets(self) -> Sequence[PlacedSecret]: ...

    @property
    def certificate(self) -> bytes: ...

    def intercepts(self, host: str) -> bool: ...

    async def carry(self, connection: BoxConnection, admitted: Admitted) -> None: ...


def _no_record(record: EgressRecord) -> None:
    """Decisions that are of interest to no one."""


class Door:
    """`box` names it in records. `serve` runs until it is cancelled; `apply` changes what is admitted at once.

    `on_record` gets the record of every decision; `audit` the same for a log, where those that come too fast are added up. `ledger`
    is where they are counted; `holder` is whose its connections are in the `budget`.
    """

    def __init__(
        self,
        box: str,
        policy: EgressPolicy,
        *,
        resolve: Resolve = system_resolve,
        on_record: OnRecord = _no_record,
        audit: OnRecord = _no_record,
        ledger: NetworkLedger | None = None,
        limits: DoorLimits | None = None,
        budget: ConnectionBudget | None = None,
        holder: str = "",
        interceptor: Interception | None = None,
    ) -> None:
        self.box = box
        self.policy = policy
        self.ledger = ledger or NetworkLedger()
        self._told = on_record
        self._audit = RecordThrottle(audit)
        self._lookups = Lookups() if resolve is system_resolve else None
        self._resolve = self._lookups or resolve
        self._limits = limits or DoorLimits()
        self._budget = budget or ConnectionBudget()
        self._holder = holder
        self._interceptor = interceptor
        self._pace = ConnectionPace()
        self._open: set[BoxConnection] = set()
        self._services: dict[str, IPv4Address] = {}

    def on_record(self, record: EgressRecord) -> None:
        """Count a decision, and put it on record."""
        self.ledger.add(record)
        self._audit(record)
        self._told(record)

    @property
    def beginning(self) -> float:
        """Seconds for the beginning of a connection."""
        return self._limits.beginning

    @property
    def connections(self) -> int:
        """Those that are open now."""
        return len(self._open)

    def usage(self) -> NetworkUsage:
        """What was carried and refused until now, in open connections too."""
        return self.ledger.usage(
            record for connection in self._open if (record := connection.record_so_far()) is not None
        )

    def apply(self, policy: EgressPolicy, interceptor: Interception | None = None) -> None:
        """Admit what this policy admits, from now on. Connections that it does not admit are ended. With `interceptor` new connections
        get its secrets."""
        self.policy = policy
        self._interceptor = interceptor or self._interceptor
        for connection in list(self._open):
            admitted = connection.admitted
            if admitted is not None and not isinstance(self.decide(admitted.host, admitted.port), Admitted):
                connection.scope.cancel()

    def decide(self, host: str, port: int) -> Decision:
        decision = self.policy.decide(host, port)
        if isinstance(decision, Admitted) and decision.rule == SECRET_RULE and not self.intercepts(decision.host):
            return Refused(host=decision.host, port=port, reason=Reason.HOST_NOT_ALLOWED)  # its secret is gone
        return decision

    async def dial(self, admitted: Admitted) -> ReadAhead:
        """Raises NotConnected."""
        return ReadAhead(await dial(admitted, self.policy, resolve=self._resolve))

    def intercepts(self, host: str) -> bool:
        """Whether TLS to that host is ended here, and begun anew."""
        return self._interceptor is not None and self._interceptor.intercepts(host)

    def carries_secret(self, head: RequestHead) -> bool:
        """Whether a request's head holds the placeholder of a secret."""
        return self._interceptor is not None and carries_any(head, self._interceptor.secrets)

    async def intercept(self, connection: BoxConnection, admitted: Admitted) -> None:
        """Carry TLS to a host that is intercepted."""
        if self._interceptor is not None:
            await self._interceptor.carry(connection, admitted)

    async def serve(self, listeners: DoorListeners) -> None:
        """Accept connections and answer names until cancelled; then every connection is ended and the listeners are closed."""
        try:
            async with anyio.create_task_group() as tasks:
                for port, listener in listeners.web.items():
                    tasks.start_soon(self._accept, listener, port, BoxConnection.run)
                for (name, port), listener in listeners.services.items():
                    self._services[name] = IPv4Address(listener.getsockname()[0])
                    tasks.start_soon(self._accept, listener, port, _service(name))
                if listeners.names is not None:
                    tasks.start_soon(self._answer_names, listeners.names)
                tasks.start_soon(self._end_idle)
        finally:
            loop = asyncio.get_running_loop()
            for each in listeners.all():
                if each.fileno() >= 0:
                    loop.remove_reader(each)
            listeners.close()
            self._audit.flush()
            if self._lookups is not None:
                self._lookups.close()

    async def _accept(
        self, listener: socket.socket, port: int, serve: Callable[[BoxConnection], Awaitable[None]]
    ) -> None:
        listener.setblocking(False)
        loop, turns = asyncio.get_running_loop(), Turns()
        async with anyio.create_task_group() as tasks:
            while True:
                await turns.take()
                try:
                    accepted, _ = await loop.sock_accept(listener)
                except OSError as error:
                    log.warning("The door of %s could not accept a connection: %s.", self.box, error)
                    await anyio.sleep(0.1)
                    continue
                if len(self._open) >= self._limits.connections or not self._budget.take(self._holder):
                    self._turn_away(accepted, port)
                    await anyio.sleep(TURNED_AWAY)  # the others wait in the kernel's queue
                    continue
                connection = BoxConnection(self, ReadAhead(SocketStream(accepted)), port)
                self._open.add(connection)
                tasks.start_soon(self._served, connection, serve)
                if delay := self._pace.delay():
                    await anyio.sleep(delay)  # likewise

    def _turn_away(self, accepted: socket.socket, port: int) -> None:
        refused = Refused(host="", port=port, reason=Reason.TOO_MANY)
        self.on_record(record_of(self.box, refused))
        with accepted:
            accepted.setblocking(False)
            try:
                accepted.send(response(refused))
            except OSError:
                return

    async def _served(self, connection: BoxConnection, serve: Callable[[BoxConnection], Awaitable[None]]) -> None:
        try:
            await serve(connection)
        except Exception:  # one connection's trouble is not its neighbours': it ends, and the operator reads why
            log.exception("A connection of %s was ended by an error.", self.box)
        finally:
            self._open.discard(connection)
            self._budget.give_back(self._holder)
            with anyio.CancelScope(shield=True):
                await connection.stream.aclose()

    async def _answer_names(self, names: socket.socket) -> None:
        names.setblocking(False)
        loop, turns, answered_in_a_row = asyncio.get_running_loop(), Turns(), 0
        while True:
            try:
                await turns.take()
                answered_in_a_row += 1
                if answered_in_a_row % NAMES_AT_ONCE == 0:
                    await anyio.sleep(NAMES_PAUSE)
                query, sender = await loop.sock_recvfrom(names, MOST_QUERY + 1)
                if (answered := answer(query, self._locate)) is not None:
                    names.sendto(answered[0], sender)
            except OSError as error:
                log.debug("The names of %s: %s.", self.box, error)
                await anyio.sleep(0.01)

    def _locate(self, name: str) -> IPv4Address | None:
        if name in self._services:
            return self._services[name] if self.policy.knows(name) else None
        return DOOR_ADDRESS if self.policy.knows(name) else None

    async def _end_idle(self) -> None:
        while True:
            await anyio.sleep(min(30.0, self._limits.idle / 4))
            self._audit.flush()
            now = anyio.current_time()
            for connection in list(self._open):
                if now - connection.active_at > self._limits.idle:
                    connection.scope.cancel()


def _service(name: str) -> Callable[[BoxConnection], Awaitable[None]]:
    async def serve(connection: BoxConnection) -> None:
        await connection.serve_service(name)

    return serve
