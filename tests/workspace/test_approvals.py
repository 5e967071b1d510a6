"""Who is asked, how often, and for what an answer holds."""

from collections.abc import Awaitable, Callable
from dataclasses import replace

import anyio
import pytest

from limpet.core.clock import MICROSECONDS
from limpet.core.errors import ApprovalMissing
from limpet.workspace.approvals import (
    EXPIRY,
    Answer,
    ApprovalQueue,
    ApprovalRequest,
    Approvals,
    Approved,
    Approver,
    Refused,
)

pytestmark = pytest.mark.anyio

MOST = 5.0


class Turned:
    """A clock that the test turns."""

    def __init__(self) -> None:
        self.seconds = 1_000.0

    def now(self) -> int:
        return round(self.seconds * MICROSECONDS)

    def monotonic(self) -> float:
        return self.seconds


@pytest.fixture
def clock() -> Turned:
    return Turned()


def request(clock: Turned, **facts: str) -> ApprovalRequest:
    blank = ApprovalRequest(
        id="approval_1",
        workspace="box",
        session="one",
        command="rm -rf build",
        cwd=None,
        description="",
        rule="confirm_destructive",
        reason="rm -rf deletes.",
        digest="d1",
        asked_at=clock.now(),
        expires_at=clock.now() + round(EXPIRY * MICROSECONDS),
    )
    return replace(blank, **facts)  # type: ignore[arg-type]  # the facts are texts of this class


def counted(answer: bool | Answer) -> tuple[Approver, list[ApprovalRequest]]:
    seen: list[ApprovalRequest] = []

    async def ask(asked: ApprovalRequest) -> bool | Answer:
        seen.append(asked)
        return answer

    return ask, seen


async def test_nobody_there_is_a_no_that_says_how_to_have_somebody(clock: Turned) -> None:
    answer = await Approvals(None, clock=clock).ask(request(clock))

    assert isinstance(answer, Refused)
    assert "approver=" in answer.reason


async def test_a_command_that_was_approved_is_not_asked_about_again_until_that_expires(clock: Turned) -> None:
    ask, seen = counted(True)
    approvals = Approvals(ask, clock=clock)

    assert await approvals.ask(request(clock)) == Approved()
    clock.seconds += EXPIRY - 1
    assert await approvals.ask(request(clock)) == Approved()
    assert len(seen) == 1
    clock.seconds += 1
    assert await approvals.ask(request(clock)) == Approved()
    assert len(seen) == 2


@pytest.mark.parametrize("other", [{"digest": "d2"}, {"session": "two"}])
async def test_an_approval_serves_no_other_command_and_no_other_session(clock: Turned, other: dict[str, str]) -> None:
    ask, seen = counted(True)
    approvals = Approvals(ask, clock=clock)

    await approvals.ask(request(clock))
    await approvals.ask(request(clock, **other))

    assert len(seen) == 2


async def test_an_approval_for_one_run_is_asked_for_again(clock: Turned) -> None:
    ask, seen = counted(Approved(lasts=0))
    approvals = Approvals(ask, clock=clock)

    await approvals.ask(request(clock))
    await approvals.ask(request(clock))

    assert len(seen) == 2


async def test_a_no_is_remembered_with_its_reason(clock: Turned) -> None:
    ask, seen = counted(Refused("use trash instead"))
    approvals = Approvals(ask, clock=clock)

    answers = [await approvals.ask(request(clock)) for _ in range(3)]

    assert (answers, len(seen)) == ([Refused("use trash instead")] * 3, 1)


@pytest.mark.parametrize("given", [False, None, 1, "yes"])
async def test_whatever_is_not_a_plain_yes_is_a_no(clock: Turned, given: object) -> None:
    async def ask(_: ApprovalRequest) -> bool:
        return given  # type: ignore[return-value]  # what a careless function may return

    assert isinstance(await Approvals(ask, clock=clock).ask(request(clock)), Refused)


async def test_a_plain_function_will_do(clock: Turned) -> None:
    assert await Approvals(lambda asked: True, clock=clock).ask(request(clock)) == Approved()


async def in_parallel(count: int, ask: Callable[[], Awaitable[Answer]]) -> list[Answer]:
    answers: list[Answer] = []

    async def one() -> None:
        answers.append(await ask())

    async with anyio.create_task_group() as tasks:
        for _ in range(count):
            tasks.start_soon(one)
    return answers


@pytest.mark.parametrize("answer, asked", [(Approved(), 1), (Refused("no", lasts=0), 1), (Approved(lasts=0), 3)])
async def test_the_same_command_three_times_at_once(clock: Turned, answer: Answer, asked: int) -> None:
    queue = ApprovalQueue(clock=clock)
    approvals = Approvals(queue, clock=clock)
    ids: set[str] = set()

    async def person() -> None:
        while len(ids) < asked:
            while not queue.pending():
                await queue.changed()
            [waiting] = queue.pending()
            ids.add(waiting.id)
            if isinstance(answer, Approved):
                queue.approve(waiting.id, lasts=answer.lasts)
            else:
                queue.deny(waiting.id, answer.reason, lasts=answer.lasts)

    numbers = iter(range(100))
    answers: list[Answer] = []
    with anyio.fail_after(MOST):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(person)
            answers += await in_parallel(3, lambda: approvals.ask(request(clock, id=f"approval_{next(numbers)}")))

    assert (answers, len(ids)) == ([answer] * 3, asked)


async def test_when_the_one_who_asks_is_cancelled_the_next_one_asks_anew(clock: Turned) -> None:
    queue = ApprovalQueue(clock=clock)
    approvals = Approvals(queue, clock=clock)
    answers: list[Answer] = []

    async def second() -> None:
        answers.append(await approvals.ask(request(clock, id="approval_2")))

    with anyio.fail_after(MOST):
        async with anyio.create_task_group() as tasks:
            async with anyio.create_task_group() as first:
                first.start_soon(approvals.ask, request(clock))
                await queue.changed()
                tasks.start_soon(second)
                await anyio.lowlevel.checkpoint()
                first.cancel_scope.cancel()
            while [one.id for one in queue.pending()] != ["approval_2"]:
                await queue.changed()
            queue.approve("approval_2")

    assert answers == [Approved()]
    assert queue.pending() == []


async def test_an_answer_is_given_once_and_only_to_a_request_that_waits(clock: Turned) -> None:
    queue = ApprovalQueue(clock=clock)
    with pytest.raises(ApprovalMissing, match="approval_9"):
        queue.approve("approval_9")

    with anyio.fail_after(MOST):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(queue, request(clock))
            await queue.changed()
            queue.deny("approval_1", "no")
            with pytest.raises(ApprovalMissing):
                queue.approve("approval_1")


async def test_a_request_that_expired_is_neither_listed_nor_answered(clock: Turned) -> None:
    queue = ApprovalQueue(clock=clock)

    with anyio.fail_after(MOST):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(queue, request(clock))
            await queue.changed()
            clock.seconds += EXPIRY
            assert queue.pending() == []
            with pytest.raises(ApprovalMissing):
                queue.approve("approval_1")
            tasks.cancel_scope.cancel()


async def test_an_answer_after_the_question_expired_is_a_no(clock: Turned) -> None:
    async def late(_: ApprovalRequest) -> bool:
        clock.seconds += EXPIRY
        return True

    approvals = Approvals(late, clock=clock)

    assert isinstance(await approvals.ask(request(clock)), Refused)


async def test_a_question_that_nobody_answers_ends(clock: Turned) -> None:
    with anyio.fail_after(MOST):
        answer = await Approvals(ApprovalQueue(clock=clock), clock=clock, expiry=0.05).ask(request(clock))

    assert isinstance(answer, Refused)
