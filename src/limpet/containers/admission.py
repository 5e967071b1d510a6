"""How many boxes live at once: who gets the next one, and which one sleeps for it. Ends no box itself.

When all slots are taken, the box that has been idle for longest is put to sleep (its files stay, its processes end); while every box is
in use, callers wait in a queue in which tenants that hold fewer boxes come first.
"""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field

import anyio

from limpet.containers.meter import Meter
from limpet.containers.settings import ContainerSettings
from limpet.core.clock import Clock
from limpet.core.errors import BoxesBusy
from limpet.store.settings import QuotaSettings

PutToSleep = Callable[[str], Awaitable[bool]]


@dataclass(slots=True)
class BoxSlot:
    """One living box. `idle_since` is monotonic, None while it is in use."""

    tenant: str
    idle_since: float | None = None


@dataclass(eq=False, slots=True)
class _Waiter:
    tenant: str
    woken: anyio.Event = field(default_factory=anyio.Event)


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionLimits:
    """At most `most` boxes live at once, and `per_tenant` of one tenant; None is no limit. A caller that finds none free waits for
    at most `wait` seconds."""

    most: int | None = None
    per_tenant: int | None = None
    wait: float = 60.0

    @classmethod
    def of(cls, settings: ContainerSettings, quota: QuotaSettings) -> "AdmissionLimits":
        """As the operator's settings say."""
        return cls(most=settings.max_live_boxes, per_tenant=quota.max_live_boxes, wait=settings.box_wait_secs)


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionCounts:
    """The counts for metrics: living boxes, those in use, callers in the queue, boxes put to sleep for others so far."""

    living: int
    busy: int
    waiting: int
    evicted: int


class BoxAdmission:
    """The admission of one gateway. `put_to_sleep` ends an idle box and keeps its files; False where it is in use after all."""

    def __init__(
        self, limits: AdmissionLimits, *, put_to_sleep: PutToSleep, can_sleep: bool, clock: Clock, meter: Meter
    ) -> None:
        self._limits = limits
        self._put_to_sleep = put_to_sleep
        self._can_sleep = can_sleep
        self._clock = clock
        self._admission: dict[str, BoxSlot] = {}
        self._line: list[_Waiter] = []
        self._evicted = 0
        self._meter = meter

    def counts(self) -> AdmissionCounts:
        busy = sum(seat.idle_since is None for seat in self._admission.values())
        return AdmissionCounts(living=len(self._admission), busy=busy, waiting=len(self._line), evicted=self._evicted)

    def found(self, container_id: str, tenant: str) -> None:
        """A box that lives already, booted by an earlier process."""
        self._admission.setdefault(container_id, BoxSlot(tenant, self._clock.monotonic()))

    async def take(self, container_id: str, tenant: str) -> None:
        """The seat of a container's box, which is in use from now on. Raises BoxesBusy when none came free in time."""
        if (seat := self._admission.get(container_id)) is not None:
            seat.idle_since = None
            return
        begun = self._clock.monotonic()
        waiting = _Waiter(tenant)
        self._line.append(waiting)
        try:
            with anyio.fail_after(self._limits.wait):
                while not (waiting is self._first() and await self._make_room(tenant)):
                    await waiting.woken.wait()
                    waiting.woken = anyio.Event()
            self._admission[container_id] = BoxSlot(tenant)
        except TimeoutError as error:
            raise BoxesBusy(living=len(self._admission), waited=self._limits.wait) from error
        finally:
            self._meter.waited(self._clock.monotonic() - begun)
            self._line.remove(waiting)
            self._wake()

    def rest(self, container_id: str) -> None:
        """Its box is idle from now on, and may be put to sleep when another caller needs the slot."""
        if (seat := self._admission.get(container_id)) is not None:
            seat.idle_since = self._clock.monotonic()
            self._wake()

    def leave(self, container_id: str) -> None:
        """Its box is gone. Quiet where it had none."""
        if self._admission.pop(container_id, None) is not None:
            self._wake()

    def _first(self) -> _Waiter:
        held = {waiting.tenant: self._held_by(waiting.tenant) for waiting in self._line}
        return first_in_line(self._line, held)

    async def _make_room(self, tenant: str) -> bool:
        """Whether a seat is free for that tenant, which may mean that an idle box had to go."""
        if not self._is_full() and not self._has_its_share(tenant):
            return True
        for container_id in idle_longest_first(self._admission, tenant if self._has_its_share(tenant) else None):
            if self._can_sleep and await self._put_to_sleep(container_id):
                self._admission.pop(container_id, None)
                self._evicted += 1
                return not self._is_full() and not self._has_its_share(tenant)
        return False

    def _is_full(self) -> bool:
        return self._limits.most is not None and len(self._admission) >= self._limits.most

    def _has_its_share(self, tenant: str) -> bool:
        return self._limits.per_tenant is not None and self._held_by(tenant) >= self._limits.per_tenant

    def _held_by(self, tenant: str) -> int:
        return sum(seat.tenant == tenant for seat in self._admission.values())

    def _wake(self) -> None:
        for waiting in self._line:
            waiting.woken.set()


def first_in_line(line: Iterable[_Waiter], held: dict[str, int]) -> _Waiter:
    """Of those who wait: whose tenant holds fewest boxes, and of equals who came first."""
    return min(line, key=lambda waiting: held[waiting.tenant])


def idle_longest_first(admission: dict[str, BoxSlot], tenant: str | None) -> list[str]:
    """The containers whose boxes are idle, of that tenant or of all."""
    idle = [
        (seat.idle_since, container_id)
        for container_id, seat in admission.items()
        if seat.idle_since is not None and (tenant is None or seat.tenant == tenant)
    ]
    return [container_id for _, container_id in sorted(idle)]
