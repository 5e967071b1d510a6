import base64
import json
from typing import Any

import pytest
from pydantic_ai.messages import (
    BinaryContent,
    ImageUrl,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from limpet.core.errors import UpstreamRefused
from limpet.upstreams.function_names import FunctionNames
from limpet.upstreams.history import messages_of
from limpet.upstreams.sealing import Seal, opened, sealed

SEAL = Seal(provider="acme", made_by="anthropic", id=None, signature="SIG")
CALL = {
    "type": "shell_call",
    "call_id": "call_1",
    "action": {"commands": ["ls"], "timeout_ms": 5, "max_output_length": None},
}
OUTPUT = {
    "type": "shell_call_output",
    "call_id": "call_1",
    "output": [{"stdout": "a\n", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}],
}


def told(*items: dict[str, Any], instructions: str | None = None, plain_ids: bool = False) -> list[list[object]]:
    """The parts of each message, as comparable values."""
    messages = messages_of(
        items, provider="acme", functions=FunctionNames(()), instructions=instructions, plain_ids=plain_ids
    )
    return [[_value(part) for part in message.parts] for message in messages]


def _value(part: object) -> object:
    match part:
        case SystemPromptPart(content=text):
            return "system", text
        case UserPromptPart(content=content):
            return "user", content
        case TextPart(content=text):
            return "text", text
        case ThinkingPart(content=text, signature=signature, provider_name=made_by):
            return "thinking", text, signature, made_by
        case ToolCallPart(tool_name=name, args=arguments, tool_call_id=call_id):
            return "call", name, json.loads(str(arguments)), call_id
        case ToolReturnPart(tool_name=name, content=text, tool_call_id=call_id):
            return "return", name, text, call_id
        case _:
            return part


def user(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"type": "message", "role": "user", "content": list(parts)}


def data_url(kind: str, data: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


def test_a_conversation_keeps_its_order_and_each_sides_items_stand_together() -> None:
    reasoning = {
        "type": "reasoning",
        "summary": [{"type": "summary_text", "text": "hm"}],
        "encrypted_content": sealed(SEAL),
    }
    answer = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "look"}]}
    function = {"type": "function_call", "call_id": "call_2", "name": "weather", "arguments": '{"a": 1}'}
    result = {"type": "function_call_output", "call_id": "call_2", "output": "sunny"}
    question = {"role": "user", "content": "hello"}
    assert told(
        {"role": "developer", "content": "dev"},
        question,
        reasoning,
        answer,
        CALL,
        function,
        OUTPUT,
        result,
        question,
        instructions="be brief",
    ) == [
        [("system", "be brief"), ("system", "dev"), ("user", ["hello"])],
        [
            ("thinking", "hm", "SIG", "anthropic"),
            ("text", "look"),
            ("call", "shell", {"commands": ["ls"], "timeout_ms": 5}, "call_1"),
            ("call", "weather", {"a": 1}, "call_2"),
        ],
        [
            ("return", "shell", "exit code: 0\nstdout:\na", "call_1"),
            ("return", "weather", "sunny", "call_2"),
            ("user", ["hello"]),
        ],
    ]


def test_messages_alternate_between_the_two_sides() -> None:
    messages: list[type[ModelMessage]] = [
        type(message)
        for message in messages_of(
            [CALL, OUTPUT, CALL], provider="acme", functions=FunctionNames(()), instructions=None
        )
    ]
    assert messages == [ModelResponse, ModelRequest, ModelResponse]


@pytest.mark.parametrize(
    "content", [None, "", "gAAAAA-openai-sealed", sealed(Seal(provider="other", made_by="anthropic", signature="SIG"))]
)
def test_reasoning_that_another_provider_sealed_is_left_out(content: str | None) -> None:
    assert told({"type": "reasoning", "summary": [], "encrypted_content": content}) == []


def test_a_seal_opens_only_for_its_own_provider() -> None:
    assert opened(sealed(SEAL), provider="acme") == SEAL
    assert opened(sealed(SEAL), provider="other") is None


def test_images_files_and_texts_reach_the_model() -> None:
    shown = user(
        {"type": "input_text", "text": "look"},
        {"type": "input_image", "image_url": "https://example.com/a.png"},
        {"type": "input_image", "image_url": data_url("image/png", b"png")},
        {"type": "input_file", "filename": "a.pdf", "file_data": data_url("application/pdf", b"pdf")},
        {"type": "input_file", "filename": "a b.txt", "file_data": base64.b64encode(b"hello").decode()},
        {"type": "input_file", "filename": "a.zip", "file_data": data_url("application/zip", b"zip")},
    )
    ((user_part,),) = told(shown)
    assert user_part == (
        "user",
        [
            "look",
            ImageUrl(url="https://example.com/a.png"),
            BinaryContent(data=b"png", media_type="image/png"),
            BinaryContent(data=b"pdf", media_type="application/pdf"),
            '<file name="a b.txt">\nhello\n</file>',
            '(The file "a.zip", application/zip, 3 bytes, cannot be shown to this model.)',
        ],
    )


def test_what_a_function_gave_beside_text_follows_its_text() -> None:
    image = {"type": "input_image", "image_url": data_url("image/png", b"png")}
    output = {"type": "function_call_output", "call_id": "c", "output": [{"type": "input_text", "text": "see"}, image]}
    assert told(output) == [
        [("return", "unknown", "see", "c"), ("user", [BinaryContent(data=b"png", media_type="image/png")])]
    ]


def test_ids_of_another_provider_are_made_plain_only_where_that_is_needed() -> None:
    call, output = CALL | {"call_id": "functions.shell:0"}, OUTPUT | {"call_id": "functions.shell:0"}
    plain, kept = told(call, output, plain_ids=True), told(call, output)
    assert [message[0][-1] for message in plain] == ["functions_shell_0"] * 2  # type: ignore[index]
    assert [message[0][-1] for message in kept] == ["functions.shell:0"] * 2  # type: ignore[index]


@pytest.mark.parametrize(
    "item, named",
    [
        ({"type": "mcp_call"}, "items of type 'mcp_call'"),
        ({"type": "acme:thing"}, "items of type 'acme:thing'"),
        (user({"type": "input_audio"}), "content of type 'input_audio'"),
        (user({"type": "input_image", "file_id": "file-1"}), "images by file_id"),
        (user({"type": "input_file", "file_url": "https://example.com/x"}), "files by file_id or file_url"),
        (user({"type": "input_file", "file_data": "%%%"}), "file_data that is not base64"),
        (
            {"role": "developer", "content": [{"type": "input_image", "image_url": "x"}]},
            "content of type 'input_image'",
        ),
    ],
)
def test_what_has_no_translation_is_refused_by_name(item: dict[str, Any], named: str) -> None:
    with pytest.raises(UpstreamRefused) as refused:
        told(item)
    assert named in str(refused.value)
    assert (refused.value.status, refused.value.code, refused.value.param) == (400, "unsupported_input", "input")
