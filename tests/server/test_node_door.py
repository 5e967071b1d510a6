"""The door for other gateways: it lets in what they sign, as their caller, at the addresses that are passed on; all else is for the door of
clients."""

from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient
from starlette.types import ASGIApp, Receive, Scope, Send

from limpet.core.secret import Secret
from limpet.server.callers import caller_of
from limpet.server.node_door import NodeDoor, forwarded_by
from limpet.server.node_signatures import HEADER, ForwardedCaller, NodeSigner
from limpet.store.sealing import Sealer

FILES = "/v1/containers/cntr_1/files"
CALLER = ForwardedCaller(tenant="acme", scopes=("containers",), key_id="key_1", scheme="https")


class ClosedDoor:
    """Lets no client in."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await PlainTextResponse("closed", status_code=401)(scope, receive, send)


async def told(request: Request) -> JSONResponse:
    caller = caller_of(request)
    assert HEADER not in request.headers  # what is behind the door may hand headers on to programs of a tenant
    return JSONResponse([caller.tenant, caller.key_id, str(request.base_url), forwarded_by(request.scope) is not None])


@pytest.fixture
def signer(tmp_path: Path) -> NodeSigner:
    return NodeSigner(Sealer(tmp_path, key=Secret("shared")), home="here", now=lambda: 1_000_000)


@pytest.fixture
def client(signer: NodeSigner) -> TestClient:
    door: Any = Middleware(NodeDoor, signer=signer, door=Middleware(ClosedDoor))
    routes = [Route("/{path:path}", told, methods=["GET", "POST"])]
    return TestClient(Starlette(routes=routes, middleware=[door]), base_url="http://gateway.example")


def test_what_is_signed_is_let_in_as_its_caller(client: TestClient, signer: NodeSigner) -> None:
    signature = signer.sign(CALLER, to="here", method="GET", target=f"{FILES}?limit=1".encode())
    answer = client.get(f"{FILES}?limit=1", headers={HEADER: signature})
    assert answer.json() == ["acme", "key_1", "https://gateway.example/", True]
    assert client.get(f"{FILES}?limit=1", headers={HEADER: signature}).status_code == 403  # a second time
    assert client.get(FILES).status_code == 401


@pytest.mark.parametrize(
    "path", ["/v1/files", "/metrics", "/v1/responses/resp_1", "/v1/containers", "/v1/chat/completions"]
)
def test_nothing_else_is_let_in(client: TestClient, signer: NodeSigner, path: str) -> None:
    signature = signer.sign(CALLER, to="here", method="GET", target=path.encode())
    answer = client.get(path, headers={HEADER: signature})
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "forward_refused")


def test_the_scopes_of_its_key_hold(client: TestClient, signer: NodeSigner) -> None:
    signature = signer.sign(CALLER, to="here", method="POST", target=b"/v1/responses")
    answer = client.post("/v1/responses", headers={HEADER: signature})
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "insufficient_scope")


def test_two_signatures_are_none(client: TestClient, signer: NodeSigner) -> None:
    both = [(HEADER, signer.sign(CALLER, to="here", method="GET", target=FILES.encode())) for _ in range(2)]
    assert client.get(FILES, headers=both).status_code == 403
