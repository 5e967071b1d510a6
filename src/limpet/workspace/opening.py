"""A workspace from any runtime, for the time of an `async with`. Keeps no records: that is what containers are for."""

import re
import secrets
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import anyio

from limpet.core.errors import BootFailed
from limpet.core.ports import Lifetime, Limits, Offer, Runtime, Sandbox, SandboxRef, SandboxSpec, TimeToLive, WhileOwned
from limpet.workspace.workspace import Workspace

DEFAULT_TTL = 1200.0
CLOSING = 15.0  # seconds for ending a box when the block is left
_NAME = re.compile(r"[A-Za-z0-9_-]{1,48}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """How to open a workspace.

    `lifetime` "process" ends the box with the block (and with this process, however that ends). "ttl" lets it live on until
    nobody has used it for `ttl` seconds; `ref`, from an earlier workspace's `ref`, enters that one again instead of making a
    new one; then `lifetime` only says whether it ends with the block. The rest is as in SandboxSpec.
    """

    lifetime: Literal["process", "ttl"] = "process"
    ttl: float = DEFAULT_TTL
    ref: SandboxRef | None = None
    directory: Path | None = None
    image: Path | None = None
    limits: Limits = field(default_factory=Limits)
    env: Mapping[str, str] = field(default_factory=dict)
    read_only: Mapping[str, Path] = field(default_factory=dict)
    needs: frozenset[Offer] = frozenset()


@asynccontextmanager
async def open_in(runtime: Runtime, name: str = "box", opening: Opening | None = None) -> AsyncIterator[Workspace]:
    """A workspace in a sandbox of this (opened) runtime. `name` is for people: each box adds its own ending to it.

    Raises OfferMissing, BootFailed, RuntimeUnavailable, and SandboxGone where `ref` names a box that has ended.
    """
    opening = opening or Opening()
    if opening.ref is not None:
        sandbox = await runtime.attach(opening.ref)
    else:
        sandbox = await runtime.create(_spec(name, opening))
    try:
        yield Workspace(sandbox)
    finally:
        with anyio.move_on_after(CLOSING, shield=True):
            await _close(sandbox, opening)


async def _close(sandbox: Sandbox, opening: Opening) -> None:
    if opening.lifetime == "ttl":
        await sandbox.release()
    else:
        await sandbox.destroy()


def _spec(name: str, opening: Opening) -> SandboxSpec:
    if _NAME.fullmatch(name) is None:
        raise BootFailed(f"{name!r} cannot be its name. Use letters, digits, _ and -, 48 at most.")
    lifetime: Lifetime = WhileOwned() if opening.lifetime == "process" else TimeToLive(opening.ttl)
    return SandboxSpec(
        name=f"{name}-{secrets.token_hex(4)}",
        lifetime=lifetime,
        directory=opening.directory,
        image=opening.image,
        limits=opening.limits,
        env=opening.env,
        read_only=opening.read_only,
        needs=opening.needs | ({Offer.ATTACH} if opening.lifetime == "ttl" else frozenset()),
    )
