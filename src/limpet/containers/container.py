"""What a container is, when it expires and which box it gets. Pure: asks no clock, touches no box and no database."""

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from limpet.containers.attachments import SKILLS, RequestedSkill, Skill
from limpet.containers.requested_secrets import GrantedSecret
from limpet.containers.settings import ShellLimits
from limpet.core.box_settings import BoxSettings
from limpet.core.clock import MICROSECONDS
from limpet.core.ports import Lifetime, Limits, Offer, SandboxRef, SandboxSpec, TimeToLive, Walls, WhileOwned
from limpet.egress.network import PROXY_ENVIRONMENT, TRUST_ENVIRONMENT
from limpet.store.containers import ContainerRecord

MIB = 1 << 20
SKILLS_DIRECTORY = "skills"  # beside a container's data and home, on the host

# "deleted" rows are kept but never shown to clients; an "expired" container does not become active again, as in OpenAI's API.
CONTAINER_MOVES: dict[str, frozenset[str]] = {
    "running": frozenset({"expired", "deleted"}),
    "expired": frozenset({"deleted"}),
    "deleted": frozenset(),
}

# A box ends by itself this much later than its container: the gateway expires it, and this is for when there is no gateway.
SLACK = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerSpec:
    """What was asked for, inside the operator's limits. `memory` is in bytes, `memory_limit` the text that asked for it;
    `network_policy` is as asked, without its `secrets`, which are stored sealed; `place` goes before a field's name in errors."""

    idle_ttl: int
    memory: int | None = None
    memory_limit: str | None = None
    network_policy: dict[str, Any] = field(default_factory=lambda: {"type": "disabled"})
    skills: tuple[RequestedSkill, ...] = ()
    file_ids: tuple[str, ...] = ()
    place: str = field(default="", compare=False)
    secrets: tuple[GrantedSecret, ...] = field(default=(), compare=False)

    def stored(self, skills: Sequence[Skill] = (), *, image: Path | None = None) -> dict[str, Any]:
        """As the row's `spec` holds it; `file_ids` are those that were brought in, none yet. `image` is what the operator's boxes have
        when the container is made: it stays the container's."""
        return {
            "image": None if image is None else str(image),
            "memory": self.memory,
            "network_policy": self.network_policy,
            "skills": [skill.stored() for skill in skills],
            "file_ids": [],
        }


def expires_at(record: ContainerRecord) -> int:
    """Microseconds: the moment after which it expires unless it is used; for one that ended, the moment when it did."""
    if record.ended_at is not None:
        return record.ended_at
    return record.last_active_at + record.idle_ttl * MICROSECONDS


def is_due(record: ContainerRecord, now: int) -> bool:
    """Whether a running container has been idle for longer than its time to live."""
    return record.status == "running" and now > expires_at(record)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiryPlan:
    """The decision at one point in time: the containers that are in use and stay active, and those that expire."""

    held: tuple[str, ...]
    expired: tuple[ContainerRecord, ...]


def plan_expiry(records: Iterable[ContainerRecord], now: int, busy: Set[str]) -> ExpiryPlan:
    """Which of these expire now. A container in `busy` (leased, or with a command that runs) is activity and never expires."""
    return ExpiryPlan(
        held=tuple(sorted(busy)),
        expired=tuple(record for record in records if is_due(record, now) and record.id not in busy),
    )


def sandbox_spec(
    record: ContainerRecord,
    directory: Path,
    *,
    box: BoxSettings,
    limits: ShellLimits,
    offers: frozenset[Offer],
    walls: Walls = Walls(),  # noqa: B008  # frozen
    has_network: bool = False,
) -> SandboxSpec:
    """The box of this container. Its memory: as the request narrowed it, else `default_mem_limit_mb`, else the box's own.

    A runtime without limits gets none: the operator chose it, and `narrow` refuses requests for a limit there. `has_network`: the
    operator grants hosts to some containers.
    """
    bounds = Limits(memory=_memory(record, box, limits), cpus=box.cpus)
    return SandboxSpec(
        name=record.id,
        lifetime=_lifetime(record, offers),
        directory=directory if Offer.DIRECTORY in offers else None,
        user_id=record.user_id,
        image=_image(record, box),
        limits=bounds if Offer.LIMITS in offers else Limits(),
        env=_environment(record) if has_network else {},
        read_only={SKILLS: directory / SKILLS_DIRECTORY} if mounts_skills(offers) else {},
        walls=walls,
        # Also for those that reach nothing yet: a later policy works in a box that lives.
        needs=offers & {Offer.NETWORK_POLICY} if has_network else frozenset(),
    )


def _image(record: ContainerRecord, box: BoxSettings) -> Path | None:
    """Rows of before containers had one take the operator's."""
    if "image" not in record.spec:
        return box.image
    return None if record.spec["image"] is None else Path(record.spec["image"])


def mounts_skills(offers: frozenset[Offer]) -> bool:
    """Whether a runtime can show directories of the host to its boxes that they cannot change."""
    return Offer.ISOLATION in offers and Offer.DIRECTORY in offers


def _environment(record: ContainerRecord) -> Mapping[str, str]:
    """Secrets may come to it later, whose hosts its programs must trust then."""
    is_networked = record.spec.get("network_policy", {}).get("type") == "allowlist"
    return {**TRUST_ENVIRONMENT, **(PROXY_ENVIRONMENT if is_networked else {})}


def _lifetime(record: ContainerRecord, offers: frozenset[Offer]) -> Lifetime:
    return TimeToLive(record.idle_ttl + SLACK) if Offer.ATTACH in offers else WhileOwned()


def _memory(record: ContainerRecord, box: BoxSettings, limits: ShellLimits) -> int:
    asked: int | None = record.spec.get("memory")
    memory = asked or (limits.default_mem_limit_mb or box.memory_mb) * MIB
    if limits.max_mem_limit_mb is None:
        return memory
    return min(memory, limits.max_mem_limit_mb * MIB)


def stored_ref(ref: SandboxRef) -> dict[str, Any]:
    """A reference as the row holds it."""
    return {
        "runtime": ref.runtime,
        "name": ref.name,
        "boot_id": ref.boot_id,
        "version": ref.version,
        "walls": ref.walls,
        "shell": ref.shell,
        "facts": dict(ref.facts),
    }


def read_ref(stored: dict[str, Any]) -> SandboxRef:
    """The other way round."""
    return SandboxRef(**stored)
