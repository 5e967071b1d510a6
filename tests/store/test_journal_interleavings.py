import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from limpet.store.database import Database
from limpet.store.entries import Entry
from limpet.store.journal import Journal
from limpet.store.responses import Responses
from limpet.store.settings import DatabaseSettings
from tests.store.samples import a_response, entries

pytestmark = pytest.mark.anyio


@dataclass(frozen=True, slots=True)
class Append:
    count: int


@dataclass(frozen=True, slots=True)
class Flush:
    pass


@dataclass(frozen=True, slots=True)
class Follow:
    after: int


@dataclass(frozen=True, slots=True)
class Take:
    """The next entries of one of the tails, as far as they are flushed."""

    tail: int
    count: int


@dataclass(slots=True)
class Tail:
    after: int
    source: AsyncIterator[Entry]
    seen: list[Entry] = field(default_factory=list)


Step = Append | Flush | Follow | Take
steps = st.lists(
    st.one_of(
        st.builds(Append, st.integers(1, 700)),
        st.builds(Flush),
        st.builds(Follow, st.integers(-1, 2000)),
        st.builds(Take, st.integers(0, 5), st.integers(1, 600)),
    ),
    max_size=25,
)


async def follow_a_log(journal: Journal, response_id: str, plan: list[Step], *, stored: bool) -> int:
    """Do what the plan says, let each tail run to its end and compare; how many entries there were."""
    log = journal.begin(response_id, tenant="default", stored=stored)
    appended = flushed = 0
    tails: list[Tail] = []
    for step in plan:
        match step:
            case Append(count):
                await log.append(*entries(appended, appended + count - 1))
                appended += count
            case Flush():
                await log.flush()
                flushed = appended
            case Follow(after):
                tails.append(Tail(after, journal.tail(response_id, after=after)))
            case Take(index, count) if tails:
                tail = tails[index % len(tails)]
                for _ in range(min(count, flushed - 1 - tail.after - len(tail.seen))):
                    tail.seen.append(await anext(tail.source))
            case _:
                pass
    await log.close()
    for tail in tails:
        tail.seen += [entry async for entry in tail.source]
        assert tail.seen == entries(0, appended - 1)[tail.after + 1 :]
    return appended


@given(plan=steps, stored=st.booleans())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
async def test_every_tail_sees_exactly_what_comes_behind_its_beginning(plan: list[Step], stored: bool) -> None:
    with tempfile.TemporaryDirectory() as home, anyio.fail_after(20):
        async with Database(DatabaseSettings(url="sqlite::memory:"), home=Path(home)) as db, Journal(db) as journal:
            record = await Responses(db).insert(a_response())
            appended = await follow_a_log(journal, record.id, plan, stored=stored)
            kept = [entry async for entry in Journal(db).read(record.id)]
            assert kept == (entries(0, appended - 1) if stored else [])
