"""What the chunks of a chat completion mean for a turn. Pure: chunks in, turn events out.

Servers differ: arguments whole or as an object, no index, no id, no name or the same one again, reasoning in a field of either name or
between tags, usage in its own chunk or with every one, no `[DONE]`, or nothing but it at the end. Only the first choice is read.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from limpet.core.ids import CALL, new_id
from limpet.upstreams.answer_reader import StreamedError
from limpet.upstreams.chat_request import IN_TAGS, MADE_BY, REASONING_FIELDS, TAGS
from limpet.upstreams.item_writer import Finish, ItemWriter
from limpet.upstreams.upstream import TurnEvent
from limpet.upstreams.usage import Usage, count_in

_FINISHES: Mapping[str, Finish] = {
    "length": "length",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "content_filter": "content_filter",
    "sensitive": "content_filter",
    "error": "error",
    "abort": "error",
    "insufficient_system_resource": "error",
    "network_error": "error",
}


@dataclass(slots=True)
class _StreamedCall:
    """A call that is being written; it begins when its name is known."""

    call_id: str
    part: int | None = None
    waiting: list[str] = field(default_factory=list)


class ChatEventReader:
    """Reads the chunks of one completion in order. `ended` is set by a reason to finish: what may follow is the usage."""

    def __init__(self, writer: ItemWriter) -> None:
        self._writer = writer
        self._parts = 0
        self._part = -1
        self._field = ""  # what the open part is: `text`, or where its reasoning comes from
        self._has_thought = False  # whether the open part has an item of reasoning
        self._calls: list[_StreamedCall] = []
        self._by_index: dict[int, _StreamedCall] = {}
        self._by_id: dict[str, _StreamedCall] = {}  # the first of each id
        self._finish: Finish = "stop"
        self._usage: Usage | None = None
        self._shown: dict[str, Any] = {}
        self._has_refused = False
        self.has_finished = False

    def read(self, event: dict[str, Any]) -> Iterable[TurnEvent]:
        """What one chunk says, in order; often nothing. Raises StreamedError."""
        if event.get("error") or event.get("object") == "error":
            raise _streamed_error(event.get("error") or event)
        if event.get("usage"):
            self._usage = _usage(event["usage"]) or self._usage
        for name in ("model", "service_tier"):
            if isinstance(value := event.get(name), str):
                self._shown[name] = value
        choice = _first_choice(event.get("choices"))
        if choice is None:
            return ()
        if reason := choice.get("finish_reason"):
            self.has_finished = True
            self._finish = _FINISHES.get(reason, "stop")
        delta = choice.get("delta")
        return self._delta(delta) if delta else ()

    def end(self) -> Iterator[TurnEvent]:
        """Close what is open and end the turn. Raises ValueError for a call whose function was never named."""
        if any(call.part is None for call in self._calls):
            raise ValueError("A call names no function.")
        finish = self._finish
        if self._has_refused:
            finish = "refusal" if finish == "stop" else "content_filter"
        return self._writer.end(finish=finish, usage=self._usage, response=self._shown)

    def _delta(self, delta: Mapping[str, Any]) -> Iterable[TurnEvent]:
        said: list[TurnEvent] = []
        for name in REASONING_FIELDS:
            if isinstance(thought := delta.get(name), str) and thought:
                said += self._thought(name, thought)
                break
        if content := delta.get("content"):
            said += self._content(content if isinstance(content, str) else _joined(content))
        if refusal := delta.get("refusal"):
            self._has_refused = True
            said += self._text(refusal)
        if calls := delta.get("tool_calls"):
            for call in calls:
                said += self._call(call)
        return said

    def _content(self, text: str) -> Iterable[TurnEvent]:
        """Text of the answer; a piece that is a tag and nothing else begins or ends reasoning."""
        if self._field == IN_TAGS:
            return self._end_part() if text.strip() == TAGS[1] else self._thought(IN_TAGS, text)
        if text.strip() == TAGS[0]:
            return self._begin_part(IN_TAGS)
        return self._text(text)

    def _text(self, text: str) -> Iterable[TurnEvent]:
        if self._field == "text":
            return self._writer.text(self._part, text)
        return [*self._begin_part("text"), *self._writer.text(self._part, text)]

    def _thought(self, source: str, text: str) -> Iterable[TurnEvent]:
        if self._field == source and self._has_thought:
            return self._writer.thought(self._part, text)
        ended = () if self._field == source else self._begin_part(source)
        said = [*ended, *self._writer.thought(self._part, text)]
        self._writer.seal(self._part, made_by=MADE_BY, id=source)
        self._has_thought = True
        return said

    def _begin_part(self, source: str) -> Iterable[TurnEvent]:
        ended = [*self._end_part()]
        self._field, self._part, self._has_thought = source, self._next_part(), False
        return ended

    def _end_part(self) -> Iterable[TurnEvent]:
        if not self._field:
            return ()
        self._field = ""
        return self._writer.end_part(self._part)

    def _next_part(self) -> int:
        self._parts += 1
        self._writer.begin_part(self._parts)
        return self._parts

    def _call(self, given: Mapping[str, Any]) -> Iterator[TurnEvent]:
        function = given.get("function") or {}
        name, arguments = function.get("name") or "", _as_text(function.get("arguments"))
        call = self._call_of(given.get("index"), given.get("id") or "", name)
        if call.part is None:
            if not name:
                call.waiting.append(arguments)
                return
            yield from self._end_part()
            call.part = self._next_part()
            yield from self._writer.call(call.part, name, call.call_id)
            arguments = "".join(call.waiting) + arguments
        yield from self._writer.arguments(call.part, arguments)

    def _call_of(self, index: object, call_id: str, name: str) -> _StreamedCall:
        """The call that a piece belongs to. Some servers count no calls, or give every one the same number: then the id tells."""
        if isinstance(index, int):
            known = self._by_index.get(index)
            is_another = call_id and name and known is not None and known.part is not None and known.call_id != call_id
            if known is not None and not is_another:
                return known
        elif self._calls and not name and call_id in ("", self._calls[-1].call_id):
            return self._calls[-1]
        elif call_id in self._by_id:
            return self._by_id[call_id]
        call = _StreamedCall(call_id or new_id(CALL))
        self._calls.append(call)
        self._by_id.setdefault(call.call_id, call)
        self._writer.check_count(len(self._calls))
        if isinstance(index, int):
            self._by_index[index] = call
        return call


def _streamed_error(error: object) -> StreamedError:
    """Some servers give the status as the code."""
    code = error.get("code") if isinstance(error, Mapping) else None
    return StreamedError(error, status=code if isinstance(code, int) and 400 <= code < 600 else None)


def _first_choice(choices: object) -> Mapping[str, Any] | None:
    """Of several choices the first; a server that does not number them has one."""
    if not choices or not isinstance(choices, list):
        return None
    for choice in choices:
        if not choice.get("index"):
            return choice if isinstance(choice, Mapping) else None
    return None


def _joined(content: object) -> str:
    """A text that comes as a list of parts."""
    parts = content if isinstance(content, list) else []
    return "".join(part.get("text") or "" for part in parts if isinstance(part, Mapping) and part.get("type") == "text")


def _usage(given: object) -> Usage | None:
    if not isinstance(given, Mapping):
        return None
    sent, answered = count_in(given, "prompt_tokens"), count_in(given, "completion_tokens")
    if not sent and not answered:
        return None
    inward, outward = given.get("prompt_tokens_details"), given.get("completion_tokens_details")
    inward, outward = (each if isinstance(each, Mapping) else {} for each in (inward, outward))
    return Usage.counted(
        given=sent,
        answered=answered,
        cached=count_in(inward, "cached_tokens") or count_in(given, "prompt_cache_hit_tokens"),
        written=count_in(inward, "cache_write_tokens"),
        reasoning=count_in(outward, "reasoning_tokens"),
    )


def _as_text(arguments: object) -> str:
    if arguments is None:
        return ""
    return arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
