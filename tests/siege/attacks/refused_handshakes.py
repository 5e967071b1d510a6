"""Handshakes with the MCP server that it refuses: no session may be left of them"""

import json
from http.client import HTTPConnection
from typing import Any

from tests.siege.attack import Target

MCP = True
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "siege", "version": "1"}},
}
BOTH = "application/json, text/event-stream"
REFUSED: list[tuple[dict[str, str], bytes]] = [
    ({"Content-Type": "text/plain", "Accept": BOTH}, json.dumps(HELLO).encode()),
    ({"Content-Type": "application/json", "Accept": BOTH}, b"{not json"),
    ({"Content-Type": "application/json", "Accept": "text/html"}, json.dumps(HELLO).encode()),
    (
        {"Content-Type": "application/json", "Accept": BOTH, "MCP-Protocol-Version": "1999-01-01"},
        json.dumps(HELLO).encode(),
    ),
    ({"Content-Type": "application/json", "Accept": BOTH}, b'{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}'),
    ({"Content-Type": "application/json", "Accept": BOTH}, b'{"jsonrpc": "2.0", "id": 1, "method": "initialize"}'),
]


def attack(target: Target) -> None:
    for headers, body in REFUSED:
        _post(target, headers, body)


def holds(target: Target) -> None:
    for _ in range(20):  # more than there may be sessions
        attack(target)
    for _ in range(4):
        status, answer = _post(target, {"Content-Type": "application/json", "Accept": BOTH}, json.dumps(HELLO).encode())
        assert status == 200, f"an honest client is answered {status} after refused handshakes: {answer[:200]!r}"


def _post(target: Target, headers: dict[str, str], body: bytes) -> tuple[int, Any]:
    connection: HTTPConnection = target.connection(target.mcp, timeout=20)
    try:
        connection.request("POST", "/mcp", body, headers)
        answer = connection.getresponse()
        return answer.status, answer.read1(4096)
    finally:
        connection.close()
