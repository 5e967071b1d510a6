"""`limpet keys`: creates, lists and revokes the gateway's API keys."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import anyio

from limpet import wiring
from limpet.config import load_config
from limpet.core.clock import MICROSECONDS, SystemClock
from limpet.core.errors import ConfigInvalid
from limpet.store.keys import SCOPES, USUAL, KeyRecord, NewKey, Scope

_WORD = re.compile(r"[A-Za-z0-9._@-]{1,64}")
DAY = 24 * 3600 * MICROSECONDS


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRequest:
    """What the command line says of a new key; None leaves it out."""

    name: str
    tenant: str
    scopes: tuple[str, ...]
    per_minute: int | None
    concurrent: int | None
    days: int | None


def create(wanted: KeyRequest, config: Path | None) -> None:
    """Prints the key on standard output, once."""
    for option, given in (("NAME", wanted.name), ("--tenant", wanted.tenant)):
        if _WORD.fullmatch(given) is None:
            raise ConfigInvalid(
                "limpet keys create", option, f"{given!r} is not a word of 1 to 64 letters, digits, ., _, @ and -"
            )
    now = SystemClock().now()
    new = NewKey(
        name=wanted.name,
        tenant=wanted.tenant,
        scopes=_scopes(wanted.scopes),
        requests_per_minute=wanted.per_minute,
        concurrent=wanted.concurrent,
        expires_at=None if wanted.days is None else now + wanted.days * DAY,
    )

    async def made() -> str:
        async with wiring.open_keys(load_config(config)) as keys:
            _, secret = await keys.create(new, at=now)
            return secret.reveal()

    print(anyio.run(made))


def listed(config: Path | None) -> None:
    """Prints a line for each key; never a key itself."""

    async def found() -> list[KeyRecord]:
        async with wiring.open_keys(load_config(config)) as keys:
            return await keys.list()

    now = SystemClock().now()
    rows: list[tuple[str, ...]] = [("ID", "NAME", "TENANT", "SCOPES", "LIMITS", "CREATED", "STATE")]
    rows += [_row(record, now) for record in anyio.run(found)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def revoke(id: str, config: Path | None) -> None:
    """From the next request on the key opens nothing."""

    async def done() -> KeyRecord:
        async with wiring.open_keys(load_config(config)) as keys:
            return await keys.revoke(id, at=SystemClock().now())

    print(f"{anyio.run(done).id} is revoked.")


def _scopes(asked: tuple[str, ...]) -> tuple[Scope, ...]:
    unknown = [scope for scope in asked if scope not in SCOPES]
    if unknown:
        raise ConfigInvalid("limpet keys create", "--scope", f"{unknown[0]!r} is not one of {', '.join(SCOPES)}")
    return tuple(scope for scope in SCOPES if scope in asked) or USUAL


def _row(record: KeyRecord, now: int) -> tuple[str, ...]:
    limits = [f"{record.requests_per_minute}/min"] if record.requests_per_minute is not None else []
    limits += [f"{record.concurrent} at once"] if record.concurrent is not None else []
    if record.revoked_at is not None:
        state = f"revoked {_day(record.revoked_at)}"
    elif record.expires_at is not None:
        state = f"{'valid until' if now < record.expires_at else 'expired'} {_day(record.expires_at)}"
    else:
        state = "valid"
    scopes = ",".join(record.scopes)
    return record.id, record.name, record.tenant, scopes, ", ".join(limits) or "none", _day(record.created_at), state


def _day(at: int) -> str:
    return datetime.fromtimestamp(at / MICROSECONDS, UTC).strftime("%Y-%m-%d")
