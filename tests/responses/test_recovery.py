"""Which runs of other processes are taken up."""

from typing import Any, cast

import pytest

from limpet.responses.recovery import MOST_TAKEOVERS, Recovery, RunTakenUpTooOften, RunUnreadable
from limpet.store.responses import FIRST_EPOCH
from limpet.store.runs import RunClaim
from tests.store.samples import a_response


@pytest.mark.anyio
async def test_a_run_that_ended_its_gateways_too_often_is_not_taken_up_again() -> None:
    nothing = cast(Any, None)  # neither run is looked at further
    recovery, record = Recovery(preparer=nothing, journal=nothing, executions=nothing), a_response()
    for takeovers, refusal in ((MOST_TAKEOVERS, RunUnreadable), (MOST_TAKEOVERS + 1, RunTakenUpTooOften)):
        claim = RunClaim(response_id=record.id, tenant="default", epoch=FIRST_EPOCH + takeovers, checkpoint=None)
        with pytest.raises(refusal):
            await recovery.resume(record, claim, keeps_commands=lambda: False)
