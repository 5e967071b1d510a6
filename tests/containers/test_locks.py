"""Who waited for the lock of a container's box or files meets what happened meanwhile, and never waits for itself."""

from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from limpet.containers.attachments import IncomingFile
from limpet.containers.manager import ContainerManager
from limpet.core.errors import NotFound
from limpet.testing.lab import eventually
from tests.containers.turned import TurnedClock

pytestmark = pytest.mark.anyio

TENANT = "default"


async def data() -> AsyncIterator[bytes]:
    yield b"data"


async def wait_for(lock: anyio.Lock) -> None:
    async def is_waited_for() -> bool:
        return lock.statistics().tasks_waiting == 1

    await eventually(is_waited_for, "waits for the lock")


async def test_an_upload_that_waited_longer_than_the_container_may_be_idle_is_taken(
    containers: ContainerManager, clock: TurnedClock
) -> None:
    record = await containers.create(TENANT, name="box", spec=containers.narrow({}))
    async with anyio.create_task_group() as tasks, containers.files.locked(record.id):
        tasks.start_soon(containers.files.put, TENANT, record.id, "late.txt", data())
        await wait_for(containers._boxes.of(record.id)._files_lock)
        clock.turn(record.idle_ttl + 1)

    assert await containers.files.recorded(record.id, ["/mnt/data/late.txt"])


async def test_a_file_for_a_container_that_ended_meanwhile_is_refused_and_leaves_nothing(
    containers: ContainerManager, tmp_path: Path
) -> None:
    record = await containers.create(TENANT, name="box", spec=containers.narrow({}))
    box, refusals = containers._boxes.of(record.id), []

    async def bring() -> None:
        with pytest.raises(NotFound) as refusal:
            await containers.files.bring(record, [IncomingFile(name="late.txt", open=data)])
        refusals.append(refusal)

    async with anyio.create_task_group() as tasks, containers.files.locked(record.id):
        tasks.start_soon(containers.delete, TENANT, record.id)
        await wait_for(box._files_lock)
        tasks.start_soon(bring)
        await wait_for(box._boot_lock)

    assert len(refusals) == 1
    assert not (tmp_path / "boxes" / record.id).exists()
