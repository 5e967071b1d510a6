"""Containers over a real runtime and a real database, with a clock that the test turns."""

from dataclasses import replace
from pathlib import Path
from typing import cast

import anyio
import pytest

from limpet.containers.manager import ContainerManager
from limpet.core.clock import MICROSECONDS
from limpet.core.command import Command, Exited, Lost, Script
from limpet.core.errors import NotFound, RequestInvalid
from limpet.core.ids import CONTAINER, new_id
from limpet.core.ports import Runtime, Sandbox, SandboxSpec
from limpet.runtimes.local.runtime import LocalRuntime
from limpet.store.containers import Containers
from limpet.store.database import Database
from limpet.store.executions import Execution, Executions
from tests.containers.turned import TurnedClock

pytestmark = pytest.mark.anyio

TENANT = "default"
MOST = 5.0


async def new(containers: ContainerManager, **fields: object) -> str:
    record = await containers.create(TENANT, name="box", spec=containers.narrow(fields))
    return record.id


def boxes_of(home: Path) -> list[str]:
    directory = home / "boxes"
    return sorted(path.name for path in directory.iterdir()) if directory.exists() else []


async def test_a_new_container_is_a_row_without_a_box(containers: ContainerManager, tmp_path: Path) -> None:
    record = await containers.create(TENANT, name="mine", spec=containers.narrow({}), source_response_id="resp_1")

    assert await containers.get(TENANT, record.id) == record
    assert (record.status, record.idle_ttl, record.boot_id, record.ref) == ("running", 1200, None, None)
    assert boxes_of(tmp_path) == []


async def test_the_box_of_a_container_keeps_its_files_and_processes_between_leases(
    containers: ContainerManager,
) -> None:
    mine = await new(containers)
    async with containers.lease(TENANT, mine) as first:
        await first.shell.run("echo kept > file; sleep 600 & echo $! > pid")
    async with containers.lease(TENANT, mine) as second:
        result = await second.shell.run("cat file && kill -0 $(cat pid)")

    assert (result.stdout, result.exit_code) == (b"kept\n", 0)
    assert (second.boot_id, second.note) == (first.boot_id, None)


async def test_the_row_names_the_box_before_a_command_starts(containers: ContainerManager) -> None:
    mine = await new(containers)
    async with containers.lease(TENANT, mine) as lease:
        record = await containers.get(TENANT, mine)

    assert record.boot_id == lease.boot_id
    assert record.ref is not None
    assert record.ref["name"] == mine


async def test_two_first_users_boot_one_box(containers: ContainerManager) -> None:
    mine = await new(containers)
    boots: list[str] = []

    async def use() -> None:
        async with containers.lease(TENANT, mine) as lease:
            boots.append(lease.boot_id)
            assert (await lease.shell.run("true")).outcome == Exited(0)

    with anyio.fail_after(MOST):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(use)
            tasks.start_soon(use)

    assert boots[0] == boots[1]


async def test_an_idle_container_expires_with_its_data_and_stays_readable(
    containers: ContainerManager, clock: TurnedClock, tmp_path: Path
) -> None:
    mine = await new(containers, expires_after={"anchor": "last_active_at", "minutes": 1})
    async with containers.lease(TENANT, mine) as lease:
        await lease.shell.run("echo secret > file; mkdir -m 0 shut")
        await lease.capture()
    clock.turn(60)
    assert await containers.reap_once() == ()

    clock.turn(1)
    expired = await containers.reap_once()

    record = await containers.get(TENANT, mine)
    assert (expired, record.status, record.ended_at) == ((mine,), "expired", clock.now())
    assert boxes_of(tmp_path) == []
    assert [row.path for row in (await containers.files.list(TENANT, mine)).records] == ["/mnt/data/file"]
    with pytest.raises(RequestInvalid) as refused:
        async with containers.lease(TENANT, mine):
            pytest.fail("It was leased.")
    assert refused.value.code == "container_expired"


async def test_a_container_that_is_due_is_expired_for_whoever_asks_before_the_reaper(
    containers: ContainerManager, clock: TurnedClock
) -> None:
    mine = await new(containers)
    clock.turn(1201)

    assert (await containers.get(TENANT, mine)).status == "expired"


async def test_any_use_moves_the_end_and_a_lease_holds_it(containers: ContainerManager, clock: TurnedClock) -> None:
    mine = await new(containers)
    clock.turn(1000)
    await containers.get(TENANT, mine)
    clock.turn(1000)
    assert await containers.reap_once() == ()

    async with containers.lease(TENANT, mine):
        clock.turn(5000)
        assert await containers.reap_once() == ()
        assert (await containers.list(TENANT)).records[0].last_active_at == clock.now()
        clock.turn(5000)
    clock.turn(1199)
    assert await containers.reap_once() == ()
    clock.turn(2)
    assert await containers.reap_once() == (mine,)


async def test_a_command_that_nobody_leases_it_for_holds_it_too(
    containers: ContainerManager, db: Database, clock: TurnedClock
) -> None:
    mine = await new(containers)
    async with containers.lease(TENANT, mine) as lease:
        execution = Execution(
            exec_id="resp_1.0.0.0",
            tenant=TENANT,
            response_id="resp_1",
            container_id=mine,
            boot_id=lease.boot_id,
            step=0,
            call_id="call_1",
            command_index=0,
            started_at=clock.now(),
        )
        await Executions(db).intend(execution)
        process = await lease.shell.start(Command(what=Script("sleep 600")), execution.exec_id)
    clock.turn(1300)
    assert await containers.reap_once() == ()
    assert (await containers.list(TENANT)).records[0].last_active_at == clock.now()

    await process.abort()
    clock.turn(1300)

    assert await containers.reap_once() == (mine,)


async def test_a_deleted_container_is_gone_with_its_files_and_its_running_command_is_lost(
    containers: ContainerManager, tmp_path: Path
) -> None:
    mine = await new(containers)
    outcomes = []

    async def use(*, task_status: anyio.abc.TaskStatus[None]) -> None:
        async with containers.lease(TENANT, mine) as lease:

            async def up(_: bytes) -> None:
                task_status.started()

            outcomes.append((await lease.shell.run("echo up; sleep 60", on_stdout=up)).outcome)
            assert (await lease.capture()).files == ()

    with anyio.fail_after(MOST):
        async with anyio.create_task_group() as tasks:
            await tasks.start(use)
            await containers.delete(TENANT, mine)

    assert [type(outcome) for outcome in outcomes] == [Lost]
    assert boxes_of(tmp_path) == []
    assert (await containers.list(TENANT)).records == []
    for attempt in (containers.get, containers.delete, containers.files.list):
        with pytest.raises(NotFound) as refused:
            await attempt(TENANT, mine)
        assert refused.value.code == "container_not_found"


async def test_another_tenant_sees_nothing(containers: ContainerManager) -> None:
    mine = await new(containers)

    with pytest.raises(NotFound):
        await containers.get("other", mine)
    with pytest.raises(NotFound):
        await containers.delete("other", mine)
    with pytest.raises(NotFound):
        async with containers.lease("other", mine):
            pytest.fail("It was leased.")
    assert (await containers.list("other")).records == []


async def test_a_box_that_died_is_replaced_on_the_same_files_and_the_next_lease_says_so_once(
    containers: ContainerManager, runtime: Runtime
) -> None:
    mine = await new(containers)
    async with containers.lease(TENANT, mine) as first:
        await first.shell.run("echo kept > file")
        await first.capture()
        sandbox = await runtime.attach(first.shell.ref)
        await sandbox.destroy()

    async with containers.lease(TENANT, mine) as second:
        result = await second.shell.run("cat file")
    async with containers.lease(TENANT, mine) as third:
        pass

    assert second.boot_id != first.boot_id
    assert result.stdout == b"kept\n"
    assert second.note == (
        "The container's box was lost and has been started again: its files are kept, processes that ran in it are gone."
    )
    assert third.note is None


async def test_a_new_process_finds_the_container_and_sweeps_what_no_container_owns(
    db: Database, tmp_path: Path, clock: TurnedClock
) -> None:
    async with LocalRuntime() as runtime, ContainerManager(runtime, db, home=tmp_path, clock=clock) as before:
        mine, ended = await new(before), await new(before)
        async with before.lease(TENANT, mine) as lease:
            await lease.shell.run("echo kept > file")
    (tmp_path / "boxes" / ended / "data").mkdir(parents=True, exist_ok=True)
    (tmp_path / "boxes" / "the-runtimes-own").mkdir()
    await Containers(db).update(ended, status="expired", ended_at=1 * MICROSECONDS)

    async with LocalRuntime() as runtime, ContainerManager(runtime, db, home=tmp_path, clock=clock) as after:
        assert boxes_of(tmp_path) == [mine, "the-runtimes-own"]
        assert len(after.swept) == 1
        async with after.lease(TENANT, mine) as lease:
            result = await lease.shell.run("cat file")

    assert result.stdout == b"kept\n"
    assert lease.note is not None


async def test_with_an_empty_database_no_containers_files_are_removed(
    db: Database, tmp_path: Path, clock: TurnedClock, caplog: pytest.LogCaptureFixture
) -> None:
    files = tmp_path / "boxes" / new_id(CONTAINER) / "data"
    files.mkdir(parents=True)
    (files / "file").write_text("kept")

    async with LocalRuntime() as runtime, ContainerManager(runtime, db, home=tmp_path, clock=clock) as after:
        assert after.swept == ()

    assert (files / "file").read_text() == "kept"
    assert files.parent.name in caplog.text
    assert "the database does not know" in caplog.text


async def test_a_container_that_ended_never_runs_again(containers: ContainerManager, db: Database) -> None:
    mine = await new(containers)
    await Containers(db).update(mine, status="expired", ended_at=1 * MICROSECONDS)

    record = await containers.get(TENANT, mine)
    await containers.delete(TENANT, mine)

    stored = await Containers(db).get_any(mine)
    assert stored == replace(record, status="deleted")


class StubbornRuntime(LocalRuntime):
    """Its boxes do not end at the first attempt, as one whose process the kernel holds."""

    def __init__(self) -> None:
        super().__init__()
        self.attempts = 0

    async def create(self, spec: SandboxSpec) -> Sandbox:
        return cast(Sandbox, _Stubborn(self, await super().create(spec)))


class _Stubborn:
    def __init__(self, runtime: StubbornRuntime, sandbox: Sandbox) -> None:
        self._runtime = runtime
        self._sandbox = sandbox

    def __getattr__(self, name: str) -> object:
        return getattr(self._sandbox, name)

    async def destroy(self) -> None:
        self._runtime.attempts += 1
        if self._runtime.attempts == 1:
            raise TimeoutError
        await self._sandbox.destroy()


class FailingRuntime(StubbornRuntime):
    """The first box that is ended meets a fault that nothing expects."""

    async def create(self, spec: SandboxSpec) -> Sandbox:
        return cast(Sandbox, _Failing(self, await LocalRuntime.create(self, spec)))


class _Failing(_Stubborn):
    async def destroy(self) -> None:
        self._runtime.attempts += 1
        if self._runtime.attempts == 1:
            raise IndexError("made up")
        await self._sandbox.destroy()


async def test_what_goes_wrong_with_one_container_keeps_none_of_the_others_from_its_turn(
    db: Database, tmp_path: Path, clock: TurnedClock
) -> None:
    async with FailingRuntime() as runtime, ContainerManager(runtime, db, home=tmp_path, clock=clock) as containers:
        mine = [await new(containers) for _ in range(3)]
        for one in mine:
            async with containers.lease(TENANT, one):
                pass
        clock.turn(seconds=100_000)
        with pytest.raises(IndexError, match="made up"):
            await containers.reap_once()

        assert boxes_of(tmp_path) == []


async def test_a_box_that_would_not_end_is_ended_by_a_later_round(
    db: Database, tmp_path: Path, clock: TurnedClock
) -> None:
    async with StubbornRuntime() as runtime, ContainerManager(runtime, db, home=tmp_path, clock=clock) as containers:
        mine = await new(containers)
        async with containers.lease(TENANT, mine):
            pass
        with pytest.raises(TimeoutError):
            await containers.delete(TENANT, mine)
        with pytest.raises(NotFound):
            await containers.get(TENANT, mine)
        assert boxes_of(tmp_path) == [mine]

        await containers.reap_once()

        assert (runtime.attempts, boxes_of(tmp_path)) == (2, [])


async def test_what_keeps_a_container_from_ending_is_logged_once_and_tried_again(
    db: Database, tmp_path: Path, clock: TurnedClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with StubbornRuntime() as runtime, ContainerManager(runtime, db, home=tmp_path, clock=clock) as containers:
        async with containers.lease(TENANT, await new(containers)):
            pass
        clock.turn(100_000)

        await containers._reaper.round()
        await containers._reaper.round()

        assert boxes_of(tmp_path) == []
    assert [message for message in caplog.messages if "TimeoutError" in message] == [
        "What is due for containers could not be done: TimeoutError"
    ]


async def test_a_round_of_the_reaper_while_a_large_container_is_deleted_waits_for_it(
    containers: ContainerManager, tmp_path: Path
) -> None:
    mine = await new(containers)
    data = tmp_path / "boxes" / mine / "data"
    data.mkdir(parents=True)
    for number in range(5000):
        (data / str(number)).touch()

    async with anyio.create_task_group() as tasks:
        deleted = anyio.Event()

        async def delete() -> None:
            await containers.delete(TENANT, mine)
            deleted.set()

        tasks.start_soon(delete)
        while not deleted.is_set():
            await containers.reap_once()

    assert boxes_of(tmp_path) == []
    with pytest.raises(NotFound):
        await containers.get(TENANT, mine)
