"""The same request twice with one `Idempotency-Key`: the second is answered with the response of the first, also after a restart.

A response that failed before the model said anything gives its key back, so that a client that asks again is not given that failure for
ever. `store: false` keeps nothing, so there a key has no effect.
"""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

import anyio

from limpet.core.errors import RequestError, RequestInvalid
from limpet.responses.request import ParsedRequest
from limpet.responses.service import ResponseService
from limpet.store.idempotency import IdempotencyKey, IdempotencyKeys, IdempotencyKeyTaken
from limpet.store.sealing import Sealer

LONGEST_KEY = 255


class IdempotencyKeyReused(RequestError):
    """The key belongs to another request. Its status is not one that official clients repeat by themselves."""

    status = 422

    def __init__(self) -> None:
        super().__init__(
            "This Idempotency-Key came with another request before. Use a new key for a new request.",
            param="Idempotency-Key",
            code="idempotency_key_reused",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """What became of a request. `is_repeated`: the response was made for an earlier one; `left_out` are the types of tools that the
    provider was not given."""

    response_id: str
    left_out: tuple[str, ...] = ()
    is_repeated: bool = False


@dataclass(slots=True)
class _SubmissionLock:
    lock: anyio.Lock
    users: int = 0


class Submissions:
    """Makes responses, each key's once."""

    def __init__(self, service: ResponseService, keys: IdempotencyKeys, sealer: Sealer) -> None:
        self._service = service
        self._keys = keys
        self._sealer = sealer
        self._locks: dict[tuple[str, str], _SubmissionLock] = {}

    def key_of(self, given: str | None, body: object) -> IdempotencyKey | None:
        """The header's key with the digest of the request's body, which may hold secrets. Raises RequestInvalid."""
        if given is None:
            return None
        if not given or len(given) > LONGEST_KEY or not given.isascii() or not given.isprintable():
            raise RequestInvalid(
                f"Idempotency-Key: must be 1 to {LONGEST_KEY} visible characters of ASCII.",
                param="Idempotency-Key",
                code="invalid_idempotency_key",
            )
        canonical = json.dumps(body, sort_keys=True, separators=(",", ":")).encode()
        return IdempotencyKey(key=given, digest=self._sealer.digest(canonical, row="idempotency keys"))

    async def submit(self, tenant: str, asked: ParsedRequest, key: IdempotencyKey | None) -> Submission:
        """Raises what `ResponseService.create` does, and IdempotencyKeyReused."""
        if key is None or not asked.is_stored:
            return await self._made(tenant, asked, None)
        async with self._alone(tenant, key.key):
            known = await self._keys.get(tenant, key.key)
            if known is not None:
                if known.digest != key.digest:
                    raise IdempotencyKeyReused
                if not await self._failed_at_once(tenant, known.response_id):
                    return Submission(response_id=known.response_id, is_repeated=True)
                key = replace(key, instead_of=known.response_id)
            try:
                return await self._made(tenant, asked, key)
            except IdempotencyKeyTaken:
                # Another gateway on the same database was first.
                winner = await self._keys.get(tenant, key.key)
                if winner is None or winner.digest != key.digest:
                    raise IdempotencyKeyReused from None
                return Submission(response_id=winner.response_id, is_repeated=True)

    async def _made(self, tenant: str, asked: ParsedRequest, key: IdempotencyKey | None) -> Submission:
        created = await self._service.create(tenant, asked, key=key)
        return Submission(response_id=created.record.id, left_out=created.left_out)

    async def _failed_at_once(self, tenant: str, response_id: str) -> bool:
        shape = await self._service.get(tenant, response_id)
        return shape["status"] == "failed" and not shape["output"]

    @asynccontextmanager
    async def _alone(self, tenant: str, key: str) -> AsyncIterator[None]:
        """One request of a key at a time, within this process."""
        held = self._locks.setdefault((tenant, key), _SubmissionLock(anyio.Lock()))
        held.users += 1
        try:
            async with held.lock:
                yield
        finally:
            held.users -= 1
            if held.users == 0:
                del self._locks[tenant, key]
