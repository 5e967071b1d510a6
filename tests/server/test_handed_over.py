"""A gateway that breaks off after it was sent a request may have made the response: the client must not ask again by itself."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import Response

from limpet.containers.messages import lies_elsewhere
from limpet.containers.nodes import NodeDirectory
from limpet.core.clock import SystemClock
from limpet.core.secret import Secret
from limpet.server.callers import Caller, admit
from limpet.server.handed_over import hand_over
from limpet.server.node_requests import NodeRequests, NodeUnreachable
from limpet.server.node_signatures import NodeSigner
from limpet.store.database import Database
from limpet.store.nodes import Nodes
from limpet.store.sealing import Sealer
from limpet.store.settings import DatabaseSettings

pytestmark = pytest.mark.anyio
BODY = b'{"model":"limpet/script","input":"x"}'


def a_request(*headers: tuple[bytes, bytes]) -> Request:
    path = "/v1/responses"
    scope: dict[str, Any] = {
        "type": "http",
        "method": "POST",
        "path": path,
        "query_string": b"",
        "headers": [(b"host", b"x"), *headers],
    }
    admit(scope, Caller(tenant="acme", scopes=frozenset({"responses"}), key_id="key_1"))
    return Request(scope)


async def test_a_break_after_the_body_is_not_asked_again_without_a_key(postgres: Any, tmp_path: Path) -> None:
    async def break_off(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(BODY)
        writer.close()

    clock, problem = SystemClock(), lies_elsewhere("cntr_1", "away")
    server = await asyncio.start_server(break_off, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    with postgres.database() as url:
        async with server, Database(DatabaseSettings(url=url), home=tmp_path) as db:
            await Nodes(db).announce("away", address=f"http://127.0.0.1:{port}", at=clock.now())
            directory = NodeDirectory(Nodes(db), home="here", address=None, silence=60, clock=clock)
            signer = NodeSigner(Sealer(tmp_path, key=Secret("shared")), home="here", now=clock.now)
            unused: Any = None  # the containers: asked only where no gateway answers
            nodes = NodeRequests(directory, unused, signer)
            answer = await hand_over(nodes, a_request(), problem, BODY)
            assert isinstance(answer, Response)
            assert (answer.status_code, answer.headers["x-should-retry"]) == (503, "false")
            with pytest.raises(NodeUnreachable):
                await hand_over(nodes, a_request((b"idempotency-key", b"once")), problem, BODY)
