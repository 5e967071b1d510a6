"""The output of a turn that pydantic-ai reads: its stream events as turn events. Pure."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic_ai.messages import (
    FinishReason,
    ModelResponsePart,
    ModelResponseStreamEvent,
    PartDeltaEvent,
    PartEndEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ThinkingPartDelta,
    ToolCallPart,
    ToolCallPartDelta,
)
from pydantic_ai.usage import RequestUsage

from limpet.upstreams.function_names import FunctionNames
from limpet.upstreams.item_events import Message, Reasoning
from limpet.upstreams.item_writer import Finish, ItemWriter
from limpet.upstreams.key_filter import KeyFilter
from limpet.upstreams.upstream import TurnEvent
from limpet.upstreams.usage import Usage

_FINISHES: Mapping[FinishReason | None, Finish] = {
    "length": "length",
    "content_filter": "content_filter",
    "error": "error",
}
_REFUSAL = -1  # the part of what a model says when it refuses


class ModelEventReader:
    """Reads one model's stream. Text and reasoning end when the next part begins. Arguments as in `ItemWriter`."""

    def __init__(self, *, provider: str, has_shell: bool, names: FunctionNames, keys: KeyFilter) -> None:
        self._writer = ItemWriter(provider=provider, has_shell=has_shell, names=names, keys=keys)
        self._thought: int | None = None  # reasoning that has ended, until the next part begins

    def read(self, event: ModelResponseStreamEvent) -> Iterator[TurnEvent]:
        """What one event says, in order; often nothing."""
        match event:
            case PartStartEvent(index=part, part=begun):
                self._writer.begin_part(part)
                yield from self._end_reasoning(begun)
                yield from self._begin(part, begun)
            case PartDeltaEvent(index=part, delta=TextPartDelta(content_delta=text)):
                yield from self._writer.text(part, text)
            case PartDeltaEvent(index=part, delta=ThinkingPartDelta(content_delta=thought)):
                yield from self._writer.thought(part, thought or "")
            case PartDeltaEvent(index=part, delta=ToolCallPartDelta(args_delta=arguments)):
                yield from self._writer.arguments(part, _as_text(arguments))
            case PartEndEvent(index=part, part=ended):
                if isinstance(ended, ThinkingPart) and ended.provider_name:
                    self._writer.seal(part, made_by=ended.provider_name, id=ended.id, signature=ended.signature)
                if event.next_part_kind is None:
                    return
                if self._writer.has_open(part, Reasoning):
                    self._thought = part
                elif self._writer.has_open(part, Message):
                    yield from self._writer.end_part(part)
            case _:
                return

    def end(
        self,
        *,
        finish: FinishReason | None,
        used: RequestUsage,
        model: str | None,
        details: Mapping[str, Any] | None,
    ) -> Iterator[TurnEvent]:
        """Close what is open and end the turn."""
        if refused := (details or {}).get("refusal"):
            yield from self._writer.text(_REFUSAL, str(refused))
        shown = {"model": model, "service_tier": (details or {}).get("service_tier")}
        yield from self._writer.end(finish=_FINISHES.get(finish, "stop"), usage=_usage(used), response=shown)

    def _end_reasoning(self, following: ModelResponsePart) -> Iterator[TurnEvent]:
        """End the reasoning that stands before a part. Gemini signs at the part that follows; where it showed no thoughts, the signature
        gets an item that shows none either."""
        part, self._thought = self._thought, None
        signature = (getattr(following, "provider_details", None) or {}).get("thought_signature")
        made_by = following.provider_name if signature else None
        if part is not None:
            if signature and made_by:
                self._writer.seal(part, made_by=made_by, signature=signature)
            yield from self._writer.end_part(part)
        elif signature and made_by:
            yield from self._writer.add_sealed(made_by=made_by, signature=signature)

    def _begin(self, part: int, begun: ModelResponsePart) -> Iterator[TurnEvent]:
        match begun:
            case TextPart(content=text):
                yield from self._writer.text(part, text)
            case ThinkingPart(content=thought):
                yield from self._writer.thought(part, thought, even_empty=begun.signature is not None)
            case ToolCallPart(tool_name=name, args=arguments, tool_call_id=call_id):
                yield from self._writer.call(part, name, call_id)
                yield from self._writer.arguments(part, _as_text(arguments))
            case _:
                return


def _usage(used: RequestUsage) -> Usage | None:
    if not used.input_tokens and not used.output_tokens:
        return None
    return Usage.counted(
        given=used.input_tokens,
        answered=used.output_tokens,
        cached=used.cache_read_tokens,
        written=used.cache_write_tokens,
        reasoning=int(used.details.get("reasoning_tokens", 0)),
    )


def _as_text(arguments: str | Mapping[str, Any] | None) -> str:
    if arguments is None:
        return ""
    return arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
