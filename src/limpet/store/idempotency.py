"""Which response was made for a request with an `Idempotency-Key`. A row lives as long as its response."""

from dataclasses import dataclass

from sqlalchemy import Connection, bindparam, delete, select, text

from limpet.core.errors import StoreError
from limpet.store.columns import Text
from limpet.store.database import Database
from limpet.store.tables import idempotency_keys

# Understood alike by SQLite (3.24) and PostgreSQL, where it waits for another transaction that has put the same key.
_PUT = text(
    "INSERT INTO idempotency_keys (tenant, key, digest, response_id) VALUES (:tenant, :key, :digest, :response_id) "
    "ON CONFLICT (tenant, key) DO NOTHING"
).bindparams(bindparam("tenant", type_=Text), bindparam("key", type_=Text))


class IdempotencyKeyTaken(StoreError):
    """A response with this key is there already."""

    def __init__(self, key: str) -> None:
        super().__init__(
            f"A response with the Idempotency-Key {key!r} was made at this moment. Send the request again."
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class IdempotencyKey:
    """A key and the digest of the request that came with it. `instead_of` is the response that had it until now and lost it."""

    key: str
    digest: str
    instead_of: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class KeyedResponse:
    """What is known under a key."""

    digest: str
    response_id: str


class IdempotencyKeys:
    """The table of keys. Rows are written with their response (`Responses.insert`)."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def get(self, tenant: str, key: str) -> KeyedResponse | None:
        mine = (idempotency_keys.c.tenant == tenant) & (idempotency_keys.c.key == key)
        query = select(idempotency_keys.c.digest, idempotency_keys.c.response_id).where(mine)
        row = await self._db.read(lambda connection: connection.execute(query).one_or_none())
        return None if row is None else KeyedResponse(digest=row.digest, response_id=row.response_id)


def put_key(connection: Connection, tenant: str, key: IdempotencyKey, *, response_id: str) -> None:
    """In the transaction that records a response. Raises IdempotencyKeyTaken, which undoes it."""
    if key.instead_of is not None:
        mine = (idempotency_keys.c.tenant == tenant) & (idempotency_keys.c.key == key.key)
        connection.execute(delete(idempotency_keys).where(mine, idempotency_keys.c.response_id == key.instead_of))
    row = {"tenant": tenant, "key": key.key, "digest": key.digest, "response_id": response_id}
    if connection.execute(_PUT, row).rowcount == 0:
        raise IdempotencyKeyTaken(key.key)
