import json
from typing import Any

import pytest

from limpet.core.errors import UpstreamRefused
from limpet.core.ids import new_id
from limpet.upstreams.relay_request import request_body
from limpet.upstreams.upstream import ShellOffer, Turn
from tests.wire.schema import check_create_response

SHELL = ShellOffer(description="a shell that stays")
CLIENT_TOOL = {
    "type": "function",
    "name": "weather",
    "description": "The weather.",
    "parameters": {"type": "object", "properties": {}},
    "strict": False,
}
OUR_CONTAINER = new_id("cntr")
CALL = {
    "id": new_id("sh"),
    "type": "shell_call",
    "call_id": "call_1",
    "status": "completed",
    "action": {"commands": ["ls", "pwd"], "timeout_ms": 5000, "max_output_length": None},
    "environment": {"type": "container_reference", "container_id": OUR_CONTAINER},
}
OUTPUT = {
    "id": new_id("sho"),
    "type": "shell_call_output",
    "call_id": "call_1",
    "status": "completed",
    "max_output_length": None,
    "output": [
        {"stdout": "a\n", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}, "truncated": True},
        {"stdout": "", "stderr": "", "outcome": {"type": "timeout"}},
    ],
    "output_files": [{"path": "/mnt/data/a", "bytes": 2}],
}
OUR_CITATION = {
    "type": "container_file_citation",
    "container_id": OUR_CONTAINER,
    "file_id": new_id("cfile"),
    "filename": "a",
    "start_index": 0,
    "end_index": 1,
}
THEIR_CITATION = {"type": "url_citation", "url": "https://example.com", "title": "t", "start_index": 0, "end_index": 1}
ANSWER = {
    "id": "msg_1",
    "type": "message",
    "status": "completed",
    "role": "assistant",
    "content": [
        {"type": "output_text", "text": "a", "annotations": [OUR_CITATION, THEIR_CITATION], "logprobs": []},
        {"type": "output_text", "text": "b", "annotations": [], "logprobs": []},
    ],
}
QUESTION = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hello"}]}
REASONING = {"id": "rs_" + "0" * 50, "type": "reasoning", "summary": [], "encrypted_content": "sealed"}
FOREIGN_REASONING = {"id": new_id("rs"), "type": "reasoning", "summary": [], "encrypted_content": "signature"}
BARE_REASONING = {"id": "rs_" + "1" * 50, "type": "reasoning", "summary": []}


def body(turn: Turn, *, native: bool = True) -> dict[str, Any]:
    sent = request_body(turn, native_shell=native, provider="openai")
    check_create_response(sent)
    return sent


def test_a_native_provider_gets_its_own_shell_tool_in_front_and_keeps_nothing() -> None:
    turn = Turn(model="gpt-5", input=[QUESTION], instructions="Be brief.", tools=[CLIENT_TOOL], shell=SHELL)
    assert body(turn) == {
        "model": "gpt-5",
        "instructions": "Be brief.",
        "input": [QUESTION],
        "tools": [{"type": "shell", "environment": {"type": "local"}}, CLIENT_TOOL],
        "stream": True,
        "store": False,
        "include": ["reasoning.encrypted_content"],
    }


def test_the_whole_history_goes_out_without_what_is_ours() -> None:
    items: list[dict[str, Any]] = [
        QUESTION,
        REASONING,
        FOREIGN_REASONING,
        BARE_REASONING,
        CALL,
        OUTPUT,
        ANSWER,
        QUESTION,
    ]
    sent = body(Turn(model="m", input=items, shell=SHELL))["input"]
    call = {
        "type": "shell_call",
        "call_id": "call_1",
        "action": {"commands": ["ls", "pwd"], "timeout_ms": 5000, "max_output_length": None},
        "environment": {"type": "local"},
    }
    output = {
        "type": "shell_call_output",
        "call_id": "call_1",
        "output": [
            {"stdout": "a\n", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}},
            {"stdout": "", "stderr": "", "outcome": {"type": "timeout"}},
        ],
    }
    answer = json.loads(json.dumps(ANSWER))
    answer["content"][0]["annotations"] = [THEIR_CITATION]
    assert sent == [QUESTION, REASONING, call, output, answer, QUESTION]


def test_options_pass_but_not_those_that_need_our_own_state() -> None:
    given = {
        "temperature": 0.5,
        "reasoning": {"effort": "low"},
        "metadata": {"a": "b"},
        "include": ["message.output_text.logprobs", "reasoning.encrypted_content"],
        "previous_response_id": "resp_x",
        "conversation": "conv_x",
        "background": True,
        "store": True,
        "stream": False,
    }
    sent = body(Turn(model="m", input=[QUESTION], options=given))
    assert sent == {
        "model": "m",
        "input": [QUESTION],
        "tools": [],
        "temperature": 0.5,
        "reasoning": {"effort": "low"},
        "metadata": {"a": "b"},
        "include": ["message.output_text.logprobs", "reasoning.encrypted_content"],
        "stream": True,
        "store": False,
    }


def test_unknown_items_and_tools_pass_as_they_are() -> None:
    item, tool = {"type": "acme:thing", "x": 1}, {"type": "acme_tool", "y": 2}
    sent = request_body(Turn(model="m", input=[item], tools=[tool]), native_shell=True, provider="p")
    assert (sent["input"], sent["tools"]) == ([item], [tool])


def test_without_a_native_shell_there_is_a_function_and_the_history_speaks_of_it() -> None:
    turn = Turn(
        model="m",
        input=[QUESTION, CALL, OUTPUT],
        tools=[CLIENT_TOOL],
        shell=SHELL,
        options={"tool_choice": {"type": "shell"}},
    )
    sent = body(turn, native=False)
    function, other = sent["tools"]
    assert (function["name"], function["description"], other) == ("shell", "a shell that stays", CLIENT_TOOL)
    assert sent["tool_choice"] == {"type": "function", "name": "shell"}
    _, call, output = sent["input"]
    assert call == {
        "type": "function_call",
        "call_id": "call_1",
        "name": "shell",
        "arguments": '{"commands": ["ls", "pwd"], "timeout_ms": 5000}',
    }
    assert output["type"] == "function_call_output"
    assert output["output"].startswith("[command 1 of 2]\nexit code: 0\nstdout:\na\n")
    assert output["output"].endswith("files written:\n- /mnt/data/a (2 bytes)")


def test_a_choice_among_allowed_tools_names_the_function_too() -> None:
    choice = {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "shell"}, {"type": "function", "name": "f"}]}
    sent = body(Turn(model="m", input=[QUESTION], shell=SHELL, options={"tool_choice": choice}), native=False)
    assert sent["tool_choice"]["tools"] == [{"type": "function", "name": "shell"}, {"type": "function", "name": "f"}]


def test_a_client_function_named_shell_is_refused_only_where_the_name_is_needed() -> None:
    turn = Turn(model="m", input=[QUESTION], tools=[CLIENT_TOOL | {"name": "shell"}], shell=SHELL)
    with pytest.raises(UpstreamRefused, match="Rename the function") as refused:
        request_body(turn, native_shell=False, provider="p")
    assert (refused.value.status, refused.value.code, refused.value.param) == (400, "tool_name_taken", "tools")
    assert len(body(turn)["tools"]) == 2
