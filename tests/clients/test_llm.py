"""`llm`, which offers functions and no shell: its conversation holds over turns, through a provider that speaks chat completions."""

import json
from pathlib import Path

import pytest

from tests.clients.caches import HERE, python_client
from tests.clients.turns import run_json
from tests.support.gateway import Gateway
from tests.support.providers.turns import FunctionCall
from tests.wire.provider import Provider


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_llm_takes_three_turns_with_a_tool_of_its_own(
    gateway: Gateway, chat: Provider, tmp_path: Path, streamed: bool
) -> None:
    program = python_client("llm==0.36")
    model = {"model_id": "chat-llm", "model_name": "chat-llm", "api_base": f"{gateway.url}/v1"}
    configured = [{**model, "responses": True, "supports_tools": True}]
    (tmp_path / "extra-openai-models.yaml").write_text(json.dumps(configured))
    chat.play(
        *(
            said
            for number in (1, 2, 3)
            for said in (FunctionCall("note", {"text": f"note {number}"}, call_id=f"c{number}"), f"Turn {number}.")
        )
    )
    env = {"PATH": "/usr/bin:/bin", "LLM_USER_PATH": str(tmp_path), "HOME": str(tmp_path), "OPENAI_API_KEY": "none"}
    asked = json.dumps({"prompts": ["One.", "Two.", "Three."], "streamed": streamed})

    turns = run_json([str(program), str(HERE / "python/llm_client.py"), asked], env=env, directory=tmp_path)

    assert turns == ["Turn 1.", "Turn 2.", "Turn 3."]
    assert (tmp_path / "notes.txt").read_text() == "note 1\nnote 2\nnote 3\n"
    results = [m["content"] for m in chat.asked[-1]["messages"] if m["role"] == "tool"]
    assert results == ["note 1\n", "note 1\nnote 2\n", "note 1\nnote 2\nnote 3\n"]
    assert [m["role"] for m in chat.asked[-1]["messages"]].count("user") == 3
