"""Containers and their files as JSON objects of OpenAI's Containers API (its API reference, "Containers"). Pure."""

import posixpath
from dataclasses import asdict
from typing import Any

from limpet.containers.container import expires_at, is_due
from limpet.core.clock import seconds
from limpet.core.ports import Held, Scope
from limpet.store.containers import ContainerRecord
from limpet.store.files import ContainerFileRecord


def container_object(record: ContainerRecord, now: int, held: Held) -> dict[str, Any]:
    """The container at the time `now` (microseconds). `expires_at` and `idle_ttl_secs` are extensions, and so is `limits`:
    what its limits bind on this host, "per sandbox", "per process" or "none", and where something is not held, `notes` that
    say so. Without a limit of its own there is no `memory_limit`: OpenAI's schema has no null there."""
    shape = {
        "id": record.id,
        "object": "container",
        "name": record.name,
        "created_at": seconds(record.created_at),
        "status": "expired" if is_due(record, now) else record.status,
        "last_active_at": seconds(record.last_active_at),
        "expires_after": {"anchor": "last_active_at", "minutes": max(1, record.idle_ttl // 60)},
        "network_policy": record.spec.get("network_policy", {"type": "disabled"}),
        "expires_at": seconds(expires_at(record)),
        "idle_ttl_secs": record.idle_ttl,
        "limits": _limits(held),
    }
    return shape if record.memory_limit is None else {**shape, "memory_limit": record.memory_limit}


def _limits(held: Held) -> dict[str, Any]:
    scopes = asdict(held)
    notes = scopes.pop("notes")
    shape: dict[str, Any] = {name: _bound(scope) for name, scope in scopes.items()}
    return {**shape, "notes": list(notes)} if notes else shape


def _bound(scope: Scope) -> str:
    return "none" if scope == "none" else f"per {scope}"


def deleted_container(container_id: str) -> dict[str, Any]:
    return {"id": container_id, "object": "container.deleted", "deleted": True}


def container_file_object(record: ContainerFileRecord) -> dict[str, Any]:
    """One file. `filename`, `content_type` and `too_large` are extensions. A path that is not UTF-8 is shown with replacement
    characters."""
    path = shown(record.path)
    shape = {
        "id": record.id,
        "object": "container.file",
        "container_id": record.container_id,
        "created_at": seconds(record.created_at),
        "bytes": record.bytes,
        "path": path,
        "source": record.source,
        "filename": posixpath.basename(path),
        "content_type": record.content_type,
    }
    return {**shape, "too_large": True} if record.too_large else shape


def deleted_container_file(file_id: str) -> dict[str, Any]:
    return {"id": file_id, "object": "container.file.deleted", "deleted": True}


def shown(path: str) -> str:
    """A path as text that JSON can carry: bytes that are not UTF-8 become U+FFFD."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
