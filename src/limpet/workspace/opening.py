"""A workspace from any runtime, for the time of an `async with`. Keeps no records: that is what containers are for."""

import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_hex
from typing import Any, Literal

import anyio

from limpet.core.clock import Clock, SystemClock
from limpet.core.errors import BootFailed, OfferMissing
from limpet.core.ids import new_id
from limpet.core.ports import (
    Lifetime,
    Limits,
    Offer,
    Runtime,
    Sandbox,
    SandboxRef,
    SandboxSpec,
    TimeToLive,
    Walls,
    WhileOwned,
)
from limpet.core.secret import Secret
from limpet.egress.door import Interception
from limpet.egress.network import Network, box_environment
from limpet.egress.network_note import network_note
from limpet.egress.policy import EgressPolicy
from limpet.guard.policy.environment import secrets_in
from limpet.guard.policy.policy import Policy
from limpet.guard.redaction.redactor import Redaction
from limpet.workspace.approvals import Approvals, Approver
from limpet.workspace.audit import Audit, AuditTrail, OnAudit
from limpet.workspace.capabilities import read_capabilities
from limpet.workspace.command_guard import CommandGuard
from limpet.workspace.judge_factory import BashReader, JudgeFactory
from limpet.workspace.names import refuse_reserved
from limpet.workspace.network import opened_door
from limpet.workspace.output_redaction import OutputRedaction
from limpet.workspace.path_resolver import BoxDirectories, find_directories
from limpet.workspace.shell import SandboxShell
from limpet.workspace.walls import held_walls, refuse_unheld, walls_of
from limpet.workspace.workspace import Closer, Workspace, ends_with_its_block

DEFAULT_TTL = 1200.0
CLOSING = 15.0  # seconds for ending a box when the block is left
SESSION = "session"
_NAME = re.compile(r"[A-Za-z0-9_-]{1,48}")


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxOptions:
    """How to open a workspace.

    `lifetime` "process" ends the box with the block (and with this process, however that ends). "ttl" lets it live on until
    it has been idle for `ttl` seconds; `ref`, from an earlier workspace's `ref`, enters that one again instead of making a
    new one; then `lifetime` only says whether it ends with the block. `network` is what it may
    reach, for the time of the block (None: nothing), `interceptor` has its secrets. The rest is as in SandboxSpec.
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
    network: Network | None = None
    interceptor: Interception | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceOptions:
    """The rules that a workspace is opened with.

    Without `policy` nothing is judged; without `redaction` output comes as it is (records and tools are always screened). `audit` gets
    every record, beside the log. `approver` is asked where the policy wants that; without one (None) it is denied. `session`
    says whose commands these are; "" makes a new one.
    """

    capabilities: Mapping[str, Any] | None = None
    policy: Policy | None = None
    redaction: Redaction | None = None
    audit: OnAudit | None = None
    approver: Approver | None = None
    session: str = ""
    clock: Clock = field(default_factory=SystemClock)


@asynccontextmanager
async def open_in(
    runtime: Runtime,
    name: str = "box",
    opening: SandboxOptions | None = None,
    *,
    rules: WorkspaceOptions | None = None,
    closer: Closer = ends_with_its_block,
) -> AsyncIterator[Workspace]:
    """A workspace in a sandbox of this (opened) runtime. `name` is for people and tools: each box adds its own ending to it. `closer`
    is what its `close` does.

    Raises OfferMissing for what the runtime does not have, ConfigInvalid, BootFailed, RuntimeUnavailable, and SandboxGone where
    `ref` names a box that has ended.
    """
    opening, rules = opening or SandboxOptions(), rules or WorkspaceOptions()
    refuse_reserved(name, where="open_workspace")
    capabilities = read_capabilities(rules.capabilities)
    policy = capabilities.narrow(rules.policy)
    walls = walls_of(policy)
    refuse_unheld(
        policy, runtime.name, runtime.offers, built=walls.digest if opening.ref is None else opening.ref.walls
    )
    sandbox = await _enter(runtime, name, opening, walls)
    try:
        places = await find_directories(sandbox, runtime.offers) if capabilities.shell else BoxDirectories()
        held = _held(runtime, opening, walls)
        async with BashReader() as reader:
            guard = CommandGuard(
                capabilities=capabilities,
                judges=JudgeFactory(sandbox, places, reader=reader, walls=held),
                roots=places.roots,
                approvals=Approvals(rules.approver, clock=rules.clock),
            )
            async with opened_door(sandbox, name, opening.network, opening.interceptor) as door:
                note = _network_note(runtime, None if door is None else door.policy, opening)
                yield _made(sandbox, name, opening, rules, guard.with_more(policy), closer, note)
    finally:
        with anyio.move_on_after(CLOSING, shield=True):
            await _close(sandbox, opening)


def _held(runtime: Runtime, opening: SandboxOptions, walls: Walls) -> Walls:
    """Which walls surely stand around the box. Of one that is entered again only what its digest says is known."""
    if opening.ref is not None and opening.ref.walls != walls.digest:
        return Walls()
    is_isolated = Offer.ISOLATION in runtime.offers and opening.ref is None
    return held_walls(
        walls, runtime.offers, sees_only_its_own=is_isolated and opening.image is None and not opening.read_only
    )


async def _enter(runtime: Runtime, name: str, opening: SandboxOptions, walls: Walls) -> Sandbox:
    if opening.ref is None:
        return await runtime.create(_spec(name, opening, walls))
    for offer in opening.needs | _of_network(opening) | {Offer.ATTACH}:
        if offer not in runtime.offers:
            raise OfferMissing(runtime.name, offer.value, [one.value for one in runtime.offers])
    return await runtime.attach(opening.ref)


def _made(
    sandbox: Sandbox,
    name: str,
    opening: SandboxOptions,
    rules: WorkspaceOptions,
    guard: CommandGuard,
    closer: Closer,
    network_note: str,
) -> Workspace:
    # No record shows the secrets of the box's own variables.
    output = OutputRedaction.of_records(_secrets_of(opening))
    output = output if rules.redaction is None else output.with_more(rules.redaction)
    trail = AuditTrail(
        audit=Audit(rules.audit),
        workspace=name,
        session=rules.session or new_id(SESSION),
        directory=guard.places.data,
        redactor=output.redactor,
        clock=rules.clock,
    )
    shell = SandboxShell(sandbox, clock=rules.clock)
    return Workspace(shell, guard=guard, output=output, trail=trail, closer=closer, network_note=network_note)


def _network_note(runtime: Runtime, policy: EgressPolicy | None, opening: SandboxOptions) -> str:
    if Offer.ISOLATION not in runtime.offers:
        return ""
    return network_note(policy, () if opening.interceptor is None else opening.interceptor.secrets)


async def _close(sandbox: Sandbox, opening: SandboxOptions) -> None:
    if opening.lifetime == "ttl":
        await sandbox.release()
    else:
        await sandbox.destroy()


def _spec(name: str, opening: SandboxOptions, walls: Walls) -> SandboxSpec:
    if _NAME.fullmatch(name) is None:
        raise BootFailed(f"{name!r} cannot be its name. Use letters, digits, _ and -, 48 at most.")
    lifetime: Lifetime = WhileOwned() if opening.lifetime == "process" else TimeToLive(opening.ttl)
    return SandboxSpec(
        name=f"{name}-{token_hex(4)}",
        lifetime=lifetime,
        directory=opening.directory,
        image=opening.image,
        limits=opening.limits,
        env=opening.env if opening.network is None else {**_door_environment(opening), **opening.env},
        read_only=opening.read_only,
        walls=walls,
        needs=opening.needs | _of_network(opening) | ({Offer.ATTACH} if opening.lifetime == "ttl" else frozenset()),
    )


def _of_network(opening: SandboxOptions) -> frozenset[Offer]:
    return frozenset() if opening.network is None else frozenset({Offer.NETWORK_POLICY})


def _door_environment(opening: SandboxOptions) -> dict[str, str]:
    return box_environment(() if opening.interceptor is None else opening.interceptor.secrets)


def _secrets_of(opening: SandboxOptions) -> dict[str, Secret]:
    """Those of its variables, and those that its door puts in: should a host send one back in a form that is not known, it is hidden
    where it is printed as it is."""
    placed = () if opening.interceptor is None else opening.interceptor.secrets
    return {
        **secrets_in(opening.env),
        **{one.name: Secret(one.value.decode(errors="surrogateescape")) for one in placed},
    }
