"""Containers and their files as JSON objects of OpenAI's Containers API (its API reference, "Containers"). Pure."""

import posixpath
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, UnsetType

from limpet.containers.container import expires_at, is_due
from limpet.core.clock import seconds
from limpet.core.ports import Held, Scope
from limpet.core.resources import EXTENSION, Count, DeletedResource, Moment, Resource, WireObject, or_unset
from limpet.store.containers import ContainerRecord
from limpet.store.files import ContainerFileRecord

_MEMORY_SIZES = {1 << 30: "1g", 4 << 30: "4g", 16 << 30: "16g", 64 << 30: "64g"}
MemorySize = Annotated[str, Meta(extra_json_schema={"enum": list(_MEMORY_SIZES.values())})]
BoundBy = Literal["per sandbox", "per process", "none"]


class ContainerExpiry(WireObject, frozen=True, kw_only=True):
    anchor: Literal["last_active_at"] = "last_active_at"
    minutes: Annotated[int, Meta(ge=1)]


class ContainerLimits(WireObject, frozen=True, kw_only=True):
    """What the limits of a container bind on this host."""

    memory: BoundBy
    processes: BoundBy
    cpu: BoundBy
    disk: BoundBy
    notes: Annotated[tuple[str, ...], Meta(description="What is not held here, one sentence each.")] | UnsetType = UNSET


class Container(Resource, frozen=True, kw_only=True):
    object: Literal["container"] = "container"
    name: str
    created_at: Moment
    status: Literal["running", "expired"]
    last_active_at: Moment
    expires_after: ContainerExpiry
    network_policy: Annotated[dict[str, Any], Meta(extra_json_schema={"$ref": "#/components/schemas/NetworkPolicy"})]
    expires_at: Annotated[Moment, EXTENSION]
    idle_ttl_secs: Annotated[Count, EXTENSION]
    limits: Annotated[ContainerLimits, EXTENSION]
    # Each is absent where the container has no limit of its own; the first also where OpenAI has no name for its amount
    # (docs/decisions/memory-sizes-on-the-wire.md).
    memory_limit: MemorySize | UnsetType = UNSET
    memory_limit_bytes: Annotated[Count | UnsetType, EXTENSION] = UNSET


class ContainerFile(Resource, frozen=True, kw_only=True):
    object: Literal["container.file"] = "container.file"
    container_id: str
    created_at: Moment
    bytes: Count
    path: str
    source: Literal["user", "assistant"]
    filename: Annotated[str, EXTENSION]
    content_type: Annotated[str | None, EXTENSION]
    too_large: Annotated[Literal[True] | UnsetType, EXTENSION] = UNSET


class ContainerPort(Resource, frozen=True, kw_only=True):
    """`id` is the port's number as text, by which lists page."""

    object: Literal["container.port"] = "container.port"
    container_id: str
    port: Annotated[int, Meta(ge=1, le=65535)]


class PortLink(Resource, frozen=True, kw_only=True):
    """`url` is the permission itself."""

    object: Literal["container.port.link"] = "container.port.link"
    container_id: str
    port: Annotated[int, Meta(ge=1, le=65535)]
    url: str
    expires_at: Moment


class DeletedContainer(DeletedResource, frozen=True, kw_only=True):
    object: Literal["container.deleted"] = "container.deleted"


class DeletedContainerFile(DeletedResource, frozen=True, kw_only=True):
    object: Literal["container.file.deleted"] = "container.file.deleted"


def container_object(record: ContainerRecord, now: int, held: Held) -> Container:
    """The container at the time `now` (microseconds)."""
    memory: int | None = record.spec.get("memory")
    return Container(
        id=record.id,
        name=record.name,
        created_at=seconds(record.created_at),
        status="running" if record.status == "running" and not is_due(record, now) else "expired",
        last_active_at=seconds(record.last_active_at),
        expires_after=ContainerExpiry(minutes=max(1, record.idle_ttl // 60)),
        network_policy=record.spec.get("network_policy", {"type": "disabled"}),
        expires_at=seconds(expires_at(record)),
        idle_ttl_secs=record.idle_ttl,
        limits=ContainerLimits(
            memory=_bound(held.memory),
            processes=_bound(held.processes),
            cpu=_bound(held.cpu),
            disk=_bound(held.disk),
            notes=held.notes or UNSET,
        ),
        memory_limit=or_unset(_MEMORY_SIZES.get(memory or 0)),
        memory_limit_bytes=or_unset(memory),
    )


def _bound(scope: Scope) -> BoundBy:
    match scope:
        case "sandbox":
            return "per sandbox"
        case "process":
            return "per process"
        case "none":
            return "none"


def container_file_object(record: ContainerFileRecord) -> ContainerFile:
    """One file. A path that is not UTF-8 is shown with replacement characters."""
    path = shown(record.path)
    return ContainerFile(
        id=record.id,
        container_id=record.container_id,
        created_at=seconds(record.created_at),
        bytes=record.bytes,
        path=path,
        source=record.source,
        filename=posixpath.basename(path),
        content_type=record.content_type,
        too_large=True if record.too_large else UNSET,
    )


def shown(path: str) -> str:
    """A path as text that JSON can carry: bytes that are not UTF-8 become U+FFFD."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
