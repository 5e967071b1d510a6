"""openai-node, the Vercel AI SDK and @openai/agents: three turns each, with files that go from turn to turn."""

import pytest

from tests.clients.turns import PROMPTS, check_turns, run_node
from tests.support.gateway import Gateway

STREAMED = pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])


@STREAMED
@pytest.mark.parametrize("chained", [True, False], ids=["chain", "history"])
def test_openai_node(gateway: Gateway, streamed: bool, chained: bool) -> None:
    turns = run_node("openai.mjs", url=f"{gateway.url}/v1", prompts=PROMPTS, streamed=streamed, chained=chained)

    check_turns([turn["text"] for turn in turns])
    assert len({turn["container"] for turn in turns}) == 1
    assert all(turn["kinds"] == ["shell_call", "shell_call_output", "message"] for turn in turns)


@STREAMED
@pytest.mark.promise("item-references-are-resolved", "history-brings-its-container-back")
def test_ai_sdk(gateway: Gateway, streamed: bool) -> None:
    turns = run_node("ai_sdk.mjs", url=f"{gateway.url}/v1", prompts=PROMPTS, streamed=streamed)

    check_turns([turn["text"] for turn in turns])
    assert "item_reference" in turns[1]["kinds"]


@STREAMED
@pytest.mark.promise("history-brings-its-container-back")
def test_openai_agents(gateway: Gateway, streamed: bool) -> None:
    turns = run_node("agents.mjs", url=f"{gateway.url}/v1", prompts=PROMPTS, streamed=streamed)

    check_turns([turn["text"] for turn in turns])
