"""The output of a translated turn: pydantic-ai's stream events as turn events. Pure."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
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

from limpet.upstreams import shell_function
from limpet.upstreams.endings import ResponseError
from limpet.upstreams.function_names import FunctionNames, custom_input
from limpet.upstreams.item_events import CustomCall, FunctionCall, Message, Reasoning
from limpet.upstreams.key_filter import KeyFilter
from limpet.upstreams.key_pieces import SplitText, TextSequence
from limpet.upstreams.sealing import Seal, sealed
from limpet.upstreams.upstream import CallBegun, CallMade, CommandText, Emit, TurnEnded, TurnEvent
from limpet.upstreams.usage import Usage


@dataclass(slots=True)
class _ShellCall:
    """The function that stands for the shell, being written."""

    index: int
    call_id: str
    writing: shell_function.Writing = field(default_factory=shell_function.Writing)

    def begin(self) -> list[TurnEvent]:
        return [CallBegun(index=self.index, call_id=self.call_id)]

    def delta(self, text: str) -> list[TurnEvent]:
        more = self.writing.feed(text)
        return [CommandText(index=self.index, command_index=at, text=new) for at, new in more]

    def end(self, status: str = "completed") -> list[TurnEvent]:
        written = self.writing.text
        broke_off = status == "incomplete"
        arguments = shell_function.broken_off(written) if broke_off else shell_function.read_arguments(written)
        return [CallMade(index=self.index, call_id=self.call_id, arguments=arguments)]


@dataclass(slots=True)
class _CustomCall:
    """The function that stands for a custom tool, being written: its arguments are read at their end."""

    item: CustomCall
    has_text: bool = False
    _pieces: list[str] = field(default_factory=list)

    def begin(self) -> list[Emit]:
        return self.item.begin()

    def delta(self, text: str) -> list[Emit]:
        self.has_text = True
        self._pieces.append(text)
        return []

    def end(self, status: str = "completed") -> list[Emit]:
        return self.item.end(custom_input("".join(self._pieces)), status)


_Item = Message | Reasoning | FunctionCall | _CustomCall | _ShellCall


class ModelEventReader:
    """Reads one model's stream. Text and reasoning end when the next part begins, calls with the turn, since their arguments may
    arrive mixed.

    `provider` seals reasoning; `has_shell` says that the function `shell` is the shell; `names` are
    the client's tools; `keys` takes the provider's key out of text.
    """

    def __init__(self, *, provider: str, has_shell: bool, names: FunctionNames, keys: KeyFilter) -> None:
        self._provider = provider
        self._has_shell = has_shell
        self._names = names
        self._keys = keys
        self._written = TextSequence(keys)
        self._texts: dict[int, SplitText] = {}  # of what is open, by part
        self._next = 0
        self._open: dict[int, _Item] = {}
        self._last: int | None = None
        self._thought: int | None = None  # reasoning that has ended, until the next part begins

    def read(self, event: ModelResponseStreamEvent) -> Iterator[TurnEvent]:
        """What one event says, in order; often nothing."""
        match event:
            case PartStartEvent(index=part, part=begun):
                self._last = part
                yield from self._end_reasoning(begun)
                yield from self._begin(part, begun)
            case PartDeltaEvent(index=part, delta=TextPartDelta(content_delta=text)):
                yield from self._write(part, Message, text)
            case PartDeltaEvent(index=part, delta=ThinkingPartDelta(content_delta=thought)):
                yield from self._write(part, Reasoning, thought or "")
            case PartDeltaEvent(index=part, delta=ToolCallPartDelta(args_delta=arguments)):
                if part in self._open:
                    yield from self._more(part, _as_text(arguments))
            case PartEndEvent(index=part, part=ended):
                self._seal(part, ended)
                if event.next_part_kind is None:
                    return
                if isinstance(self._open.get(part), Reasoning):
                    self._thought = part
                elif isinstance(self._open.get(part), Message):
                    yield from self._rest(part)
                    yield from self._open.pop(part).end()
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
        """Close what is open and end the turn. What was being written when the length ran out is incomplete."""
        if refused := (details or {}).get("refusal"):
            yield from self._write(-1, Message, str(refused))
        for part, item in sorted(self._open.items()):
            yield from self._rest(part)
            if isinstance(item, FunctionCall) and not item.has_text:
                yield from item.delta("{}")
            cut = finish == "length" and part == self._last
            yield from item.end("incomplete" if cut else "completed")
        yield self._ended(finish, used, model, details or {})

    def _end_reasoning(self, following: ModelResponsePart) -> Iterator[TurnEvent]:
        """End the reasoning that stands before a part. Gemini signs at the part that follows; where it showed no thoughts, the signature
        gets an item that shows none either."""
        part, self._thought = self._thought, None
        signature = (getattr(following, "provider_details", None) or {}).get("thought_signature")
        item = self._open.pop(part) if part is not None else None
        if part is not None and isinstance(item, Reasoning):
            if rest := self._text_of(part).end():
                yield from item.delta(rest)
        elif signature:
            item = Reasoning(self._take())
            yield from item.begin()
        if isinstance(item, Reasoning):
            if signature and following.provider_name:
                seal = Seal(provider=self._provider, made_by=following.provider_name, signature=signature)
                item.sealed = sealed(seal)
            yield from item.end()

    def _begin(self, part: int, begun: ModelResponsePart) -> Iterator[TurnEvent]:
        match begun:
            case TextPart(content=text):
                yield from self._write(part, Message, text)
            case ThinkingPart(content=thought):
                yield from self._write(part, Reasoning, thought, even_empty=begun.signature is not None)
            case ToolCallPart(tool_name=name, args=arguments, tool_call_id=call_id):
                item = self._open[part] = self._call(self._keys.hide_in(name), self._keys.hide_in(call_id))
                yield from item.begin()
                yield from self._more(part, _as_text(arguments))
            case _:
                return

    def _call(self, function: str, call_id: str) -> _ShellCall | FunctionCall | _CustomCall:
        if self._has_shell and function == shell_function.NAME:
            return _ShellCall(self._take(), call_id)
        tool = self._names.tool(function)
        if tool is None:
            return FunctionCall(self._take(), function, call_id)
        if tool.is_custom:
            return _CustomCall(CustomCall(self._take(), tool.name, call_id, tool.namespace))
        return FunctionCall(self._take(), tool.name, call_id, tool.namespace)

    def _write(
        self, part: int, kind: type[Message] | type[Reasoning], text: str, *, even_empty: bool = False
    ) -> Iterator[TurnEvent]:
        """More text of a part; its item begins with the first text, so that there are no empty ones."""
        item = self._open.get(part)
        if item is None:
            if not text and not even_empty:
                return
            item = self._open[part] = kind(self._take())
            yield from item.begin()
        yield from self._more(part, text)

    def _more(self, part: int, text: str) -> Iterator[TurnEvent]:
        if text and (shown := self._text_of(part).feed(text)):
            yield from self._open[part].delta(shown)

    def _rest(self, part: int) -> Iterator[TurnEvent]:
        """What waited because the key might begin there: its item ends."""
        if rest := self._text_of(part).end():
            yield from self._open[part].delta(rest)

    def _text_of(self, part: int) -> SplitText:
        found = self._texts.get(part)
        if found is None:
            found = self._texts[part] = self._written.text()
        return found

    def _seal(self, part: int, ended: ModelResponsePart) -> None:
        item = self._open.get(part)
        if isinstance(item, Reasoning) and isinstance(ended, ThinkingPart) and ended.provider_name:
            seal = Seal(provider=self._provider, made_by=ended.provider_name, id=ended.id, signature=ended.signature)
            item.sealed = sealed(seal)

    def _take(self) -> int:
        self._next += 1
        return self._next - 1

    def _ended(
        self, finish: FinishReason | None, used: RequestUsage, model: str | None, details: Mapping[str, Any]
    ) -> TurnEnded:
        shown = {"model": model, "service_tier": details.get("service_tier")}
        response = {name: self._keys.hide(value) for name, value in shown.items() if value}
        total = _usage(used)
        match finish:
            case "length":
                return TurnEnded(
                    status="incomplete", usage=total, incomplete_reason="max_output_tokens", response=response
                )
            case "content_filter":
                return TurnEnded(
                    status="incomplete", usage=total, incomplete_reason="content_filter", response=response
                )
            case "error":
                error = ResponseError(code="server_error", message="The provider ended the answer with an error.")
                return TurnEnded(status="failed", usage=total, error=error, response=response)
            case _:
                return TurnEnded(status="completed", usage=total, response=response)


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
