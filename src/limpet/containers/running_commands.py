"""Whether a command still runs in a container whose lease was held by an earlier process."""

import anyio

from limpet.containers.box import BootingBox
from limpet.store.containers import ContainerRecord
from limpet.store.executions import Executions

LOOK = 0.2  # seconds in which a command that has ended says so


async def runs_a_command(executions: Executions, booting: BootingBox, record: ContainerRecord) -> bool:
    """Whether a command without a lease still runs there: one that was started before this process was. Raises StoreError."""
    for execution in await executions.unfinished_in(record.id):
        if execution.boot_id != record.boot_id:
            continue
        sandbox = await booting.find(record)
        process = None if sandbox is None else await sandbox.find(execution.exec_id)
        if process is None:
            continue
        with anyio.move_on_after(LOOK) as running:
            await process.wait()
        if running.cancelled_caught:
            return True
    return False
