"""Conversations that the server keeps, with the clients that have them: openai-node, and openai-agents in both of its ways."""

import json
import sys
from pathlib import Path

import pytest

from tests.clients.caches import HERE
from tests.clients.turns import PROMPTS, check_turns, run_json, run_node
from tests.support.gateway import Gateway

STREAMED = pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])


@STREAMED
def test_openai_node(gateway: Gateway, streamed: bool) -> None:
    said = run_node("conversations.mjs", url=f"{gateway.url}/v1", prompts=PROMPTS, streamed=streamed)

    check_turns(said["turns"])
    assert said["kinds"] == ["message", "shell_call", "shell_call_output", "message"] * 3
    assert said["left"] == 11
    assert said["tokens"] > 0


@pytest.mark.promise("response-goes-on-from-its-conversation")
def test_openai_agents(gateway: Gateway) -> None:
    asked = json.dumps({"url": f"{gateway.url}/v1", "prompts": PROMPTS})
    script = str(Path(HERE) / "python" / "agents_conversations.py")
    env = {"PATH": "/usr/bin:/bin", "OPENAI_API_KEY": "none needed"}
    ways = run_json([sys.executable, script, asked], env=env)

    assert len(ways) == 4
    for turns in ways:
        check_turns(turns)
