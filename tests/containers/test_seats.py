"""Who gets a box when there are no more to be had, with events and no clock but the test's."""

from collections.abc import Callable
from dataclasses import dataclass, field

import anyio
import pytest

from limpet.containers.meter import Unmetered
from limpet.containers.seats import SeatCounts, SeatLimits, Seats
from limpet.core.errors import BoxesBusy

pytestmark = pytest.mark.anyio


@dataclass
class Boxes:
    """Boxes that can be put to sleep unless they are in `stubborn`; under a clock that counts its readings."""

    slept: list[str] = field(default_factory=list)
    stubborn: set[str] = field(default_factory=set)
    readings: int = 0

    async def put_to_sleep(self, container_id: str) -> bool:
        await anyio.lowlevel.checkpoint()
        if container_id in self.stubborn:
            return False
        self.slept.append(container_id)
        return True

    def now(self) -> int:
        return self.readings

    def monotonic(self) -> float:
        self.readings += 1
        return float(self.readings)

    def seats(self, *, can_sleep: bool = True, **limits: float) -> Seats:
        bounds = SeatLimits(**({"wait": 5.0} | limits))  # type: ignore[arg-type]  # the tests name its fields
        return Seats(bounds, put_to_sleep=self.put_to_sleep, can_sleep=can_sleep, clock=self, meter=Unmetered())


async def waits(seats: Seats, count: int) -> None:
    with anyio.fail_after(5):
        while seats.counts().waiting != count:
            await anyio.lowlevel.checkpoint()


async def test_the_box_that_was_idle_for_longest_sleeps_for_the_next_one() -> None:
    boxes = Boxes()
    seats = boxes.seats(most=3)
    for name in "abc":
        await seats.take(name, "t")
    for name in "bca":
        seats.rest(name)
    await seats.take("c", "t")
    await seats.take("d", "t")
    await seats.take("e", "t")
    assert boxes.slept == ["b", "a"]
    assert seats.counts() == SeatCounts(living=3, busy=3, waiting=0, evicted=2)


async def test_a_box_that_is_in_use_after_all_is_left_alone() -> None:
    boxes = Boxes(stubborn={"a"})
    seats = boxes.seats(most=2)
    for name in "ab":
        await seats.take(name, "t")
        seats.rest(name)
    await seats.take("c", "t")
    assert boxes.slept == ["b"]


async def test_while_all_are_busy_the_next_one_waits_until_one_rests() -> None:
    boxes = Boxes()
    seats = boxes.seats(most=1)
    await seats.take("a", "t")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(seats.take, "b", "t")
        await waits(seats, 1)
        assert boxes.slept == []
        seats.rest("a")
    assert boxes.slept == ["a"]


async def test_nobody_waits_for_ever_and_the_line_moves_on() -> None:
    boxes = Boxes()
    seats = boxes.seats(most=1, wait=0.05)
    await seats.take("a", "t")
    with pytest.raises(BoxesBusy, match="all 1 that may live"):
        await seats.take("b", "t")
    assert seats.counts().waiting == 0
    seats.leave("a")
    await seats.take("c", "t")


async def test_who_gives_up_waiting_is_out_of_the_line() -> None:
    boxes = Boxes()
    seats = boxes.seats(most=1)
    await seats.take("a", "t")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(seats.take, "b", "t")
        await waits(seats, 1)
        tasks.cancel_scope.cancel()
    assert seats.counts() == SeatCounts(living=1, busy=1, waiting=0, evicted=0)


async def test_of_those_who_wait_the_tenant_with_fewer_boxes_comes_first() -> None:
    boxes = Boxes()
    seats = boxes.seats(most=3)
    for name, tenant in (("a1", "a"), ("a2", "a"), ("b1", "b")):
        await seats.take(name, tenant)
    order: list[str] = []

    def taker(name: str, tenant: str) -> Callable[[], object]:
        async def take() -> None:
            await seats.take(name, tenant)
            order.append(name)

        return take

    async with anyio.create_task_group() as tasks:
        for name, tenant in (("a3", "a"), ("b2", "b"), ("c1", "c")):
            tasks.start_soon(taker(name, tenant))  # type: ignore[arg-type]  # a coroutine function
            await waits(seats, len(order) + "a3 b2 c1".split().index(name) + 1)
        for name in ("a1", "b1", "a2"):
            seats.leave(name)
            with anyio.fail_after(5):
                while len(order) < ("a1", "b1", "a2").index(name) + 1:
                    await anyio.lowlevel.checkpoint()
    assert order == ["c1", "b2", "a3"]


async def test_a_tenant_has_only_its_share_and_its_own_idle_box_goes_for_it() -> None:
    boxes = Boxes()
    seats = boxes.seats(most=10, per_tenant=2, wait=0.05)
    await seats.take("other", "b")
    seats.rest("other")
    for name in ("a1", "a2"):
        await seats.take(name, "a")
    with pytest.raises(BoxesBusy):
        await seats.take("a3", "a")
    seats.rest("a2")
    await seats.take("a3", "a")
    assert boxes.slept == ["a2"]


async def test_where_a_box_cannot_sleep_without_losing_files_everybody_waits() -> None:
    boxes = Boxes()
    seats = boxes.seats(most=1, wait=0.05, can_sleep=False)
    await seats.take("a", "t")
    seats.rest("a")
    with pytest.raises(BoxesBusy):
        await seats.take("b", "t")
    assert boxes.slept == []


async def test_boxes_of_an_earlier_process_count() -> None:
    boxes = Boxes()
    seats = boxes.seats(most=1)
    seats.found("old", "t")
    await seats.take("new", "t")
    assert boxes.slept == ["old"]
