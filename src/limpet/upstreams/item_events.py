"""The Responses events of one visible item, in the API's order and with its keys. Pure: what a translated provider's stream
is turned into. Source: OpenAI's ResponseStreamEvent schema and recorded traffic.
"""

from dataclasses import dataclass, field
from typing import Any

from limpet.core import events
from limpet.core.ids import CUSTOM_CALL, FUNCTION_CALL, MESSAGE, PATCH_CALL, REASONING, new_id
from limpet.upstreams.patch_function import read_operation
from limpet.upstreams.upstream import Emit


@dataclass(slots=True)
class Message:
    """An assistant message with one text part, the `index`-th item of its turn: `begin`, `delta` …, `end`, each once and in order."""

    index: int
    id: str = field(default_factory=lambda: new_id(MESSAGE))
    _pieces: list[str] = field(default_factory=list)

    def begin(self) -> list[Emit]:
        item = {"id": self.id, "type": "message", "status": "in_progress", "content": [], "role": "assistant"}
        return [
            Emit(events.ITEM_ADDED, {"output_index": self.index, "item": item}),
            Emit(events.PART_ADDED, self._place() | {"part": _text_part("")}),
        ]

    def delta(self, text: str) -> list[Emit]:
        self._pieces.append(text)
        return [Emit(events.TEXT_DELTA, self._place() | {"delta": text, "logprobs": []})]

    def end(self, status: str = "completed") -> list[Emit]:
        text = "".join(self._pieces)
        part = _text_part(text)
        item = {"id": self.id, "type": "message", "status": status, "content": [part], "role": "assistant"}
        return [
            Emit(events.TEXT_DONE, self._place() | {"text": text, "logprobs": []}),
            Emit(events.PART_DONE, self._place() | {"part": dict(part)}),
            Emit(events.ITEM_DONE, {"output_index": self.index, "item": item}),
        ]

    def _place(self) -> dict[str, Any]:
        return {"item_id": self.id, "output_index": self.index, "content_index": 0}


@dataclass(slots=True)
class Reasoning:
    """A reasoning item whose text is shown as one summary part, as OpenAI's clients expect it. `sealed` is the provider's own proof
    of the reasoning, to be sent back in later turns; it becomes `encrypted_content`."""

    index: int
    id: str = field(default_factory=lambda: new_id(REASONING))
    sealed: str | None = None
    _pieces: list[str] = field(default_factory=list)

    def begin(self) -> list[Emit]:
        item = {"id": self.id, "type": "reasoning", "status": "in_progress", "summary": []}
        return [Emit(events.ITEM_ADDED, {"output_index": self.index, "item": item})]

    def delta(self, text: str) -> list[Emit]:
        opened = [] if self._pieces else [Emit(events.SUMMARY_PART_ADDED, self._place() | {"part": _summary_part("")})]
        self._pieces.append(text)
        return [*opened, Emit(events.SUMMARY_DELTA, self._place() | {"delta": text})]

    def end(self, status: str = "completed") -> list[Emit]:
        text = "".join(self._pieces)
        closed = [
            Emit(events.SUMMARY_DONE, self._place() | {"text": text}),
            Emit(events.SUMMARY_PART_DONE, self._place() | {"part": _summary_part(text)}),
        ]
        item: dict[str, Any] = {"id": self.id, "type": "reasoning", "status": status, "summary": []}
        if self._pieces:
            item["summary"] = [_summary_part(text)]
        if self.sealed is not None:
            item["encrypted_content"] = self.sealed
        done = Emit(events.ITEM_DONE, {"output_index": self.index, "item": item})
        return [*closed, done] if self._pieces else [done]

    def _place(self) -> dict[str, Any]:
        return {"item_id": self.id, "output_index": self.index, "summary_index": 0}


@dataclass(slots=True)
class FunctionCall:
    """A call of one of the client's own functions. The arguments are text as the model writes it, valid JSON or not."""

    index: int
    name: str
    call_id: str
    namespace: str | None = None
    id: str = field(default_factory=lambda: new_id(FUNCTION_CALL))
    _pieces: list[str] = field(default_factory=list)

    def begin(self) -> list[Emit]:
        return [Emit(events.ITEM_ADDED, {"output_index": self.index, "item": self._item("", "in_progress")})]

    def delta(self, text: str) -> list[Emit]:
        self._pieces.append(text)
        place = {"item_id": self.id, "output_index": self.index}
        return [Emit(events.ARGUMENTS_DELTA, place | {"delta": text})]

    def end(self, status: str = "completed") -> list[Emit]:
        arguments = "".join(self._pieces)
        place = {"item_id": self.id, "output_index": self.index}
        return [
            Emit(events.ARGUMENTS_DONE, place | {"name": self.name, "arguments": arguments}),
            Emit(events.ITEM_DONE, {"output_index": self.index, "item": self._item(arguments, status)}),
        ]

    @property
    def has_text(self) -> bool:
        """Whether any argument text has come."""
        return bool(self._pieces)

    def _item(self, arguments: str, status: str) -> dict[str, Any]:
        item = {
            "id": self.id,
            "type": "function_call",
            "status": status,
            "arguments": arguments,
            "call_id": self.call_id,
            "name": self.name,
        }
        return item if self.namespace is None else {**item, "namespace": self.namespace}


@dataclass(slots=True)
class CustomCall:
    """A call of one of the client's custom tools, whose input is plain text: `begin`, `end`."""

    index: int
    name: str
    call_id: str
    namespace: str | None = None
    id: str = field(default_factory=lambda: new_id(CUSTOM_CALL))

    def begin(self) -> list[Emit]:
        return [Emit(events.ITEM_ADDED, {"output_index": self.index, "item": self._item("", "in_progress")})]

    def end(self, given: str, status: str = "completed") -> list[Emit]:
        place = {"item_id": self.id, "output_index": self.index}
        return [
            *([Emit(events.CUSTOM_INPUT_DELTA, place | {"delta": given})] if given else []),
            Emit(events.CUSTOM_INPUT_DONE, place | {"input": given}),
            Emit(events.ITEM_DONE, {"output_index": self.index, "item": self._item(given, status)}),
        ]

    def _item(self, given: str, status: str) -> dict[str, Any]:
        item = {
            "id": self.id,
            "type": "custom_tool_call",
            "status": status,
            "call_id": self.call_id,
            "name": self.name,
            "input": given,
        }
        return item if self.namespace is None else {**item, "namespace": self.namespace}


@dataclass(slots=True)
class PatchCall:
    """A call of `apply_patch`, whose arguments are read at their end: `begin`, `delta`, `end`. One that broke off never ends whole."""

    index: int
    call_id: str
    id: str = field(default_factory=lambda: new_id(PATCH_CALL))
    has_text: bool = False
    _pieces: list[str] = field(default_factory=list)

    def begin(self) -> list[Emit]:
        return []

    def delta(self, text: str) -> list[Emit]:
        self.has_text = True
        self._pieces.append(text)
        return []

    def end(self, status: str = "completed") -> list[Emit]:
        item = {
            "id": self.id,
            "type": "apply_patch_call",
            "status": "in_progress",
            "call_id": self.call_id,
            "operation": read_operation("".join(self._pieces)),
        }
        done = item | {"status": "completed" if status == "completed" else "in_progress"}
        return [
            Emit(events.ITEM_ADDED, {"output_index": self.index, "item": item}),
            Emit(events.ITEM_DONE, {"output_index": self.index, "item": done}),
        ]


def _text_part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "annotations": [], "logprobs": [], "text": text}


def _summary_part(text: str) -> dict[str, Any]:
    return {"type": "summary_text", "text": text}
