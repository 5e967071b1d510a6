"""Keys in a real database: found by what was shown once, gone when they expire or are revoked."""

from pathlib import Path

import pytest

from limpet.store.database import Database
from limpet.store.keys import USUAL, ApiKeys, NewKey
from limpet.store.settings import DatabaseSettings

pytestmark = pytest.mark.anyio


async def test_a_key_is_found_by_itself_and_by_nothing_else(tmp_path: Path) -> None:
    async with Database(DatabaseSettings(), home=tmp_path) as db:
        keys = ApiKeys(db)
        record, secret = await keys.create(NewKey(name="ann", tenant="a"), at=1)
        other, _ = await keys.create(NewKey(name="bob", tenant="b"), at=1)
        token = secret.reveal()
        assert await keys.find(token, now=2) == (await keys.list())[0]
        assert (record.scopes, record.tenant) == (USUAL, "a")
        swapped = token.replace(record.id.removeprefix("key_"), other.id.removeprefix("key_"))
        assert [await keys.find(wrong, now=2) for wrong in (swapped, token + "x", "", record.digest)] == [None] * 4


async def test_a_key_ends_at_its_time_and_when_it_is_revoked(tmp_path: Path) -> None:
    async with Database(DatabaseSettings(), home=tmp_path) as db:
        keys = ApiKeys(db)
        _, brief = await keys.create(NewKey(name="brief", expires_at=10), at=1)
        record, lasting = await keys.create(NewKey(name="lasting"), at=1)
        assert await keys.find(brief.reveal(), now=9) is not None
        assert await keys.find(brief.reveal(), now=10) is None
        await keys.revoke(record.id, at=5)
        assert await keys.find(lasting.reveal(), now=4) is None
        assert (await keys.revoke(record.id, at=7)).revoked_at == 5
