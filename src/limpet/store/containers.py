"""The containers that there are and were. A row stays when its container has ended."""

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self, TypedDict, Unpack

from sqlalchemy import ColumnElement, Connection, Row, Update, bindparam, func, insert, select, update

from limpet.core.clock import MICROSECONDS
from limpet.core.errors import StoreFailed
from limpet.store.database import Database
from limpet.store.home import home_id
from limpet.store.nodes import hold_gone
from limpet.store.quotas import check_containers, hold, hold_tenant
from limpet.store.records import Order, Page, columns_of, read_page, record_of
from limpet.store.settings import NO_QUOTA, QuotaSettings
from limpet.store.tables import containers, counters

# Fewer than any dialect allows in one statement.
AT_ONCE = 500
# A turn uses its container several times. Each of these statements is built once: to build them cost as much as to execute them.
_THIS = (containers.c.id == bindparam("used_id"), containers.c.tenant == bindparam("used_tenant"))
_USED = select(containers).where(*_THIS)
_USE = (
    update(containers)
    .where(
        *_THIS,
        containers.c.status == "running",
        containers.c.last_active_at + containers.c.idle_ttl * MICROSECONDS >= bindparam("used_at"),
        containers.c.last_active_at < bindparam("used_at"),
    )
    .values(last_active_at=bindparam("used_at"))
)
# What is as it was read while no gateway uses a container.
_UNMOVED = ("home", "status", "last_active_at", "ref", "boot_id")
USERS = {"tenant": "default", "name": "user_id"}


@dataclass(frozen=True, kw_only=True, slots=True)
class ContainerRecord:
    """One container. `status` is running, expired or deleted; times in microseconds UTC; `idle_ttl` in seconds; `ref` and
    `boot_id` are its sandbox's; `user_id` the host user its commands run as; `directory` is where its own directory lies, None
    for the home; `sealed` its secrets and its door's authority; `home` is the id of the home that it lies in, None where there is only one;
    `number` is 0 until it is stored."""

    id: str
    tenant: str
    number: int = 0
    name: str
    status: str
    created_at: int
    last_active_at: int
    ended_at: int | None = None
    idle_ttl: int
    memory_limit: str | None = None
    spec: dict[str, Any]
    ref: dict[str, Any] | None = None
    boot_id: str | None = None
    user_id: int | None = None
    source_response_id: str | None = None
    directory: str | None = None
    sealed: bytes | None = field(default=None, repr=False)
    home: str | None = None


class ContainerChanges(TypedDict, total=False):
    """What may change while a container lives."""

    name: str
    status: str
    last_active_at: int
    ended_at: int | None
    idle_ttl: int
    memory_limit: str | None
    spec: dict[str, Any]
    ref: dict[str, Any] | None
    boot_id: str | None
    user_id: int | None
    source_response_id: str | None
    sealed: bytes | None


class Containers:
    """The table of containers. Each call is one transaction, committed when it returns; StoreFailed where it cannot be.

    `home` is the id of this gateway's, where several share the database: what is to be ended, kept alive or swept is its own."""

    def __init__(self, db: Database, *, home: str | None = None) -> None:
        self._db = db
        self._home = home

    @classmethod
    def of_home(cls, db: Database, path: Path) -> Self:
        """As the gateway of that home directory has it. HomeUnusable."""
        return cls(db, home=home_id(path) if db.is_shared else None)

    async def insert(self, record: ContainerRecord, *, quota: QuotaSettings = NO_QUOTA) -> ContainerRecord:
        """Store a new one; comes back with its number. Raises QuotaExceeded where its tenant would have more than its quota."""
        record = replace(record, home=self._home)
        query = insert(containers).values(columns_of(record)).returning(containers.c.number)

        def work(connection: Connection) -> int:
            if quota.max_containers is not None:
                hold_tenant(connection, record.tenant)
            number = int(connection.execute(query).scalar_one())
            check_containers(connection, record.tenant, quota)
            return number

        return replace(record, number=await self._db.write(work))

    async def booted(
        self, record: ContainerRecord, *, ref: dict[str, Any], boot_id: str, quota: QuotaSettings = NO_QUOTA
    ) -> None:
        """It has this box from now on. A container that a response made counts from its first one: raises QuotaExceeded, and nothing
        changed, where its tenant would have more than its quota."""
        query = update(containers).where(containers.c.id == record.id).values(ref=ref, boot_id=boot_id)

        def work(connection: Connection) -> None:
            is_first = record.boot_id is None and record.source_response_id is not None
            if is_first and quota.max_containers is not None:
                hold_tenant(connection, record.tenant)
            connection.execute(query)
            if is_first:
                check_containers(connection, record.tenant, quota)

        await self._db.write(work)

    async def get(self, tenant: str, id: str) -> ContainerRecord | None:
        """In whatever status it is."""
        this = {"used_id": id, "used_tenant": tenant}
        row = await self._db.read(lambda connection: connection.execute(_USED, this).one_or_none())
        return None if row is None else record_of(ContainerRecord, row)

    async def get_any(self, id: str) -> ContainerRecord | None:
        """The container of any tenant. Internal use only: a client's request must go through `get`."""
        found = await self._all(containers.c.id == id)
        return found[0] if found else None

    async def update(self, id: str, **changed: Unpack[ContainerChanges]) -> bool:
        """Change some fields; False if there is no such container."""
        if not changed:
            return await self.get_any(id) is not None
        query = update(containers).where(containers.c.id == id).values(**changed)
        return await self._db.write(lambda connection: connection.execute(query).rowcount > 0)

    async def touch(self, id: str, at: int) -> ContainerRecord | None:
        """It was used at that time. Never moves its last activity back. Gives the container as it is then, None if there is none."""
        this = containers.c.id == id
        later = update(containers).where(this, containers.c.last_active_at < at).values(last_active_at=at)

        return await self._changed(later, this)

    async def use(self, tenant: str, id: str, at: int) -> ContainerRecord | None:
        """The container in whatever status it is. Running, and within its idle time at that time, it was used then; never moves its
        last activity back."""
        this = {"used_id": id, "used_tenant": tenant}

        def work(connection: Connection) -> Row[Any] | None:
            connection.execute(_USE, this | {"used_at": at})
            return connection.execute(_USED, this).one_or_none()

        row = await self._db.write(work)
        return None if row is None else record_of(ContainerRecord, row)

    async def idle(self, now: int) -> list[ContainerRecord]:
        """The running containers whose idle time to live has passed, oldest first."""
        ends_at = containers.c.last_active_at + containers.c.idle_ttl * MICROSECONDS
        return await self._all(containers.c.status == "running", ends_at < now, *self._here())

    async def running(self) -> list[ContainerRecord]:
        """All of this home that are running, of every tenant, oldest first."""
        return await self._all(containers.c.status == "running", *self._here())

    async def housed(self) -> list[ContainerRecord]:
        """Those of the running ones that have a box, as far as the rows know: few of many that sleep."""
        return await self._all(containers.c.status == "running", containers.c.ref.is_not(None), *self._here())

    def is_elsewhere(self, record: ContainerRecord) -> bool:
        """Whether it lies in the home of another gateway."""
        return self._home is not None and record.home is not None and record.home != self._home

    async def adopt(self, record: ContainerRecord) -> ContainerRecord | None:
        """Let one that never had a box be of this home from now on; None where it has one meanwhile, or another home took it."""
        same = (containers.c.id == record.id, containers.c.home == record.home, containers.c.boot_id.is_(None))
        changed = await self._changed(
            update(containers).where(*same).values(home=self._home), containers.c.id == record.id
        )
        return None if changed is None or self.is_elsewhere(changed) else changed

    async def move_here(
        self,
        record: ContainerRecord,
        *,
        silence: float,
        directory: str | None,
        user_id: int | None,
        spec: dict[str, Any],
    ) -> ContainerRecord | None:
        """Let one whose gateway is gone be of this home from now on, without a box; None where that gateway was alive within the last
        `silence` seconds, or where the container ended, was used or is another's since `record` was read."""
        here = {"home": self._home, "ref": None, "directory": directory, "user_id": user_id, "spec": spec}
        this = select(containers).where(containers.c.id == record.id).with_for_update()
        change = update(containers).where(containers.c.id == record.id).values(here)

        def work(connection: Connection) -> Row[Any] | None:
            if record.home is None or not hold_gone(connection, record.home, silence=silence):
                return None
            now = connection.execute(this).one_or_none()
            if (
                now is None
                or now.status != "running"
                or any(getattr(now, name) != getattr(record, name) for name in _UNMOVED)
            ):
                return None
            connection.execute(change)
            return connection.execute(this).one()

        row = await self._db.write(work)
        return None if row is None else record_of(ContainerRecord, row)

    async def moved(self, ids: Collection[str]) -> set[str]:
        """Those of these ids that are running in the home of another gateway."""
        if self._home is None:
            return set()
        return await self._ids(ids, containers.c.status == "running", containers.c.home != self._home)

    def _here(self) -> tuple[ColumnElement[bool], ...]:
        mine = containers.c.home
        return () if self._home is None else (mine.is_(None) | (mine == self._home),)

    async def everyones(self, tenant: str | None = None) -> list[ContainerRecord]:
        """All that are not deleted, of every tenant or of one, newest first: for the operator."""
        mine = () if tenant is None else (containers.c.tenant == tenant,)
        return (await self._all(containers.c.status != "deleted", *mine))[::-1]

    async def ended(self, ids: Collection[str]) -> set[str]:
        """Those of these ids, of every tenant, whose container is not running any more."""
        return await self._ids(ids, containers.c.status != "running")

    async def known(self, ids: Collection[str]) -> set[str]:
        """Those of these ids that have a row, of every tenant and status."""
        return await self._ids(ids)

    async def next_user_id(self, first: int, count: int) -> int:
        """A host user from `first` on that was never given out. Raises StoreFailed when all `count` of them were."""
        series = [counters.c[key] == value for key, value in USERS.items()]
        ours = containers.c.user_id.between(first, first + count - 1)
        async with self._db.writing() as connection:
            if self._db.is_shared:
                await connection.run_sync(_hold_users)
            last = (await connection.execute(select(counters.c.value).where(*series))).scalar_one_or_none()
            # The range may have been configured anew since, down or up: what is in use within it counts too.
            in_use = (await connection.execute(select(func.max(containers.c.user_id)).where(ours))).scalar_one()
            given = [user for user in (last, in_use) if user is not None and first <= user < first + count]
            user = max(given, default=first - 1) + 1
            if user >= first + count:
                raise StoreFailed(
                    f"All {count} users from {first} on were given to containers. Configure a larger range."
                )
            if last is None:
                await connection.execute(insert(counters).values(**USERS, value=user))
            else:
                await connection.execute(update(counters).where(*series).values(value=user))
        return user

    async def _changed(self, change: Update, *this: ColumnElement[bool]) -> ContainerRecord | None:
        def work(connection: Connection) -> Row[Any] | None:
            connection.execute(change)
            return connection.execute(select(containers).where(*this)).one_or_none()

        row = await self._db.write(work)
        return None if row is None else record_of(ContainerRecord, row)

    async def _ids(self, ids: Collection[str], *where: ColumnElement[bool]) -> set[str]:
        wanted, found = [*ids], set[str]()
        for start in range(0, len(wanted), AT_ONCE):
            query = select(containers.c.id).where(containers.c.id.in_(wanted[start : start + AT_ONCE]), *where)
            async with self._db.reading() as connection:
                found |= set((await connection.execute(query)).scalars())
        return found

    async def _all(self, *where: ColumnElement[bool]) -> list[ContainerRecord]:
        query = select(containers).where(*where).order_by(containers.c.number)
        rows = await self._db.read(lambda connection: connection.execute(query).all())
        return [record_of(ContainerRecord, row) for row in rows]

    async def list(
        self, tenant: str, *, limit: int, after: str | None = None, order: Order = "desc", name: str | None = None
    ) -> Page[ContainerRecord]:
        """Those of a tenant that are not deleted, by age. `after` may have been deleted since; an id that the tenant never had
        raises RequestInvalid."""
        mine = containers.c.tenant == tenant
        where = [mine, containers.c.status != "deleted"]
        if name is not None:
            where.append(containers.c.name == name)
        async with self._db.reading() as connection:
            return await read_page(
                connection,
                containers,
                *where,
                kind=ContainerRecord,
                limit=limit,
                after=after,
                order=order,
                cursor_in=mine,
            )


def _hold_users(connection: Connection) -> None:
    """Until the transaction ends no other gateway gives a user out."""
    hold(connection, USERS["tenant"], f"{USERS['name']} lock")
