"""Which runs may go on now, where the operator bounds how many there are at once. Decides; it starts nothing.

Foreground goes before background, and that before what may wait for hours. Within a rank tenants take turns: the next place goes to the one
that has the fewest runs, and of those to the one that got a place longest ago. So a tenant with a thousand waiting runs delays another's
first one by no more than one run.
"""

from collections import Counter, deque
from dataclasses import dataclass, field
from enum import IntEnum

import anyio

from limpet.core.errors import RequestError
from limpet.responses.settings import ResponseSettings


class Rank(IntEnum):
    """In the order in which places are given."""

    FOREGROUND = 0
    BACKGROUND = 1
    PATIENT = 2


class QueueFull(RequestError):
    """As many runs of the tenant wait as may."""

    status = 429
    type = "rate_limit_error"

    def __init__(self, most: int) -> None:
        super().__init__(
            f"{most} responses of this tenant wait for a place already. Send the request again when some of them have ended.",
            code="rate_limit_exceeded",
        )


@dataclass(eq=False, slots=True)
class QueueTicket:
    """A run's place, or its turn in the line for one: `admitted` once it may go on."""

    tenant: str
    rank: Rank
    admitted: anyio.Event = field(default_factory=anyio.Event)

    @property
    def is_admitted(self) -> bool:
        return self.admitted.is_set()


class RunQueue:
    """The runs of this process, waiting and admitted."""

    def __init__(self, settings: ResponseSettings) -> None:
        self._most = settings.max_running
        self._most_of_tenant = settings.max_running_per_tenant
        self._most_waiting = settings.max_queued_per_tenant
        self._waiting: dict[Rank, dict[str, deque[QueueTicket]]] = {rank: {} for rank in Rank}
        self._running: Counter[str] = Counter()
        self._turns: dict[str, int] = {}  # when each tenant got its last place
        self._turn = 0

    @property
    def waiting(self) -> int:
        return sum(len(tickets) for tenants in self._waiting.values() for tickets in tenants.values())

    def enter(self, tenant: str, rank: Rank, *, is_bounded: bool = True) -> QueueTicket:
        """A ticket, admitted if there is room. Each is given back by `leave`. Raises QueueFull where it `is_bounded`."""
        ticket = QueueTicket(tenant, rank)
        waiting = sum(len(tenants.get(tenant, ())) for tenants in self._waiting.values())
        self._waiting[rank].setdefault(tenant, deque()).append(ticket)
        self._admit()
        if is_bounded and not ticket.is_admitted and waiting >= self._most_waiting:
            self._withdraw(ticket)
            raise QueueFull(self._most_waiting)
        return ticket

    def leave(self, ticket: QueueTicket) -> None:
        """It has ended, or waits no more."""
        if not ticket.is_admitted:
            self._withdraw(ticket)
            return
        self._running[ticket.tenant] -= 1
        self._running += Counter()  # without zeros
        self._admit()
        if not self._running[ticket.tenant] and not any(ticket.tenant in tenants for tenants in self._waiting.values()):
            self._turns.pop(ticket.tenant, None)

    def _withdraw(self, ticket: QueueTicket) -> None:
        tickets = self._waiting[ticket.rank][ticket.tenant]
        tickets.remove(ticket)
        if not tickets:
            del self._waiting[ticket.rank][ticket.tenant]

    def _admit(self) -> None:
        while (self._most is None or self._running.total() < self._most) and (ticket := self._next()) is not None:
            self._withdraw(ticket)
            self._running[ticket.tenant] += 1
            self._turn += 1
            self._turns[ticket.tenant] = self._turn
            ticket.admitted.set()

    def _next(self) -> QueueTicket | None:
        for tenants in self._waiting.values():
            able = [
                tenant
                for tenant in tenants
                if self._most_of_tenant is None or self._running[tenant] < self._most_of_tenant
            ]
            if able:
                first = min(able, key=lambda tenant: (self._running[tenant], self._turns.get(tenant, 0)))
                return tenants[first][0]
        return None
