"""Amazon Bedrock's Converse API, streamed, by script: `application/vnd.amazon.eventstream`, which boto3 reads."""

import base64
import binascii
import json
import re
import struct
from collections.abc import Iterator
from typing import Any

from tests.support.providers.server import Request, ScriptedServer
from tests.support.providers.turns import FunctionCall, Raw, Reasoning, Refuse, Reply, Said, ShellCall, Text, pieces

_PATH = re.compile(r"/model/[^/]+/converse-stream")
ERRORS = {
    400: "ValidationException",
    403: "AccessDeniedException",
    404: "ResourceNotFoundException",
    429: "ThrottlingException",
}


class ScriptedBedrock(ScriptedServer):
    """`POST {base_url}/model/ID/converse-stream`. A reply that `ends` failed ends with stopReason content_filtered, one that ends in
    an error with an exception event; reasoning without text is redacted."""

    prefix = ""
    content_type = "application/vnd.amazon.eventstream"

    def serves(self, path: str) -> bool:
        return _PATH.fullmatch(path) is not None

    def frames(self, request: Request, reply: Reply) -> Iterator[bytes]:
        for kind, event in _events(reply):
            yield _message(kind, event)

    def error_body(self, refusal: Refuse) -> bytes:
        return json.dumps({"message": refusal.message}).encode()

    def error_headers(self, refusal: Refuse) -> dict[str, str]:
        code = refusal.code or ERRORS.get(refusal.status, "InternalServerException")
        return {"x-amzn-errortype": code, "content-type": "application/json"}


def _events(reply: Reply) -> Iterator[tuple[str, dict[str, Any]]]:
    yield "messageStart", {"role": "assistant"}
    for index, said in enumerate(reply.said):
        if isinstance(said, Raw):
            yield str(said.event["kind"]), dict(said.event["event"])
            continue
        start, deltas = _block(said)
        if start is not None:
            yield "contentBlockStart", {"contentBlockIndex": index, "start": start}
        for delta in deltas:
            yield "contentBlockDelta", {"contentBlockIndex": index, "delta": delta}
        yield "contentBlockStop", {"contentBlockIndex": index}
    if reply.ends == "error":
        yield "modelStreamErrorException", {"message": "The script broke off."}
        return
    calls = any(isinstance(said, FunctionCall) for said in reply.said)
    reasons = {"max_output_tokens": "max_tokens", "failed": "content_filtered"}
    yield "messageStop", {"stopReason": reasons.get(reply.ends, "tool_use" if calls else "end_turn")}
    total = reply.input_tokens + reply.output_tokens
    usage = {"inputTokens": reply.input_tokens, "outputTokens": reply.output_tokens, "totalTokens": total}
    yield "metadata", {"usage": usage, "metrics": {"latencyMs": 5}}


def _block(said: Said) -> tuple[dict[str, Any] | None, list[dict[str, Any]]]:
    match said:
        case Text():
            return None, [{"text": text} for text in pieces(said.text, said.pieces)]
        case Reasoning(text=""):
            return None, [{"reasoningContent": {"redactedContent": base64.b64encode(said.sealed.encode()).decode()}}]
        case Reasoning():
            thoughts = [{"reasoningContent": {"text": text}} for text in pieces(said.text, said.pieces)]
            return None, [*thoughts, {"reasoningContent": {"signature": said.sealed}}]
        case FunctionCall():
            start = {"toolUse": {"toolUseId": said.call_id, "name": said.name}}
            return start, [{"toolUse": {"input": text}} for text in pieces(said.text, said.pieces)]
        case ShellCall() | Raw():
            raise ValueError("Bedrock has no shell tool of its own.")


def _message(kind: str, event: dict[str, Any]) -> bytes:
    """One frame: lengths, their checksum, headers, payload and the checksum of all ("Event stream encoding" of Amazon's manuals)."""
    is_exception = kind.endswith("Exception")
    names = {
        ":message-type": "exception" if is_exception else "event",
        ":exception-type" if is_exception else ":event-type": kind,
        ":content-type": "application/json",
    }
    headers = b"".join(_header(name, value) for name, value in names.items())
    payload = json.dumps(event).encode()
    lengths = struct.pack(">II", len(headers) + len(payload) + 16, len(headers))
    whole = lengths + struct.pack(">I", binascii.crc32(lengths)) + headers + payload
    return whole + struct.pack(">I", binascii.crc32(whole))


def _header(name: str, value: str) -> bytes:
    text = 7  # the type of a header
    return struct.pack(">B", len(name)) + name.encode() + struct.pack(">BH", text, len(value)) + value.encode()
