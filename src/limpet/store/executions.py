"""The intent and outcome of every command. The intent is on disk before the command starts, so it is not started twice after a crash."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, bindparam, insert, select, update

from limpet.store.database import Database
from limpet.store.records import columns_of, record_of
from limpet.store.tables import executions

# Of every command. Built once: to build a statement costs as much as to execute it.
_INTEND = insert(executions)
_FINISH = (
    update(executions)
    .where(executions.c.exec_id == bindparam("ended_id"), executions.c.finished_at.is_(None))
    .values(outcome=bindparam("ended_as"), finished_at=bindparam("ended_at"))
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Execution:
    """One command. `exec_id` is ours (response, step, call, command) and `boot_id` the boot of the sandbox that it is meant for;
    times in microseconds UTC; `outcome` is None until it is known how it ended."""

    exec_id: str
    tenant: str
    response_id: str
    container_id: str
    boot_id: str
    step: int
    call_id: str
    command_index: int
    started_at: int
    outcome: dict[str, Any] | None = None
    finished_at: int | None = None


class Executions:
    """The table of executions. Each call is one transaction, committed when it returns; StoreFailed where it cannot be."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def intend(self, execution: Execution) -> None:
        """Write down that it is about to start. StoreFailed, and nothing may be started, if that is not on disk or the id was
        written down before."""
        await self._db.write(lambda connection: connection.execute(_INTEND, columns_of(execution)))

    async def finish(self, exec_id: str, outcome: dict[str, Any], at: int) -> bool:
        """How it ended, and when. The first word holds: False, and nothing changed, if it has one or is not there."""
        ended = {"ended_id": exec_id, "ended_as": outcome, "ended_at": at}
        return await self._db.write(lambda connection: connection.execute(_FINISH, ended).rowcount > 0)

    async def of_response(self, response_id: str) -> list[Execution]:
        """All of a response, in the order of their intents."""
        return await self._all(executions.c.response_id == response_id)

    async def unfinished_in(self, container_id: str) -> list[Execution]:
        """The executions in a container that have no recorded outcome, in the order of their intents."""
        return await self._all(executions.c.container_id == container_id, executions.c.finished_at.is_(None))

    async def any_in(self, tenant: str, container_id: str) -> bool:
        """Whether a command of that tenant was ever about to start in a container."""
        here = select(executions.c.number).where(
            executions.c.container_id == container_id, executions.c.tenant == tenant
        )
        return await self._db.read(lambda connection: connection.execute(here.limit(1)).one_or_none() is not None)

    async def _all(self, *where: ColumnElement[bool]) -> list[Execution]:
        columns = [column for column in executions.c if column.name != "number"]
        query = select(*columns).where(*where).order_by(executions.c.number)
        rows = await self._db.read(lambda connection: connection.execute(query).all())
        return [record_of(Execution, row) for row in rows]
