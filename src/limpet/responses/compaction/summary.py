"""Asks the conversation's own provider and model for a summary of what a compaction leaves out."""

import json
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

import structlog

from limpet.core import events as ev
from limpet.core.errors import UpstreamError
from limpet.responses.compaction.marker import SUMMARY_CHARACTERS, is_marker, text_of
from limpet.upstreams.upstream import Emit, Turn, TurnEnded, Upstream
from limpet.upstreams.usage import Usage

log = structlog.get_logger()
Json = dict[str, Any]
DEFAULT_PROMPT = (
    "You are given the earlier part of a conversation between a user and an assistant that works with a shell. Write a summary from which "
    "the assistant can go on without it. Keep: what the user wants, in the user's own words where they matter; constraints, preferences "
    "and decisions; paths of files and what is in them; commands that matter and their results; names, numbers and ids; what is done, "
    "what is not, and what was about to be done. Leave out what no longer matters. Answer with the summary alone, as plain text."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """`text` is None where the provider gave none; `usage` is what asking cost."""

    text: str | None
    usage: Usage | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Summariser:
    """One call to `upstream`, without tools. `prompt` None is DEFAULT_PROMPT."""

    upstream: Upstream
    model: str
    prompt: str | None = None

    async def summarise(self, items: Sequence[Json], *, attempt_id: str) -> Summary:
        """Of these items. A provider that fails, or says nothing, gives none; that is logged."""
        turn = Turn(
            model=self.model,
            input=[{"type": "message", "role": "user", "content": rendered(items)}],
            instructions=self.prompt or DEFAULT_PROMPT,
            attempt_id=attempt_id,
        )
        said: list[str] = []
        ended = TurnEnded(status="failed")
        try:
            async with aclosing(self.upstream.stream(turn)) as events:
                async for event in events:
                    if isinstance(event, TurnEnded):
                        ended = event
                    elif isinstance(event, Emit) and event.type == ev.ITEM_DONE:
                        said.append(_said(event.data.get("item")))
        except UpstreamError as problem:
            log.warning("summary_failed", provider=self.upstream.name, reason=problem.message)
            return Summary(text=None)
        text = "\n\n".join(filter(None, said)).strip()[:SUMMARY_CHARACTERS]
        if ended.status == "failed" or not text:
            log.warning("summary_failed", provider=self.upstream.name, reason="it gave no text")
            return Summary(text=None, usage=ended.usage)
        return Summary(text=text, usage=ended.usage)


def rendered(items: Sequence[Mapping[str, Any]]) -> str:
    """The items as a text to read: who said what, and what was called with which result."""
    return "\n\n".join(filter(None, map(_rendered, items)))


def _rendered(item: Mapping[str, Any]) -> str:
    kind = str(item.get("type"))
    if is_marker(item):
        return text_of(item)
    match kind:
        case "message":
            return f"{str(item.get('role')).capitalize()}: {text_of(item)}"
        case "reasoning":
            return ""
        case "shell_call":
            commands = "\n".join((item.get("action") or {}).get("commands") or ())
            return f"Shell command:\n{commands}"
        case "shell_call_output":
            return "\n".join(["Shell output:", *map(_entry, item.get("output") or ())])
        case "function_call" | "custom_tool_call":
            return f"Call of {item.get('name')}: {item.get('arguments') or item.get('input') or ''}"
        case "function_call_output" | "custom_tool_call_output":
            output = item.get("output") or ""
            return f"Result: {output if isinstance(output, str) else text_of({'content': output})}"
        case _:
            known = {key: value for key, value in item.items() if key not in ("id", "status", "encrypted_content")}
            return json.dumps(known, ensure_ascii=False, default=str)


def _entry(entry: Mapping[str, Any]) -> str:
    outcome = entry.get("outcome") or {}
    ended = "timed out" if outcome.get("type") == "timeout" else f"exit code {outcome.get('exit_code')}"
    return "\n".join(filter(None, [f"({ended})", entry.get("stdout"), entry.get("stderr")]))


def _said(item: object) -> str:
    if not isinstance(item, dict) or item.get("type") != "message" or not isinstance(item.get("content"), list):
        return ""
    return "".join(str(part.get("text") or "") for part in item["content"] if isinstance(part, dict))
