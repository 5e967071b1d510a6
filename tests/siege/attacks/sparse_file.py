"""A sparse file of 8 TiB, which is captured, listed, downloaded, and read by a file tool"""

import json
import sys
import time
from typing import Any

from tests.siege.attack import Target, TooSlow

MCP = True
SECONDS = 4.0
HEADERS = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}


def attack(target: Target) -> None:
    target.run("truncate -s 8T /mnt/data/big; echo x > /mnt/data/small")
    _, files = target.ask("GET", f"/v1/containers/{target.container}/files")
    for one in files["data"] if isinstance(files, dict) and "data" in files else []:
        target.ask("GET", f"/v1/containers/{target.container}/files/{one['id']}", timeout=5)
        status, _ = target.ask("GET", f"/v1/containers/{target.container}/files/{one['id']}/content", timeout=5)
        if status != 413 and one["bytes"] > 1 << 40:
            sys.stderr.write(f"a sparse file of 8 TiB was answered {status}\n")
    target.run("touch /mnt/data/again")


def holds(target: Target) -> None:
    session = Session(target)
    session.call("run", {"command": "truncate -s 8T big"})
    begun = time.monotonic()
    for arguments in ({"path": "big"}, {"path": "big", "offset": 10, "limit": 5}):
        session.call("read_file", arguments)
        if time.monotonic() - begun > 10:
            raise TooSlow(f"read_file of a sparse file of 8 TiB, {arguments}, took more than 10 s")


class Session:
    """A session with the MCP server; its answers are plain JSON or one event."""

    def __init__(self, target: Target) -> None:
        self._connection = target.connection(target.mcp, timeout=20)
        self._headers = dict(HEADERS)
        who = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "siege", "version": "1"}}
        self._ask("initialize", who, id=1)
        self._ask("notifications/initialized", {})

    def call(self, tool: str, arguments: dict[str, Any]) -> Any:
        return self._ask("tools/call", {"name": f"workspace__box__{tool}", "arguments": arguments}, id=2)

    def _ask(self, method: str, params: dict[str, Any], **more: int) -> Any:
        body = {"jsonrpc": "2.0", "method": method, "params": params, **more}
        self._connection.request("POST", "/mcp", json.dumps(body), self._headers)
        answer = self._connection.getresponse()
        text = answer.read().decode()
        if session := answer.headers.get("Mcp-Session-Id"):
            self._headers["Mcp-Session-Id"] = session
        assert answer.status in (200, 202), f"{method} was answered {answer.status}: {text[:200]}"
        return text
