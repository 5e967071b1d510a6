"""A request that is on its way while the gateway stops is refused, and nothing of it is carried out later."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import anyio
import httpx2
import pytest

from limpet.runtimes.local.runtime import LocalRuntime
from limpet.server.gateway import GatewaySettings, opened
from limpet.store.home import prepare_home
from limpet.upstreams.routing import Route
from limpet.upstreams.script import ScriptUpstream
from tests.support.host import rows


class SeenUpstream(ScriptUpstream):
    """Tells when a request is being prepared for it."""

    def __init__(self) -> None:
        super().__init__()
        self.is_looked_at = anyio.Event()

    @property
    def compaction(self) -> None:  # type: ignore[override]  # a constant there
        self.is_looked_at.set()


@contextmanager
def written_by_another(database: Path) -> Iterator[None]:
    """What the gateway writes has to wait."""
    with closing(sqlite3.connect(database, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield


@pytest.mark.anyio
async def test_a_request_that_is_being_recorded_while_the_gateway_stops_leaves_nothing(tmp_path: Path) -> None:
    upstream, answers = SeenUpstream(), []
    settings = GatewaySettings(home=tmp_path, stop_boxes=True)
    body = {"model": "limpet/script", "input": "echo hello", "tools": [{"type": "shell"}], "background": True}
    prepare_home(tmp_path)
    async with opened(settings, runtime=LocalRuntime(), providers=[Route(upstream, ("limpet/script",))]) as gateway:
        transport = httpx2.ASGITransport(app=gateway.app, client=("127.0.0.1", 1))

        async def ask() -> None:
            async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:
                answers.append(await http.post("/v1/responses", json=body, headers={"Idempotency-Key": "once"}))

        with anyio.fail_after(15):
            async with anyio.create_task_group() as tasks:
                with written_by_another(tmp_path / "limpet.db"):
                    tasks.start_soon(ask)
                    await upstream.is_looked_at.wait()
                    await gateway.stop()

    assert [(answer.status_code, answer.json()["error"]["code"]) for answer in answers] == [(503, "gateway_stopping")]
    for table in ("responses", "runs", "idempotency_keys"):
        assert rows(tmp_path / "limpet.db", f"SELECT * FROM {table}") == []
    assert [found["status"] for found in rows(tmp_path / "limpet.db", "SELECT status FROM containers")] == ["expired"]
