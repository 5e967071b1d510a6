"""A provider that speaks chat completions, by script. OpenAI's client accepts it in strict mode; reasoning is sent as vLLM does."""

from collections.abc import Iterator
from typing import Any

from tests.support.providers.server import Request, ScriptedServer, frame
from tests.support.providers.turns import FunctionCall, Raw, Reasoning, Reply, Text, pieces

MODEL = "chat-scripted-1"
FINISH = {"max_output_tokens": "length", "failed": "content_filter"}


class ScriptedChat(ScriptedServer):
    """`POST {base_url}/chat/completions`, streaming. A reply that `ends` failed ends with finish_reason content_filter."""

    path = "/chat/completions"

    def frames(self, request: Request, reply: Reply) -> Iterator[bytes]:
        for event in _chunks(reply, f"chatcmpl-{len(self.requests)}"):
            yield frame(event)
        yield b"data: [DONE]\n\n"


def _chunks(reply: Reply, number: str) -> Iterator[dict[str, Any]]:
    head = {"id": number, "object": "chat.completion.chunk", "created": 1771008375, "model": MODEL}

    def chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
        return {**head, "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}]}

    yield chunk({"role": "assistant", "content": ""})
    calls = 0
    for said in reply.said:
        match said:
            case Text():
                for piece in pieces(said.text, said.pieces):
                    yield chunk({"content": piece})
            case Reasoning():
                for piece in pieces(said.text, said.pieces):
                    yield chunk({"reasoning_content": piece})
            case FunctionCall():
                for delta in _call(said, calls):
                    yield chunk({"tool_calls": [delta]})
                calls += 1
            case Raw(event):
                yield dict(event)
            case _:
                raise TypeError(f"Chat completions have no {type(said).__name__}.")
    if reply.ends == "error":
        yield {"error": {"message": "The script broke off.", "type": "server_error", "param": None, "code": None}}
        return
    yield chunk({}, FINISH.get(reply.ends, "tool_calls" if calls else "stop"))
    usage = {
        "prompt_tokens": reply.input_tokens,
        "completion_tokens": reply.output_tokens,
        "total_tokens": reply.input_tokens + reply.output_tokens,
    }
    yield {**head, "choices": [], "usage": usage}


def _call(said: FunctionCall, index: int) -> Iterator[dict[str, Any]]:
    function = {"name": said.name, "arguments": ""}
    yield {"index": index, "id": said.call_id, "type": "function", "function": function}
    for piece in pieces(said.text, said.pieces):
        yield {"index": index, "function": {"arguments": piece}}
