"""The journal beside its bare floor: the driver's own `executemany`, into the same table of the same file."""

import sqlite3
import tempfile
from functools import partial
from itertools import count
from pathlib import Path

import anyio

from bench.table import Line, Scale, by_turns, compared
from limpet.core.ids import new_id
from limpet.store.database import Database
from limpet.store.entries import COLUMNS, Entry, row_of
from limpet.store.journal import Journal
from limpet.store.open_journal import OpenJournal
from limpet.store.responses import ResponseRecord, Responses
from limpet.store.settings import DatabaseSettings
from limpet.store.sqlite import connect, locate

LOGS = 50
EVENTS = 100
BATCH = 100
DATA = b'{"item_id":"msg_0123456789abcdef","output_index":0,"content_index":0,"delta":"hello "}'
INSERT = f"INSERT INTO journal ({', '.join(COLUMNS)}) VALUES ({', '.join('?' * len(COLUMNS))})"
FLOOR = f"sqlite3 executemany, {BATCH} a transaction"


async def rows(scale: Scale) -> list[Line]:
    with tempfile.TemporaryDirectory() as home:
        async with Database(DatabaseSettings(), home=Path(home)) as db, Journal(db) as journal:
            bare = Bare(connect(locate("", home=Path(home))), [await _response(db) for _ in range(LOGS)])
            ours = [journal.begin(await _response(db), tenant="default", stored=True) for _ in range(LOGS)]
            many = await by_turns(
                partial(_append, ours), partial(_append_followed, journal, ours), bare.many, n=scale.of(30)
            )
            one = await by_turns(partial(_one, ours[0]), bare.one, n=scale.of(500))
            bare.connection.close()
    name = f"journal, {LOGS * EVENTS} events in {LOGS} logs"
    return [
        compared(f"{name}, committed", many[0], FLOOR, many[2]),
        compared(f"{name}, committed and followed by a tail each", many[1], FLOOR, many[2]),
        compared("journal, one event, committed", one[0], "sqlite3, one row a transaction", one[1]),
    ]


class Bare:
    """The same rows by the driver alone."""

    def __init__(self, connection: sqlite3.Connection, ids: list[str]) -> None:
        self.connection = connection
        self._ids = ids
        self._seq = count()

    async def many(self) -> None:
        for _ in range(LOGS * EVENTS // BATCH):
            self._insert(BATCH)

    async def one(self) -> None:
        self._insert(1)

    def _insert(self, size: int) -> None:
        numbers = [next(self._seq) for _ in range(size)]
        rows = [row_of(self._ids[seq % LOGS], "default", _entry(seq)) for seq in numbers]
        self.connection.execute("BEGIN IMMEDIATE")
        self.connection.executemany(INSERT, rows)
        self.connection.execute("COMMIT")


def record_of(owner: str) -> ResponseRecord:
    """A new response that this process carries."""
    return ResponseRecord(
        id=new_id("resp"),
        tenant="default",
        status="in_progress",
        model="m",
        provider="p",
        created_at=1,
        owner=owner,
        request={},
        input=[],
    )


async def _response(db: Database) -> str:
    return (await Responses(db).insert(record_of("bench"))).id


def _entry(seq: int) -> Entry:
    return Entry(seq=seq, step=0, type="response.output_text.delta", data=DATA)


async def _append(logs: list[OpenJournal]) -> None:
    async with anyio.create_task_group() as tasks:
        for log in logs:
            tasks.start_soon(_write, log)


async def _append_followed(journal: Journal, logs: list[OpenJournal]) -> None:
    async with anyio.create_task_group() as tasks:
        for log in logs:
            tasks.start_soon(_follow, journal, log, log.next_seq)
            tasks.start_soon(_write, log)


async def _write(log: OpenJournal) -> None:
    for seq in range(log.next_seq, log.next_seq + EVENTS):
        await log.append(_entry(seq))
    await log.flush()


async def _follow(journal: Journal, log: OpenJournal, first: int) -> None:
    async for entry in journal.tail(log.response_id, after=first - 1):
        if entry.seq == first + EVENTS - 1:
            return


async def _one(log: OpenJournal) -> None:
    await log.append(_entry(log.next_seq))
    await log.flush()
