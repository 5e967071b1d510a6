"""Shell output that a client sends back is cut for the model as the gateway's own is."""

from typing import Any

import pytest

from tests.support.gateway import Gateway
from tests.wire.asking import SHELL
from tests.wire.provider import MODEL, Provider

LONG = "".join(f"{n}\n" for n in range(1, 20_001))
USER = {"type": "message", "role": "user", "content": "go"}


def call(call_id: str, **more: Any) -> dict[str, Any]:
    return {"type": "shell_call", "call_id": call_id, "action": {"commands": ["seq 1 20000"]}, **more}


def output(call_id: str, **more: Any) -> dict[str, Any]:
    entry = {"stdout": LONG, "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}
    return {"type": "shell_call_output", "call_id": call_id, "output": [entry], **more}


def shown(told: list[dict[str, Any]]) -> str:
    (entry,) = told
    head, _, rest = entry["stdout"].partition("\n... [")
    tail = rest.partition("] ...\n")[2]
    assert (LONG.startswith(head), LONG.endswith(tail)) == (True, True)
    return head + tail


@pytest.mark.promise("history-sent-back-is-trimmed-for-the-model")
def test_shell_output_of_an_earlier_turn_that_the_input_brings_is_cut_to_head_and_tail(
    provider: Provider, scripted_gateway: Gateway
) -> None:
    provider.play("Done.", "Again.", "Once more.")
    with scripted_gateway.client() as client:
        first = client.responses.create(model=MODEL, input=[USER, call("c1"), output("c1"), USER], tools=SHELL)
        assert len(shown(provider.told())) == 8000
        client.responses.create(model=MODEL, input="go on", previous_response_id=first.id, tools=SHELL)
        assert len(shown(provider.told())) == 8000
        longer = [USER, call("c2"), output("c2", max_output_length=9_000), USER]
        client.responses.create(model=MODEL, input=longer, tools=SHELL)
        assert len(shown(provider.told())) == 9000


@pytest.mark.promise("history-sent-back-is-trimmed-for-the-model")
def test_what_the_clients_own_shell_printed_stays_as_the_client_sends_it(
    provider: Provider, scripted_gateway: Gateway
) -> None:
    provider.play("Done.")
    local = {"type": "local"}
    with scripted_gateway.client() as client:
        client.responses.create(
            model=MODEL,
            input=[USER, call("c1", environment=local), output("c1")],
            tools=[{"type": "shell", "environment": local}],
        )
    assert [entry["stdout"] for entry in provider.told()] == [LONG]
