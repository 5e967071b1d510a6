"""One whole turn with the shell, as the official client sees it."""

import json

import openai
import pytest

from tests.support.gateway import Gateway
from tests.wire.order import check_event_order
from tests.wire.schema import check_events, check_required_keys, check_response

SHELL = [{"type": "shell"}]


def shell_block(*commands: str) -> str:
    """A prompt for the built-in model: one fenced block, hence one shell call, for each command."""
    return "\n".join(f"```sh\n{command}\n```" for command in commands)


def raw_events(gateway: Gateway, **body: object) -> list[dict]:
    """The events of a streamed request, as they stand on the wire."""
    events = []
    with gateway.http() as http, http.stream("POST", "/v1/responses", json={"stream": True, **body}) as answer:
        assert answer.status_code == 200, answer.read()
        for line in answer.iter_lines():
            if line.startswith("data: {"):
                events.append(json.loads(line[6:]))
    return events


@pytest.mark.promise(
    "responses-request-runs-commands-in-a-container",
    "shell-call-follows-the-item-lifecycle",
    "hadrian-call-is-done-before-its-output",
    "wire-format-is-openais",
)
def test_a_streamed_turn_is_openais_to_the_letter(gateway: Gateway) -> None:
    prompt = shell_block("echo one; echo two >&2; echo three > three.txt", "cat three.txt; exit 4")

    events = raw_events(gateway, model="limpet/script", input=prompt, tools=SHELL)

    check_events(events)
    check_event_order(events)
    final = events[-1]["response"]
    check_response(final)
    check_required_keys(final)
    kinds = [item["type"] for item in final["output"]]
    assert kinds == ["shell_call", "shell_call_output", "shell_call", "shell_call_output", "message"]
    first, second = (item["output"] for item in final["output"] if item["type"] == "shell_call_output")
    assert first == [{"stdout": "one\n", "stderr": "two\n", "outcome": {"type": "exit", "exit_code": 0}}]
    assert second == [{"stdout": "three\n", "stderr": "", "outcome": {"type": "exit", "exit_code": 4}}]


def test_the_official_client_reads_the_whole_response(client: openai.OpenAI) -> None:
    response = client.responses.create(model="limpet/script", input=shell_block("echo hello"), tools=SHELL)

    assert response.status == "completed"
    assert [item.type for item in response.output] == ["shell_call", "shell_call_output", "message"]
    assert response.output[1].output[0].stdout == "hello\n"
    assert "exit code 0" in response.output_text
    assert client.responses.retrieve(response.id) == response


def test_the_official_clients_stream_helper_follows_every_event(client: openai.OpenAI) -> None:
    with client.responses.stream(model="limpet/script", input=shell_block("echo hello"), tools=SHELL) as stream:
        kinds = [event.type for event in stream]
        final = stream.get_final_response()

    assert "response.shell_call_output_content.delta" in kinds
    assert kinds[-1] == "response.completed"
    assert final.output_text.startswith("I ran")
