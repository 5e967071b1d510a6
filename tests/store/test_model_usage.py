"""What tenants have used up: counted once where a response ends, summed by the hour."""

import anyio
import pytest

from limpet.store.database import Database
from limpet.store.model_usage import HOUR, ModelUsage, UsageCounts, UsageRecord
from limpet.store.responses import Responses
from tests.store.samples import a_response

pytestmark = pytest.mark.anyio


def used(at: int, *, tenant: str = "default", model: str = "m", tokens: int = 10) -> UsageRecord:
    counts = UsageCounts(responses=1, turns=2, input_tokens=tokens, cached_tokens=1, output_tokens=3, wall_us=5)
    return UsageRecord(tenant=tenant, model=model, at=at, counts=counts)


async def test_it_is_summed_by_hour_and_model_for_each_tenant(db: Database) -> None:
    usage = ModelUsage(db)
    async with anyio.create_task_group() as group:
        for at in (HOUR, HOUR + 1, 2 * HOUR - 1, 2 * HOUR):
            group.start_soon(usage.count, used(at))
        group.start_soon(usage.count, used(HOUR, model="other", tokens=1 << 40))
        group.start_soon(usage.count, used(HOUR, tenant="another"))

    hours = await usage.hours("default", since=HOUR, until=2 * HOUR)
    assert [(each.model, each.at, each.counts.responses, each.counts.input_tokens) for each in hours] == [
        ("m", HOUR, 3, 30),
        ("other", HOUR, 1, 1 << 40),
    ]
    total = await usage.total("default", since=2 * HOUR + 17)
    assert total == UsageCounts(responses=1, turns=2, input_tokens=10, cached_tokens=1, output_tokens=3, wall_us=5)
    assert await usage.total("nobody", since=0) == UsageCounts()


async def test_of_two_ends_of_a_response_one_is_counted(db: Database) -> None:
    responses, usage = Responses(db), ModelUsage(db)
    record = await responses.insert(a_response())
    ends = [
        await responses.finish(record.id, status=status, completed_at=HOUR, counted=used(HOUR))
        for status in ("cancelled", "completed")
    ]

    assert ends == [True, False]
    assert (await usage.total("default", since=0)).responses == 1


async def test_a_name_with_a_nul_is_counted_in_every_database(db: Database) -> None:
    usage = ModelUsage(db)
    await usage.count(used(HOUR, tenant="a\0b", model="m\0"))
    (hour,) = await usage.hours("a\0b", since=HOUR, until=2 * HOUR)
    assert hour.model in ("m\0", "m\u2400")
    assert hour.counts.responses == 1
