"""What hosted `mcp` tools sign in with reaches the provider in every turn, also after a kill; no event, answer or file has it."""

import json
from pathlib import Path

from tests.faults.test_resume import SEVERAL, ask, go_on
from tests.support.gateway import lasting
from tests.support.providers.server import Request
from tests.support.providers.turns import ShellCall, Turn, reply
from tests.wire.asking import SHELL
from tests.wire.provider import config_of, scripted_provider

TOKENS = ("canary-authorization-Zq81", "canary-header-Xp73")
SHOWN = {"type": "mcp", "server_label": "wiki", "server_url": "https://mcp.example.com/mcp"}
MCP = {**SHOWN, "authorization": TOKENS[0], "headers": {"X-Key": TOKENS[1]}}
CRM = {"type": "namespace", "name": "crm", "description": "Customers."}


def test_they_are_neither_stored_in_the_clear_nor_shown_and_a_killed_run_still_has_them(tmp_path: Path) -> None:
    tools = [MCP, {**CRM, "tools": [MCP]}]
    with scripted_provider() as provider, lasting(tmp_path, config=config_of(provider)) as gateway:

        def killing(_: Request) -> Turn:
            gateway.kill()
            return reply("Nothing reads this.")

        def files() -> str:
            paths = [gateway.log, *(path for path in gateway.home.rglob("*") if path.is_file())]
            return "".join(path.read_bytes().decode("latin-1") for path in paths)

        provider.play(reply(ShellCall(("echo one",))), killing, "Done.")
        seen = ask(gateway, {**SEVERAL, "tools": [*SHELL, *tools]})
        assert not any(token in files() for token in TOKENS)
        gateway.start()
        events = go_on(gateway, seen)

        assert events[-1]["type"] == "response.completed"
        assert [asked["tools"][1:] for asked in provider.asked] == [tools] * 3
        assert events[0]["response"]["tools"][1:] == [SHOWN, {**CRM, "tools": [SHOWN]}]
        with gateway.http() as http:
            shown = http.get(f"/v1/responses/{events[0]['response']['id']}").json()
        assert shown["tools"] == events[-1]["response"]["tools"] == events[0]["response"]["tools"]
        assert not any(token in f"{json.dumps([events, shown])}{files()}" for token in TOKENS)
