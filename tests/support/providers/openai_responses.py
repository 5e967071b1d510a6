"""A provider that speaks OpenAI's Responses API, with a shell tool of its own, by script. The official client accepts it in strict mode."""

import json
from collections.abc import Iterator
from typing import Any

from tests.support.providers.server import Request, ScriptedServer, frame
from tests.support.providers.turns import FunctionCall, Raw, Reasoning, Reply, Said, ShellCall, Text, pieces

MODEL = "gpt-scripted-2026-01-01"


class ScriptedResponses(ScriptedServer):
    """`POST {base_url}/responses`, streaming. Ids have OpenAI's length, so that they are never taken for the gateway's own."""

    path = "/responses"

    def frames(self, request: Request, reply: Reply) -> Iterator[bytes]:
        for number, event in enumerate(_events(request.body, reply, f"{len(self.requests):050x}")):
            yield frame({**event, "sequence_number": number}, event=event["type"])


def _events(body: dict[str, Any], reply: Reply, number: str) -> Iterator[dict[str, Any]]:
    response = _response(body, number)
    yield {"type": "response.created", "response": response}
    yield {"type": "response.in_progress", "response": response}
    output: list[dict[str, Any]] = []
    for said in reply.said:
        if isinstance(said, Raw):
            yield dict(said.event)
            continue
        for event in _item(said, len(output), f"{len(output):02x}{number[2:]}"):
            yield event
        output.append(event["item"])
    if reply.ends == "error":
        yield {"type": "error", "code": "server_error", "message": "The script broke off.", "param": None}
        return
    details = {"reason": reply.ends} if reply.ends == "max_output_tokens" else None
    failed = {"code": "server_error", "message": "The script failed."} if reply.ends == "failed" else None
    status = {"max_output_tokens": "incomplete"}.get(reply.ends, reply.ends)
    ended = response | {
        "status": status,
        "output": output,
        "incomplete_details": details,
        "error": failed,
        "completed_at": 1771008380 if status == "completed" else None,
        "usage": {
            "input_tokens": reply.input_tokens,
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens": reply.output_tokens,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": reply.input_tokens + reply.output_tokens,
        },
    }
    yield {"type": f"response.{status}", "response": ended}


def _item(said: Said, index: int, number: str) -> Iterator[dict[str, Any]]:
    match said:
        case Text():
            return _message(said, index, f"msg_{number}")
        case Reasoning():
            return _reasoning(said, index, f"rs_{number}")
        case FunctionCall():
            return _function_call(said, index, f"fc_{number}")
        case ShellCall():
            return _shell_call(said, index, f"sh_{number}")
        case Raw():
            return iter(())


def _message(said: Text, index: int, item_id: str) -> Iterator[dict[str, Any]]:
    place = {"item_id": item_id, "output_index": index, "content_index": 0}
    item = {"id": item_id, "type": "message", "status": "in_progress", "content": [], "role": "assistant"}
    part = {"type": "output_text", "annotations": [], "logprobs": [], "text": said.text}
    yield {"type": "response.output_item.added", "output_index": index, "item": item}
    yield {"type": "response.content_part.added", **place, "part": part | {"text": ""}}
    for piece in pieces(said.text, said.pieces):
        yield {"type": "response.output_text.delta", **place, "delta": piece, "logprobs": [], "obfuscation": "x7"}
    yield {"type": "response.output_text.done", **place, "text": said.text, "logprobs": []}
    yield {"type": "response.content_part.done", **place, "part": part}
    done = item | {"status": "completed", "content": [part]}
    yield {"type": "response.output_item.done", "output_index": index, "item": done}


def _reasoning(said: Reasoning, index: int, item_id: str) -> Iterator[dict[str, Any]]:
    place = {"item_id": item_id, "output_index": index, "summary_index": 0}
    item = {"id": item_id, "type": "reasoning", "summary": [], "encrypted_content": ""}
    part = {"type": "summary_text", "text": said.text}
    yield {"type": "response.output_item.added", "output_index": index, "item": item}
    yield {"type": "response.reasoning_summary_part.added", **place, "part": part | {"text": ""}}
    for piece in pieces(said.text, said.pieces):
        yield {"type": "response.reasoning_summary_text.delta", **place, "delta": piece}
    yield {"type": "response.reasoning_summary_text.done", **place, "text": said.text}
    yield {"type": "response.reasoning_summary_part.done", **place, "part": part}
    done = item | {"summary": [part], "encrypted_content": said.sealed}
    yield {"type": "response.output_item.done", "output_index": index, "item": done}


def _function_call(said: FunctionCall, index: int, item_id: str) -> Iterator[dict[str, Any]]:
    place = {"item_id": item_id, "output_index": index}
    item = {
        "id": item_id,
        "type": "function_call",
        "status": "in_progress",
        "arguments": "",
        "call_id": said.call_id,
        "name": said.name,
    }
    yield {"type": "response.output_item.added", "output_index": index, "item": item}
    for piece in pieces(said.text, said.pieces):
        yield {"type": "response.function_call_arguments.delta", **place, "delta": piece}
    yield {"type": "response.function_call_arguments.done", **place, "name": said.name, "arguments": said.text}
    done = item | {"status": "completed", "arguments": said.text}
    yield {"type": "response.output_item.done", "output_index": index, "item": done}


def _shell_call(said: ShellCall, index: int, item_id: str) -> Iterator[dict[str, Any]]:
    action: dict[str, Any] = {
        "commands": [],
        "timeout_ms": said.timeout_ms,
        "max_output_length": said.max_output_length,
    }
    item = {
        "id": item_id,
        "type": "shell_call",
        "status": "in_progress",
        "action": action,
        "call_id": said.call_id,
        "environment": {"type": "local"},
    }
    yield {"type": "response.output_item.added", "output_index": index, "item": item}
    for at, command in enumerate(said.commands if said.style == "events" else ()):
        place = {"output_index": index, "command_index": at}
        yield {"type": "response.shell_call_command.added", **place, "command": ""}
        for piece in pieces(command, 3):
            yield {"type": "response.shell_call_command.delta", **place, "delta": piece, "obfuscation": "q"}
        yield {"type": "response.shell_call_command.done", **place, "command": command}
    done = item | {"status": said.status, "action": action | {"commands": list(said.commands)}}
    yield {"type": "response.output_item.done", "output_index": index, "item": done}


def _response(body: dict[str, Any], number: str) -> dict[str, Any]:
    return {
        "id": f"resp_{number}",
        "object": "response",
        "created_at": 1771008375,
        "status": "in_progress",
        "background": False,
        "completed_at": None,
        "error": None,
        "frequency_penalty": 0,
        "incomplete_details": None,
        "instructions": body.get("instructions"),
        "max_output_tokens": body.get("max_output_tokens"),
        "max_tool_calls": None,
        "model": MODEL,
        "output": [],
        "parallel_tool_calls": body.get("parallel_tool_calls", True),
        "presence_penalty": 0,
        "previous_response_id": None,
        "prompt_cache_key": None,
        "reasoning": {"effort": "none", "summary": None},
        "safety_identifier": None,
        "service_tier": "default",
        "store": body.get("store", True),
        "temperature": body.get("temperature", 1),
        "text": {"format": {"type": "text"}, "verbosity": "medium"},
        "tool_choice": body.get("tool_choice", "auto"),
        "tools": json.loads(json.dumps(body.get("tools", []))),
        "top_logprobs": 0,
        "top_p": 0.98,
        "truncation": "disabled",
        "usage": None,
        "metadata": body.get("metadata") or {},
    }
