"""Containers in real boxes, which outlive the process that made them."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from limpet.containers.manager import ContainerManager
from limpet.core.command import Command, Exited, Script
from limpet.core.errors import SandboxGone
from limpet.core.ports import Runtime, SandboxSpec, TimeToLive
from limpet.store.database import Database
from limpet.store.settings import DatabaseSettings
from tests.containers.turned import TurnedClock
from tests.support.runtimes import opened

pytestmark = pytest.mark.anyio

TENANT = "default"


@pytest.fixture
async def db(home: Path) -> AsyncIterator[Database]:
    async with Database(DatabaseSettings(), home=home) as database:
        yield database


def manager(runtime: Runtime, db: Database, home: Path, clock: TurnedClock, *, stop: bool = False) -> ContainerManager:
    return ContainerManager(runtime, db, home=home, clock=clock, stop_boxes=stop)


async def new(containers: ContainerManager) -> str:
    return (await containers.create(TENANT, name="box", spec=containers.narrow({"memory_limit": "256m"}))).id


async def test_box_processes_and_files_outlive_the_gateway(home: Path, db: Database, clock: TurnedClock) -> None:
    async with opened("bubblewrap", home) as runtime, manager(runtime, db, home, clock) as before:
        mine = await new(before)
        async with before.lease(TENANT, mine) as first:
            await first.shell.start(
                Command(what=Script("echo early; while [ ! -e go ]; do sleep 0.05; done; echo late")), "exec_1"
            )

    async with (
        opened("bubblewrap", home) as runtime,
        manager(runtime, db, home, clock, stop=True) as after,
        after.lease(TENANT, mine) as second,
    ):
        await second.shell.run("touch go")
        process = await second.shell.find("exec_1")
        assert process is not None
        with anyio.fail_after(5):
            printed = b"".join([chunk.data async for chunk in process.output()])
            assert await process.wait() == Exited(0)

    assert (second.boot_id, second.note, printed) == (first.boot_id, None, b"early\nlate\n")


async def test_an_expired_container_leaves_no_box_and_no_directory(
    home: Path, db: Database, clock: TurnedClock
) -> None:
    async with opened("bubblewrap", home) as runtime, manager(runtime, db, home, clock) as containers:
        mine = await new(containers)
        async with containers.lease(TENANT, mine) as lease:
            await lease.shell.run("mkdir -p a/b; echo x > a/b/c; chmod 0 a; (setsid sleep 600 &)")
            ref = lease.shell.ref
        clock.turn(1300)
        assert await containers.reap_once() == (mine,)
        with pytest.raises(SandboxGone):
            await runtime.attach(ref)

    assert list((home / "boxes").iterdir()) == []


async def test_files_go_in_before_the_box_and_come_out_of_it(home: Path, db: Database, clock: TurnedClock) -> None:
    async def data() -> AsyncIterator[bytes]:
        yield b"in"

    async with (
        opened("bubblewrap", home) as runtime,
        manager(runtime, db, home, clock, stop=True) as containers,
    ):
        mine = await new(containers)
        await containers.files.put(TENANT, mine, "in.txt", data())
        async with containers.lease(TENANT, mine) as lease:
            result = await lease.shell.run("cat in.txt; echo more >> in.txt && mv in.txt out.txt && id -u")
            (row,) = (await lease.capture("resp_1")).files
        _, pieces = await containers.files.open_content(TENANT, mine, row.id)
        assert b"".join([piece async for piece in pieces]) == b"inmore\n"
        owner = (home / "boxes" / mine / "data" / "out.txt").stat().st_uid

    assert (result.exit_code, row.path) == (0, "/mnt/data/out.txt")
    assert (owner >= 2_000_000_000) == (os.geteuid() == 0)


async def test_a_box_killed_from_outside_is_replaced_on_its_files(home: Path, db: Database, clock: TurnedClock) -> None:
    async with (
        opened("bubblewrap", home) as runtime,
        manager(runtime, db, home, clock, stop=True) as containers,
    ):
        mine = await new(containers)
        async with containers.lease(TENANT, mine) as first:
            await first.shell.run("echo kept > file")
            other = await runtime.attach(first.shell.ref)
            await other.destroy()
        async with containers.lease(TENANT, mine) as second:
            result = await second.shell.run("cat file")

    assert (result.stdout, second.boot_id == first.boot_id) == (b"kept\n", False)
    assert second.note is not None


async def test_a_box_that_no_row_came_to_know_is_swept_and_the_containers_files_stay(
    home: Path, db: Database, clock: TurnedClock
) -> None:
    async with opened("bubblewrap", home) as runtime, manager(runtime, db, home, clock) as before:
        mine = await new(before)
        # What a crash leaves between the start of the box and the row that names it.
        directory = home / "boxes" / mine
        spec = SandboxSpec(name=mine, lifetime=TimeToLive(600), directory=directory)
        unknown = await runtime.create(spec)
        (directory / "data" / "file").write_text("kept\n")
        ref = unknown.ref
        await unknown.release()

    async with opened("bubblewrap", home) as runtime, manager(runtime, db, home, clock, stop=True) as after:
        with pytest.raises(SandboxGone):
            await runtime.attach(ref)
        assert [path.name for path in (home / "boxes").iterdir()] == [mine]
        async with after.lease(TENANT, mine) as lease:
            assert (await lease.shell.run("cat file")).stdout == b"kept\n"


async def test_a_program_keeps_its_own_box_when_a_gateway_starts_in_the_same_home(
    home: Path, db: Database, clock: TurnedClock
) -> None:
    async with opened("bubblewrap", home) as programs:
        box = await programs.create(SandboxSpec(name="a-programs-own", directory=home / "mine"))
        async with opened("bubblewrap", home) as runtime, manager(runtime, db, home, clock):
            process = await box.start(Command(what=Script("true")), "exec_1")
            assert await process.wait() == Exited(0)
