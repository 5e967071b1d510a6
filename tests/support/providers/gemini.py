"""Gemini on Vertex AI, streamed, by script; google-genai accepts it."""

import base64
import json
import re
from collections.abc import Iterator
from typing import Any

from tests.support.providers.server import Request, ScriptedServer, frame
from tests.support.providers.turns import FunctionCall, Raw, Reasoning, Refuse, Reply, Said, ShellCall, Text, pieces

MODEL = "gemini-scripted-1"
_PATH = re.compile(
    r"/v1(?:beta1)?/(?:projects/[^/]+/locations/[^/]+/)?publishers/google/models/[^/:]+:streamGenerateContent"
)
STATUSES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
}


class ScriptedGemini(ScriptedServer):
    """`POST {base_url}/v1beta1/…/publishers/google/models/MODEL:streamGenerateContent?alt=sse`. A reply that `ends` failed ends with
    finishReason SAFETY; the signature of reasoning stands at the part after it, as Gemini does."""

    prefix = ""

    def serves(self, path: str) -> bool:
        return _PATH.fullmatch(path) is not None

    def frames(self, request: Request, reply: Reply) -> Iterator[bytes]:
        for event in _events(reply, f"r{len(self.requests)}"):
            yield frame(event)

    def error_body(self, refusal: Refuse) -> bytes:
        status = refusal.code or STATUSES.get(refusal.status, "INTERNAL")
        return json.dumps({"error": {"code": refusal.status, "message": refusal.message, "status": status}}).encode()


def _events(reply: Reply, number: str) -> Iterator[dict[str, Any]]:
    said = list(reply.said)
    signature: str | None = None
    for each in said:
        if isinstance(each, Raw):
            yield dict(each.event)
            continue
        for part in _parts(each):
            if signature is not None and not isinstance(each, Reasoning):
                part, signature = {**part, "thoughtSignature": signature}, None
            yield _chunk(number, [part])
        if isinstance(each, Reasoning):
            signature = base64.b64encode(each.sealed.encode()).decode()
    if reply.ends == "error":
        yield {"error": {"code": 503, "message": "The script broke off.", "status": "UNAVAILABLE"}}
        return
    reasons = {"max_output_tokens": "MAX_TOKENS", "failed": "SAFETY"}
    total = reply.input_tokens + reply.output_tokens
    last = _chunk(number, [{"text": ""}])
    last["candidates"][0]["finishReason"] = reasons.get(reply.ends, "STOP")
    last["usageMetadata"] = {
        "promptTokenCount": reply.input_tokens,
        "candidatesTokenCount": reply.output_tokens,
        "totalTokenCount": total,
    }
    yield last


def _chunk(number: str, parts: list[dict[str, Any]]) -> dict[str, Any]:
    content = {"role": "model", "parts": parts}
    return {"candidates": [{"content": content, "index": 0}], "modelVersion": MODEL, "responseId": number}


def _parts(said: Said) -> list[dict[str, Any]]:
    match said:
        case Text():
            return [{"text": text} for text in pieces(said.text, said.pieces)]
        case Reasoning():
            return [{"text": text, "thought": True} for text in pieces(said.text, said.pieces)]
        case FunctionCall():
            return [{"functionCall": {"id": said.call_id, "name": said.name, "args": json.loads(said.text)}}]
        case ShellCall() | Raw():
            raise ValueError("Gemini has no shell tool of its own.")
