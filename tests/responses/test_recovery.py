"""Which runs of other processes are taken up."""

from typing import Any, cast

import anyio
import pytest

from limpet.responses.live_runs import LONGEST_PAUSE, ClaimedRun, pause_before
from limpet.responses.recovery import MOST_TAKEOVERS, Recovery, RunTakenUpTooOften, RunUnreadable
from limpet.store.responses import FIRST_EPOCH
from limpet.store.runs import RunClaim
from tests.store.samples import a_response


def claim_of(response_id: str, *, takeovers: int) -> RunClaim:
    return RunClaim(response_id=response_id, tenant="default", epoch=FIRST_EPOCH + takeovers, checkpoint=None)


def test_a_run_waits_before_its_second_recovery_and_twice_as_long_before_each_further_one() -> None:
    pauses = [pause_before(takeovers) for takeovers in range(MOST_TAKEOVERS + 1)]

    assert pauses == [0, 0, 1, 2, 4, 8, 16, LONGEST_PAUSE, LONGEST_PAUSE]


@pytest.mark.anyio
async def test_a_pause_ends_when_the_run_shall_end() -> None:
    claimed = ClaimedRun(claim_of("resp_1", takeovers=MOST_TAKEOVERS))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(claimed.pause)
        await anyio.wait_all_tasks_blocked()
        claimed.hurries.set()
    with anyio.fail_after(5):
        await ClaimedRun(claim_of("resp_2", takeovers=1)).pause()


@pytest.mark.anyio
async def test_a_run_that_ended_its_gateways_too_often_is_not_taken_up_again() -> None:
    nothing = cast(Any, None)  # neither run is looked at further
    recovery, record = Recovery(preparer=nothing, journal=nothing, executions=nothing), a_response()
    for takeovers, refusal in ((MOST_TAKEOVERS, RunUnreadable), (MOST_TAKEOVERS + 1, RunTakenUpTooOften)):
        claim = claim_of(record.id, takeovers=takeovers)
        with pytest.raises(refusal):
            await recovery.resume(record, claim, keeps_commands=lambda: False)
