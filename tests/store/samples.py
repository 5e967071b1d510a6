"""Records and entries as the tests of the store need them."""

from typing import Any

from limpet.core.ids import new_id
from limpet.store.containers import ContainerRecord
from limpet.store.entries import Entry
from limpet.store.executions import Execution
from limpet.store.files import ContainerFileRecord
from limpet.store.responses import ResponseRecord


def a_response(**given: Any) -> ResponseRecord:
    values: dict[str, Any] = {
        "id": new_id("resp"),
        "tenant": "default",
        "status": "in_progress",
        "model": "limpet/script",
        "provider": "script",
        "created_at": 1,
        "owner": "here",
        "request": {"model": "limpet/script"},
        "input": [{"role": "user", "content": "hello"}],
    }
    return ResponseRecord(**(values | given))


def a_container(**given: Any) -> ContainerRecord:
    values: dict[str, Any] = {
        "id": new_id("cntr"),
        "tenant": "default",
        "name": "box",
        "status": "running",
        "created_at": 1,
        "last_active_at": 1,
        "idle_ttl": 1200,
        "spec": {},
    }
    return ContainerRecord(**(values | given))


def a_file(container_id: str, path: str = "/mnt/data/a", **given: Any) -> ContainerFileRecord:
    values: dict[str, Any] = {
        "id": new_id("cfile"),
        "tenant": "default",
        "container_id": container_id,
        "path": path,
        "bytes": 3,
        "sha256": "00",
        "source": "assistant",
        "created_at": 1,
        "modified": 2,
    }
    return ContainerFileRecord(**(values | given))


def an_execution(response_id: str, command_index: int = 0, **given: Any) -> Execution:
    values: dict[str, Any] = {
        "exec_id": f"{response_id}.0.0.{command_index}",
        "tenant": "default",
        "response_id": response_id,
        "container_id": "cntr_1",
        "boot_id": "boot-1",
        "step": 0,
        "call_id": "call_1",
        "command_index": command_index,
        "started_at": 1,
    }
    return Execution(**(values | given))


def entries(first: int, last: int, *, size: int = 20) -> list[Entry]:
    """Those from number `first` to `last`, both of them."""
    return [
        Entry(seq=seq, step=0, type="response.output_text.delta", data=b'{"delta":"%s"}' % (b"x" * size))
        for seq in range(first, last + 1)
    ]
