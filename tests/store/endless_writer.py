"""A program that writes journals until it is killed, and says on stdout how far each is flushed: `<response id> <seq>`."""

import sys
from pathlib import Path

import anyio

from limpet.store.database import Database
from limpet.store.entries import Entry
from limpet.store.journal import Journal
from limpet.store.responses import Responses
from limpet.store.settings import DatabaseSettings
from tests.store.samples import a_response

LOGS = 8


async def main(home: Path) -> None:
    async with (
        Database(DatabaseSettings(), home=home) as db,
        Journal(db) as journal,
        anyio.create_task_group() as tasks,
    ):
        for _ in range(LOGS):
            tasks.start_soon(write, db, journal)


async def write(db: Database, journal: Journal) -> None:
    record = await Responses(db).insert(a_response())
    log = journal.begin(record.id, tenant="default", stored=True)
    seq = 0
    while True:
        for _ in range(10):
            await log.append(Entry(seq=seq, step=0, type="x", data=b'{"n":%d}' % seq))
            seq += 1
        await log.flush()
        sys.stdout.write(f"{record.id} {seq - 1}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    anyio.run(main, Path(sys.argv[1]))
