"""Who gets a box when there are no more to be had, with events and no clock but the test's."""

from collections.abc import Callable
from dataclasses import dataclass, field

import anyio
import pytest

from limpet.containers.admission import AdmissionCounts, AdmissionLimits, BoxAdmission
from limpet.containers.meter import NullMeter
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

    def admission(self, *, can_sleep: bool = True, **limits: float) -> BoxAdmission:
        bounds = AdmissionLimits(**({"wait": 5.0} | limits))  # type: ignore[arg-type]  # the tests name its fields
        return BoxAdmission(bounds, put_to_sleep=self.put_to_sleep, can_sleep=can_sleep, clock=self, meter=NullMeter())


async def waits(admission: BoxAdmission, count: int) -> None:
    with anyio.fail_after(5):
        while admission.counts().waiting != count:
            await anyio.lowlevel.checkpoint()


async def test_the_box_that_was_idle_for_longest_sleeps_for_the_next_one() -> None:
    boxes = Boxes()
    admission = boxes.admission(most=3)
    for name in "abc":
        await admission.take(name, "t")
    for name in "bca":
        admission.rest(name)
    await admission.take("c", "t")
    await admission.take("d", "t")
    await admission.take("e", "t")
    assert boxes.slept == ["b", "a"]
    assert admission.counts() == AdmissionCounts(living=3, busy=3, waiting=0, evicted=2)


async def test_a_box_that_is_in_use_after_all_is_left_alone() -> None:
    boxes = Boxes(stubborn={"a"})
    admission = boxes.admission(most=2)
    for name in "ab":
        await admission.take(name, "t")
        admission.rest(name)
    await admission.take("c", "t")
    assert boxes.slept == ["b"]


async def test_while_all_are_busy_the_next_one_waits_until_one_rests() -> None:
    boxes = Boxes()
    admission = boxes.admission(most=1)
    await admission.take("a", "t")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(admission.take, "b", "t")
        await waits(admission, 1)
        assert boxes.slept == []
        admission.rest("a")
    assert boxes.slept == ["a"]


async def test_nobody_waits_for_ever_and_the_line_moves_on() -> None:
    boxes = Boxes()
    admission = boxes.admission(most=1, wait=0.05)
    await admission.take("a", "t")
    with pytest.raises(BoxesBusy, match="all 1 that may live"):
        await admission.take("b", "t")
    assert admission.counts().waiting == 0
    admission.leave("a")
    await admission.take("c", "t")


async def test_who_gives_up_waiting_is_out_of_the_line() -> None:
    boxes = Boxes()
    admission = boxes.admission(most=1)
    await admission.take("a", "t")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(admission.take, "b", "t")
        await waits(admission, 1)
        tasks.cancel_scope.cancel()
    assert admission.counts() == AdmissionCounts(living=1, busy=1, waiting=0, evicted=0)


async def test_of_those_who_wait_the_tenant_with_fewer_boxes_comes_first() -> None:
    boxes = Boxes()
    admission = boxes.admission(most=3)
    for name, tenant in (("a1", "a"), ("a2", "a"), ("b1", "b")):
        await admission.take(name, tenant)
    order: list[str] = []

    def taker(name: str, tenant: str) -> Callable[[], object]:
        async def take() -> None:
            await admission.take(name, tenant)
            order.append(name)

        return take

    async with anyio.create_task_group() as tasks:
        for name, tenant in (("a3", "a"), ("b2", "b"), ("c1", "c")):
            tasks.start_soon(taker(name, tenant))  # type: ignore[arg-type]  # a coroutine function
            await waits(admission, len(order) + "a3 b2 c1".split().index(name) + 1)
        for name in ("a1", "b1", "a2"):
            admission.leave(name)
            with anyio.fail_after(5):
                while len(order) < ("a1", "b1", "a2").index(name) + 1:
                    await anyio.lowlevel.checkpoint()
    assert order == ["c1", "b2", "a3"]


async def test_a_tenant_has_only_its_share_and_its_own_idle_box_goes_for_it() -> None:
    boxes = Boxes()
    admission = boxes.admission(most=10, per_tenant=2, wait=0.05)
    await admission.take("other", "b")
    admission.rest("other")
    for name in ("a1", "a2"):
        await admission.take(name, "a")
    with pytest.raises(BoxesBusy):
        await admission.take("a3", "a")
    admission.rest("a2")
    await admission.take("a3", "a")
    assert boxes.slept == ["a2"]


async def test_where_a_box_cannot_sleep_without_losing_files_everybody_waits() -> None:
    boxes = Boxes()
    admission = boxes.admission(most=1, wait=0.05, can_sleep=False)
    await admission.take("a", "t")
    admission.rest("a")
    with pytest.raises(BoxesBusy):
        await admission.take("b", "t")
    assert boxes.slept == []


async def test_boxes_of_an_earlier_process_count() -> None:
    boxes = Boxes()
    admission = boxes.admission(most=1)
    admission.found("old", "t")
    await admission.take("new", "t")
    assert boxes.slept == ["old"]
