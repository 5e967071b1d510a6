"""A provider that speaks Anthropic's Messages API, by script. Anthropic's client accepts it in strict mode."""

import json
from collections.abc import Iterator
from typing import Any

from tests.support.providers.server import Request, ScriptedServer, frame
from tests.support.providers.turns import FunctionCall, Raw, Reasoning, Refuse, Reply, Said, Text, pieces

MODEL = "claude-scripted-1"
KINDS = {400: "invalid_request_error", 401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error"}


class ScriptedAnthropic(ScriptedServer):
    """`POST {base_url}/v1/messages`, streaming. A reply that `ends` failed ends with stop_reason refusal; reasoning is thinking with
    its signature, or redacted where it has no text."""

    path = "/v1/messages"
    prefix = ""

    def frames(self, request: Request, reply: Reply) -> Iterator[bytes]:
        for event in _events(reply, f"msg_{len(self.requests):024d}"):
            yield frame(event, event=event["type"])

    def error_body(self, refusal: Refuse) -> bytes:
        kind = KINDS.get(refusal.status, "api_error")
        error = {"type": refusal.code or kind, "message": refusal.message}
        return json.dumps({"type": "error", "error": error, "request_id": "req_1"}).encode()


def _events(reply: Reply, number: str) -> Iterator[dict[str, Any]]:
    usage = {
        "input_tokens": reply.input_tokens,
        "output_tokens": 1,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
    }
    message: dict[str, Any] = {
        "id": number,
        "type": "message",
        "role": "assistant",
        "model": MODEL,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage,
    }
    yield {"type": "message_start", "message": message}
    yield {"type": "ping"}
    for index, said in enumerate(reply.said):
        if isinstance(said, Raw):
            yield dict(said.event)
            continue
        block, deltas = _block(said)
        yield {"type": "content_block_start", "index": index, "content_block": block}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    if reply.ends == "error":
        yield {"type": "error", "error": {"type": "overloaded_error", "message": "The script broke off."}}
        return
    calls = any(isinstance(said, FunctionCall) for said in reply.said)
    reasons = {"max_output_tokens": "max_tokens", "failed": "refusal"}
    reason = reasons.get(reply.ends, "tool_use" if calls else "end_turn")
    delta = {"stop_reason": reason, "stop_sequence": None}
    yield {"type": "message_delta", "delta": delta, "usage": {"output_tokens": reply.output_tokens}}
    yield {"type": "message_stop"}


def _block(said: Said) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    match said:
        case Text():
            texts = pieces(said.text, said.pieces)
            return {"type": "text", "text": ""}, [{"type": "text_delta", "text": text} for text in texts]
        case Reasoning(text=""):
            return {"type": "redacted_thinking", "data": said.sealed}, []
        case Reasoning():
            deltas = [{"type": "thinking_delta", "thinking": text} for text in pieces(said.text, said.pieces)]
            signature = {"type": "signature_delta", "signature": said.sealed}
            return {"type": "thinking", "thinking": "", "signature": ""}, [*deltas, signature]
        case FunctionCall():
            parts = pieces(said.text, said.pieces)
            block = {"type": "tool_use", "id": said.call_id, "name": said.name, "input": {}}
            return block, [{"type": "input_json_delta", "partial_json": part} for part in parts]
        case _:
            raise TypeError(f"The Messages API has no {type(said).__name__}.")
