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


def check_client(program: Path, script: str, gateway: Gateway, **env: str) -> None:
    """Its turns, whole and streamed: in one process, since some of these clients take seconds to load."""
    asked = json.dumps({"url": f"{gateway.url}/v1", "prompts": PROMPTS})
    kept = {"PATH": "/usr/bin:/bin", "OPENAI_API_KEY": "none needed", **env}
    whole, streamed = run_json([str(program), str(HERE / "python" / script), asked], env=kept)
    check_turns(whole)
    check_turns(streamed)


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


@pytest.mark.promise("history-brings-its-container-back")
@pytest.mark.parametrize("script", ["agents_client.py", "pydantic_ai_client.py"])
def test_clients_of_our_own_environment(gateway: Gateway, script: str) -> None:
    check_client(Path(sys.executable), script, gateway)


# Not the newest of either: langchain-openai 1.7.4 (by its langchain-core) and litellm from 1.106.3 to 1.109.1 want certifi >= 2026.10.19,
# and the newest that can be installed is 2026.10.18 (23 November 2026). Raise the pins when that is out.
@pytest.mark.promise("history-brings-its-container-back")
def test_langchain(gateway: Gateway) -> None:
    check_client(python_client("langchain-openai==1.7.3"), "langchain_client.py", gateway)


@pytest.mark.promise("history-brings-its-container-back")
def test_litellm(gateway: Gateway, tmp_path: Path) -> None:
    program = python_client("litellm==1.106.2", "mcp==2.3.0")  # its Responses interface imports mcp
    env = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "HOME": str(tmp_path)}
    check_client(program, "litellm_client.py", gateway, **env)
