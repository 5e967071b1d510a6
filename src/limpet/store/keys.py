"""API keys: created, found, listed, revoked. Only a digest of a key is stored; the key itself is shown once."""

import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass
from typing import Any, Literal, get_args

from sqlalchemy import insert, select, update

from limpet.core.errors import NotFound
from limpet.core.ids import KEY, new_id
from limpet.core.secret import Secret
from limpet.store.database import Database
from limpet.store.records import columns_of, record_of
from limpet.store.tables import api_keys

Scope = Literal["responses", "containers", "files", "skills", "admin"]
SCOPES: tuple[Scope, ...] = get_args(Scope)
# What a key may do that says nothing else: everything of its tenant, nothing of the operator's.
USUAL: tuple[Scope, ...] = ("responses", "containers", "files", "skills")
_TOKEN = re.compile(r"sk-limpet-([0-9a-f]{32})-([A-Za-z0-9_-]{43})")
# What a key that does not exist is compared with, so that its answer takes as long.
_NOBODY = hashlib.sha256(secrets.token_bytes(32)).hexdigest()


@dataclass(frozen=True, kw_only=True, slots=True)
class KeyRecord:
    """A key as it is stored. `digest` is SHA-256 of the key's secret half, in hex: it has 256 random bits, so no salt and no slow hash
    is needed. `requests_per_minute` and `concurrent` are its limits, None for none; times in microseconds UTC."""

    id: str
    tenant: str
    name: str
    digest: str
    scopes: tuple[Scope, ...]
    created_at: int
    requests_per_minute: int | None = None
    concurrent: int | None = None
    expires_at: int | None = None
    revoked_at: int | None = None
    number: int = 0

    def is_valid(self, now: int) -> bool:
        """Whether it opens the door at that time."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


@dataclass(frozen=True, kw_only=True, slots=True)
class NewKey:
    """What a key is to be."""

    name: str
    tenant: str = "default"
    scopes: tuple[Scope, ...] = USUAL
    requests_per_minute: int | None = None
    concurrent: int | None = None
    expires_at: int | None = None


class ApiKeys:
    """The table of keys. StoreFailed where it cannot be used."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def create(self, new: NewKey, *, at: int) -> tuple[KeyRecord, Secret]:
        """A new key: its row, and the key itself, which is returned here once and never stored."""
        secret = secrets.token_urlsafe(32)
        record = KeyRecord(
            id=new_id(KEY),
            tenant=new.tenant,
            name=new.name,
            digest=_digest(secret),
            scopes=new.scopes,
            requests_per_minute=new.requests_per_minute,
            concurrent=new.concurrent,
            expires_at=new.expires_at,
            created_at=at,
        )
        async with self._db.writing() as connection:
            await connection.execute(insert(api_keys).values(columns_of(record)))
        return record, Secret(f"sk-limpet-{record.id.removeprefix(f'{KEY}_')}-{secret}")

    async def find(self, token: str, *, now: int) -> KeyRecord | None:
        """Whose key this is; None for one that does not exist, was revoked or has expired. Compared in constant time."""
        match = _TOKEN.fullmatch(token)
        record = None if match is None else await self._get(f"{KEY}_{match[1]}")
        digest = _digest(match[2] if match is not None else token)
        is_same = hmac.compare_digest(digest, _NOBODY if record is None else record.digest)
        return record if record is not None and is_same and record.is_valid(now) else None

    async def list(self) -> list[KeyRecord]:
        """All keys of all tenants, the oldest first, revoked ones too."""
        async with self._db.reading() as connection:
            rows = await connection.execute(select(api_keys).order_by(api_keys.c.number))
            return [_record(row) for row in rows]

    async def revoke(self, id: str, *, at: int) -> KeyRecord:
        """From now on it opens nothing. Quiet if it was revoked before. NotFound."""
        async with self._db.writing() as connection:
            where = (api_keys.c.id == id, api_keys.c.revoked_at.is_(None))
            await connection.execute(update(api_keys).where(*where).values(revoked_at=at))
        record = await self._get(id)
        if record is None:
            raise NotFound(f"There is no key {id}. `limpet keys list` shows those that there are.")
        return record

    async def _get(self, id: str) -> KeyRecord | None:
        query = select(api_keys).where(api_keys.c.id == id)
        row = await self._db.read(lambda connection: connection.execute(query).one_or_none())
        return None if row is None else _record(row)


def _record(row: Any) -> KeyRecord:
    record = record_of(KeyRecord, row)
    known = tuple(scope for scope in SCOPES if scope in record.scopes)
    return KeyRecord(**{name: getattr(record, name) for name in KeyRecord.__slots__ if name != "scopes"}, scopes=known)


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode(errors="replace")).hexdigest()
