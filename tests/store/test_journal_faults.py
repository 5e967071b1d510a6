import resource
import signal
import subprocess
import sys
from pathlib import Path

import anyio
import pytest
from anyio.streams.buffered import BufferedByteReceiveStream

from limpet.core.errors import StoreFailed
from limpet.store.database import Database
from limpet.store.entries import Entry
from limpet.store.executions import Executions
from limpet.store.journal import Journal
from limpet.store.open_journal import OpenJournal
from limpet.store.responses import Responses
from limpet.store.settings import DatabaseSettings
from tests.store.disk import Disk
from tests.store.samples import a_response, an_execution, entries

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[2]
WRITER = "tests.store.endless_writer"
# Makes every write behind the first 600 kB of a file fail, in this process only.
LIMITED = f"import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (2_000_000, {resource.RLIM_INFINITY})); "


async def flushed_until_killed(home: Path, *, lines: int) -> dict[str, int]:
    """What a writing process said was on disk, up to the moment when it was killed in the midst of it."""
    words = [sys.executable, "-m", WRITER, str(home)]
    writer = await anyio.open_process(words, stdout=subprocess.PIPE, stderr=None, cwd=ROOT)
    flushed: dict[str, int] = {}
    assert writer.stdout is not None
    said = BufferedByteReceiveStream(writer.stdout)
    try:
        with anyio.fail_after(30):
            for _ in range(lines):
                id, seq = (await said.receive_until(b"\n", 200)).split()
                flushed[id.decode()] = int(seq)
        writer.send_signal(signal.SIGKILL)
        with anyio.move_on_after(5):
            while True:
                id, seq = (await said.receive_until(b"\n", 200)).split()
                flushed[id.decode()] = int(seq)
    except (anyio.EndOfStream, anyio.IncompleteRead):
        pass
    finally:
        await writer.aclose()
    return flushed


@pytest.mark.parametrize("lines", [1, 50, 400])
async def test_a_killed_writer_loses_nothing_that_it_had_flushed(tmp_path: Path, lines: int) -> None:
    flushed = await flushed_until_killed(tmp_path, lines=lines)
    async with Database(DatabaseSettings(), home=tmp_path) as db, Journal(db) as journal:
        assert {record.id for record in await Responses(db).unfinished()} >= set(flushed)
        for response_id, seq in flushed.items():
            kept = [entry async for entry in journal.read(response_id)]
            assert kept == [Entry(seq=n, step=0, type="x", data=b'{"n":%d}' % n) for n in range(len(kept))]
            assert len(kept) > seq
            log = journal.resume(response_id, tenant="default", next_seq=len(kept))
            await log.append(Entry(seq=len(kept), step=1, type="y", data=b"{}"))
            await log.close()


async def written_until_refused(log: OpenJournal) -> int:
    """How many entries were acknowledged until the disk was full."""
    seq = 0
    with pytest.raises(StoreFailed, match="disk"):
        while True:
            await log.append(*entries(seq, seq + 9, size=1000))
            await log.flush()
            seq += 10
    return seq


async def test_a_full_disk_fails_the_log_keeps_what_was_acknowledged_and_the_process_goes_on(disk: Disk) -> None:
    async with Database(DatabaseSettings(), home=disk.path) as db, Journal(db) as journal:
        record = await Responses(db).insert(a_response())
        later = await Responses(db).insert(a_response())
        disk.fill(leaving=200_000)
        log = journal.begin(record.id, tenant="default", stored=True)
        acknowledged = await written_until_refused(log)
        with pytest.raises(StoreFailed, match="The disk is full"):
            await log.append(*entries(acknowledged, acknowledged))
        with pytest.raises(StoreFailed, match="The disk is full"):
            for index in range(1000):
                await Executions(db).intend(an_execution(record.id, index))
        assert [entry async for entry in journal.read(record.id)] == entries(0, acknowledged - 1, size=1000)
        disk.empty()
        other = journal.begin(later.id, tenant="default", stored=True)
        await other.append(*entries(0, 99, size=1000))
        await other.close()
        await Executions(db).intend(an_execution(later.id))
        with pytest.raises(StoreFailed):
            await log.close()
    async with Database(DatabaseSettings(), home=disk.path) as db, Journal(db) as journal:
        assert [entry async for entry in journal.read(record.id)] == entries(0, acknowledged - 1, size=1000)
        assert [entry async for entry in journal.read(later.id)] == entries(0, 99, size=1000)


async def test_a_process_whose_files_may_not_grow_is_told_and_loses_nothing_acknowledged(tmp_path: Path) -> None:
    command = [sys.executable, "-c", f"{LIMITED}import runpy; runpy.run_module('{WRITER}', run_name='__main__')"]
    done = await anyio.run_process([*command, str(tmp_path)], check=False, cwd=ROOT)
    assert b"StoreFailed: The store failed: The disk" in done.stderr
    flushed = {line.split()[0].decode(): int(line.split()[1]) for line in done.stdout.splitlines()}
    assert flushed
    async with Database(DatabaseSettings(), home=tmp_path) as db, Journal(db) as journal:
        for response_id, seq in flushed.items():
            kept = [entry async for entry in journal.read(response_id)]
            assert [entry.seq for entry in kept] == list(range(len(kept)))
            assert len(kept) > seq
