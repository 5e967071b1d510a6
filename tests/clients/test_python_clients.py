"""Python's clients: three turns each, with files that go from turn to turn. Those that want other versions than the project run in an
environment of their own."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.clients.caches import HERE, python_client
from tests.clients.turns import PROMPTS, check_turns, run_json
from tests.support.gateway import Gateway

STREAMED = pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])


def turns_of(program: Path, script: str, gateway: Gateway, **env: str) -> Any:
    asked = json.dumps({"url": f"{gateway.url}/v1", "prompts": PROMPTS, "streamed": env.pop("streamed") == "yes"})
    kept = {"PATH": "/usr/bin:/bin", "OPENAI_API_KEY": "none needed", **env}
    return run_json([str(program), str(HERE / "python" / script), asked], env=kept)


def yes(streamed: bool) -> str:
    return "yes" if streamed else "no"


@STREAMED
@pytest.mark.parametrize("chained", [True, False], ids=["chain", "history"])
@pytest.mark.promise("history-brings-its-container-back")
def test_openai_python(gateway: Gateway, streamed: bool, chained: bool) -> None:
    client = gateway.client()
    items: list[Any] = []
    texts, before = [], None
    for prompt in PROMPTS:
        said = {"role": "user", "content": prompt}
        asked: dict[str, Any] = {"model": "limpet/script", "tools": [{"type": "shell"}]}
        asked |= {"input": [said]} if chained else {"input": [*items, said]}
        if chained and before:
            asked["previous_response_id"] = before
        if streamed:
            with client.responses.stream(**asked) as stream:
                response: Any = stream.get_final_response()
        else:
            response = client.responses.create(**asked)
        before = response.id
        items += [said, *(item.to_dict() for item in response.output)]
        texts.append(response.output_text)

    check_turns(texts)


@STREAMED
@pytest.mark.promise("history-brings-its-container-back")
@pytest.mark.parametrize("script", ["agents_client.py", "pydantic_ai_client.py"])
def test_clients_of_our_own_environment(gateway: Gateway, streamed: bool, script: str) -> None:
    check_turns(turns_of(Path(sys.executable), script, gateway, streamed=yes(streamed)))


@STREAMED
@pytest.mark.promise("history-brings-its-container-back")
def test_langchain(gateway: Gateway, streamed: bool) -> None:
    program = python_client("langchain-openai==1.7.4")
    check_turns(turns_of(program, "langchain_client.py", gateway, streamed=yes(streamed)))


@STREAMED
@pytest.mark.promise("history-brings-its-container-back")
def test_litellm(gateway: Gateway, streamed: bool, tmp_path: Path) -> None:
    program = python_client("litellm==1.109.1", "mcp==2.3.0")  # its Responses interface imports mcp
    env = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "HOME": str(tmp_path)}
    check_turns(turns_of(program, "litellm_client.py", gateway, streamed=yes(streamed), **env))
