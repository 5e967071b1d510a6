"""The scripted providers are what the official clients of their wires take for the real ones."""

import json

import anthropic
import anyio
import openai
import pytest

from tests.support.providers.anthropic import ScriptedAnthropic
from tests.support.providers.openai_chat import ScriptedChat
from tests.support.providers.turns import FunctionCall, Reasoning, Refuse, reply

pytestmark = pytest.mark.anyio
CALL = FunctionCall("shell", {"commands": ["ls"]}, call_id="call_1")
MODEL = "claude-scripted-1"


def chat(server: ScriptedChat) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(
        base_url=server.base_url, api_key="sk-test", max_retries=0, _strict_response_validation=True
    )


def messages(server: ScriptedAnthropic) -> anthropic.AsyncAnthropic:
    return anthropic.AsyncAnthropic(
        base_url=server.base_url, api_key="sk-test", max_retries=0, _strict_response_validation=True
    )


async def test_openais_client_accepts_the_chat_in_strict_mode() -> None:
    with anyio.fail_after(5):
        async with ScriptedChat([reply(Reasoning("hm"), "Hello", CALL)]) as server, chat(server) as client:
            stream = await client.chat.completions.create(
                model="m", messages=[{"role": "user", "content": "hi"}], stream=True
            )
            chunks = [chunk async for chunk in stream]
    deltas = [chunk.choices[0].delta for chunk in chunks if chunk.choices]
    calls = [call for delta in deltas for call in delta.tool_calls or () if call.function]
    assert "".join(delta.content or "" for delta in deltas) == "Hello"
    assert json.loads("".join(call.function.arguments or "" for call in calls if call.function)) == {"commands": ["ls"]}
    assert chunks[-2].choices[0].finish_reason == "tool_calls"
    assert chunks[-1].usage is not None


async def test_openais_client_sees_the_chats_errors() -> None:
    with anyio.fail_after(5):
        async with ScriptedChat([Refuse(429, "Slow."), reply("x", ends="error")]) as server, chat(server) as client:
            with pytest.raises(openai.RateLimitError, match="Slow"):
                await client.chat.completions.create(model="m", messages=[], stream=True)
            stream = await client.chat.completions.create(model="m", messages=[], stream=True)
            with pytest.raises(openai.APIError, match="broke off"):
                _ = [chunk async for chunk in stream]


async def test_anthropics_client_accepts_the_messages_in_strict_mode() -> None:
    said = reply(Reasoning("hm", "SIG"), Reasoning("", "REDACTED"), "Hello", CALL, output_tokens=9)
    with anyio.fail_after(5):
        async with (
            ScriptedAnthropic([said]) as server,
            messages(server) as client,
            client.messages.stream(model=MODEL, max_tokens=10, messages=[{"role": "user", "content": "hi"}]) as stream,
        ):
            message = await stream.get_final_message()
    assert [block.type for block in message.content] == ["thinking", "redacted_thinking", "text", "tool_use"]
    thinking, _, text, call = message.content
    assert (thinking.type, thinking.type == "thinking" and thinking.signature) == ("thinking", "SIG")
    assert text.type == "text"
    assert text.text == "Hello"
    assert call.type == "tool_use"
    assert call.input == {"commands": ["ls"]}
    assert (message.stop_reason, message.usage.output_tokens) == ("tool_use", 9)


async def test_anthropics_client_sees_the_messages_errors() -> None:
    asked = {"model": MODEL, "max_tokens": 10, "messages": [{"role": "user", "content": "hi"}]}
    with anyio.fail_after(5):
        async with (
            ScriptedAnthropic([Refuse(429, "Slow."), reply("x", ends="error")]) as server,
            messages(server) as client,
        ):
            with pytest.raises(anthropic.RateLimitError, match="Slow"):
                await client.messages.create(**asked, stream=True)  # type: ignore[call-overload]
            with pytest.raises(anthropic.APIStatusError, match="broke off"):
                async for _ in await client.messages.create(**asked, stream=True):  # type: ignore[call-overload]
                    pass
