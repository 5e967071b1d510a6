"""Runs that last: a step of one, which is on disk when it is done, and many that go on after a gateway was killed."""

import os
import signal
import sqlite3
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from functools import partial
from pathlib import Path

import anyio
import httpx2

from bench.gateway import LIMPET, RunningProgram, home, program, running_program
from bench.journal import DATA, record_of
from bench.table import Line, NotMeasured, Row, Scale, by_turns, compared
from limpet.store.database import Database
from limpet.store.entries import COLUMNS, Entry, row_of
from limpet.store.journal import Journal
from limpet.store.open_journal import OpenJournal
from limpet.store.responses import FIRST_EPOCH, Responses
from limpet.store.settings import DatabaseSettings
from limpet.store.sqlite import connect, locate

POSTGRES = "LIMPET_BENCH_POSTGRES"  # the URL of an empty database
INSERT = f"INSERT INTO journal ({', '.join(COLUMNS)}) VALUES ({', '.join('?' * len(COLUMNS))})"
CHECKPOINT = b'{"turn":1,"items":[]}'
RUNS = 1000
PATIENCE = 120.0


async def rows(scale: Scale) -> list[Line]:
    return [await _step_on_sqlite(scale), await _step_on_postgres(scale), await _resumed(scale)]


async def _step_on_sqlite(scale: Scale) -> Line:
    with tempfile.TemporaryDirectory() as name:
        async with Database(DatabaseSettings(), home=Path(name)) as db, Journal(db) as journal:
            bare = BareInsert(connect(locate("", home=Path(name))), (await Responses(db).insert(record_of("bare"))).id)
            log = await _log(db, journal)
            ours, floor = await by_turns(partial(_step, log), bare.insert, n=scale.of(500))
            bare.connection.close()
    return compared("a step of a run on SQLite", ours, "sqlite3, one row a transaction", floor, target="≤ 1 ms")


async def _step_on_postgres(scale: Scale) -> Line:
    name, url = "a step of a run on PostgreSQL", os.environ.get(POSTGRES)
    if url is None:
        return NotMeasured(name=name, reason=f"Set {POSTGRES} to the URL of an empty database.", is_optional=True)
    async with Database(DatabaseSettings(url=url), home=scale.home) as db, Journal(db) as journal:
        log = await _log(db, journal)
        ours, floor = await by_turns(partial(_step, log), partial(_committed, db), n=scale.of(500))
    return compared(name, ours, "one row of another table, committed", floor, target="≤ 5 ms")


async def _log(db: Database, journal: Journal) -> OpenJournal:
    record = await Responses(db).insert(record_of("bench"))
    return journal.begin(record.id, tenant="default", stored=True, epoch=FIRST_EPOCH)


async def _step(log: OpenJournal) -> None:
    """An event and a checkpoint, under the run's epoch, committed."""
    await log.append(
        Entry(seq=log.next_seq, step=0, type="response.output_text.delta", data=DATA), checkpoint=CHECKPOINT
    )
    await log.flush()


async def _committed(db: Database) -> None:
    await Responses(db).insert(record_of("floor"))


class BareInsert:
    """The driver alone, with the same row."""

    def __init__(self, connection: sqlite3.Connection, response_id: str) -> None:
        self.connection = connection
        self._response_id = response_id
        self._seq = 0

    async def insert(self) -> None:
        entry = Entry(seq=self._seq, step=0, type="response.output_text.delta", data=DATA)
        self._seq += 1
        self.connection.execute("BEGIN IMMEDIATE")
        self.connection.execute(INSERT, row_of(self._response_id, "default", entry))
        self.connection.execute("COMMIT")


async def _resumed(scale: Scale) -> Line:
    """Background responses whose provider was silent when the gateway was killed; it answers those that ask after the restart."""
    count = scale.of(RUNS)
    with home() as directory:
        async with program([sys.executable, "-m", "bench.silent_provider", str(count)]) as said:
            file = directory / "limpet.toml"
            file.write_text(
                f'[providers.bench]\ntype = "openai_chat"\nbase_url = "{said}"\napi_key = "k"\n'
                '[server]\nlog_level = "warning"\n[features.shell]\ntype = "memory"\n'
            )
            async with _serving(file) as process, httpx2.AsyncClient(trust_env=False, timeout=60.0) as client:
                for _ in range(count):
                    await _begin(client, process.said)
                os.kill(process.pid, signal.SIGKILL)
            begun = time.perf_counter()
            async with _serving(file):
                ready = time.perf_counter() - begun
                with anyio.fail_after(PATIENCE):
                    while _completed(directory / "home" / "limpet.db") < count:  # noqa: ASYNC110 - another process writes it
                        await anyio.sleep(0.1)
                taken = time.perf_counter() - begun
    name = f"{count} interrupted runs at their end after a restart"
    return Row(name=name, ours=taken, beside="the same gateway ready", floor=ready, unit="s", n=count, target="≤ 10 s")


@asynccontextmanager
async def _serving(file: Path) -> AsyncIterator[RunningProgram]:
    environment = {"PATH": "/usr/bin:/bin", "LIMPET_HOME": str(file.parent / "home")}
    command = [str(LIMPET), "serve", "--config", str(file), "--port", "0"]
    async with running_program(command, environment) as process:
        yield RunningProgram(process.said.removeprefix("limpet serves "), process.pid)


async def _begin(client: httpx2.AsyncClient, url: str) -> None:
    body = {"model": "bench/m", "input": "hi", "background": True}
    (await client.post(f"{url}/v1/responses", json=body)).raise_for_status()


def _completed(file: Path) -> int:
    """Read from the database, so that to ask costs the gateway nothing."""
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as connection:
        found: int = connection.execute("SELECT count(*) FROM responses WHERE status = 'completed'").fetchone()[0]
    return found
