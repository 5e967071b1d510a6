"""What the events of a Responses-native provider mean for a turn. Pure: events in, turn events out.

Visible items pass as they are. Lifted out are the shell call (the provider's own, or the function that stands for it) and the
response object, of which the end of the turn keeps what is worth showing.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from limpet.core import events
from limpet.upstreams import patch_function, provider_fields, shell_function
from limpet.upstreams.endings import ResponseError, incomplete_reason
from limpet.upstreams.item_events import PatchCall
from limpet.upstreams.upstream import (
    BadArguments,
    CallBegun,
    CallMade,
    CommandText,
    Emit,
    ShellArguments,
    TurnEnded,
    TurnEvent,
)
from limpet.upstreams.usage import Usage

# Fields of the provider's response object that say how it answered; the rest is the gateway's own to say.
SHOWN = (
    *provider_fields.SHOWN,
    "model",
    "temperature",
    "top_p",
    "presence_penalty",
    "frequency_penalty",
    "top_logprobs",
    "text",
    "reasoning",
    "truncation",
)


@dataclass(slots=True)
class _PartialCall:
    """A shell call that the model is writing."""

    call_id: str
    shown: list[str] = field(default_factory=list)
    writing: shell_function.CommandsDecoder = field(default_factory=shell_function.CommandsDecoder)


class RelayEventReader:
    """Reads the events of one turn in order. `function_shell` says that the function `shell` stands for the shell, `own_shell` that the
    provider runs its shell itself, `function_patch` that the function `apply_patch` stands for that tool.

    `ended` is set by the event that ends the response; what comes after it is not part of the turn.
    """

    def __init__(self, *, function_shell: bool, own_shell: bool = False, function_patch: bool = False) -> None:
        self._function_shell = function_shell
        self._own_shell = own_shell
        self._function_patch = function_patch
        self._calls: dict[int, _PartialCall] = {}
        self._patches: dict[int, PatchCall] = {}
        self._open: dict[int, str] = {}
        self.ended = False

    def read(self, event: dict[str, Any]) -> Iterable[TurnEvent]:
        """What one event says, in order; often nothing. The event's dict is taken over."""
        kind = event.pop("type", None)
        event.pop("sequence_number", None)
        index = event.get("output_index")
        if isinstance(index, int) and isinstance(kind, str):
            if kind == events.ITEM_ADDED or kind == events.ITEM_DONE:
                return self._item(kind, index, event)
            if index in self._patches:
                return ()
            if index in self._calls:
                return self._of_call(kind, index, event)
            return (Emit(kind, event),)
        if kind in events.TERMINAL:
            return self._end(kind, event.get("response") or {})
        if kind == "error" or (kind is None and "error" in event):
            self.ended = True
            return (TurnEnded(status="failed", error=_error(event.get("error") or event)),)
        return ()

    def _item(self, kind: str, index: int, event: dict[str, Any]) -> Iterable[TurnEvent]:
        item = event.get("item") or {}
        if self._is_patch_function(item):
            return self._patch(kind, index, item)
        if not self._is_shell(item):
            if kind == events.ITEM_ADDED:
                self._open[index] = str(item.get("id"))
            else:
                self._open.pop(index, None)
            return (Emit(kind, event),)
        begun: list[TurnEvent] = []
        if index not in self._calls:
            self._calls[index] = _PartialCall(str(item.get("call_id") or item.get("id")))
            begun.append(CallBegun(index=index, call_id=self._calls[index].call_id))
        if kind == events.ITEM_ADDED:
            return begun
        return [*begun, self._made(index, item)]

    def _is_patch_function(self, item: Mapping[str, Any]) -> bool:
        return self._function_patch and item.get("type") == "function_call" and item.get("name") == patch_function.NAME

    def _patch(self, kind: str, index: int, item: Mapping[str, Any]) -> Iterable[TurnEvent]:
        if kind == events.ITEM_ADDED:
            self._patches[index] = PatchCall(index, str(item.get("call_id")))
            return ()
        call = self._patches.pop(index, None) or PatchCall(index, str(item.get("call_id")))
        call.delta(str(item.get("arguments") or ""))
        return call.end(str(item.get("status") or "completed"))

    def _is_shell(self, item: Mapping[str, Any]) -> bool:
        if item.get("type") == "shell_call":
            return not self._own_shell
        return self._function_shell and item.get("type") == "function_call" and item.get("name") == shell_function.NAME

    def _of_call(self, kind: str, index: int, event: dict[str, Any]) -> Iterable[TurnEvent]:
        call = self._calls[index]
        if kind == events.ARGUMENTS_DELTA:
            return [
                CommandText(index=index, command_index=at, text=text)
                for at, text in call.writing.feed(event.get("delta") or "")
            ]
        at = event.get("command_index")
        if not isinstance(at, int) or at > len(call.shown):
            return ()
        whole = event.get("command")
        if kind == events.COMMAND_DELTA:
            whole = (call.shown[at] if at < len(call.shown) else "") + (event.get("delta") or "")
        if not isinstance(whole, str):
            return ()
        commands = [*call.shown[:at], whole]
        return [CommandText(index=index, command_index=n, text=text) for n, text in _more(call.shown, commands)]

    def _made(self, index: int, item: Mapping[str, Any]) -> CallMade:
        call = self._calls.pop(index)
        return CallMade(index=index, call_id=call.call_id, arguments=_arguments(item, call))

    def _end(self, kind: str, response: Mapping[str, Any]) -> Iterable[TurnEvent]:
        self.ended = True
        closing: list[TurnEvent] = [*self._close_open(response)]
        shown = {name: response[name] for name in SHOWN if response.get(name) is not None}
        used = Usage.read(response.get("usage"))
        if kind == events.COMPLETED:
            return [*closing, TurnEnded(status="completed", usage=used, response=shown)]
        if kind == events.INCOMPLETE:
            reason = incomplete_reason((response.get("incomplete_details") or {}).get("reason"))
            ended = TurnEnded(status="incomplete", usage=used, incomplete_reason=reason, response=shown)
            return [*closing, ended]
        error = _error(response.get("error") or {})
        return [*closing, TurnEnded(status="failed", usage=used, error=error, response=shown)]

    def _close_open(self, response: Mapping[str, Any]) -> Iterable[TurnEvent]:
        """Items that the provider never closed, as its response object shows them; a call among them is not run."""
        shown = {item.get("id"): item for item in response.get("output") or ()}
        for index, item_id in sorted(self._open.items()):
            if item_id in shown:
                item = {**shown[item_id], "status": "incomplete"}
                yield Emit(events.ITEM_DONE, {"output_index": index, "item": item})
        for index in sorted(self._calls):
            yield self._made(index, {"status": "incomplete"})


def _more(shown: list[str], commands: list[str]) -> list[tuple[int, str]]:
    while len(shown) < len(commands):
        shown.append("")
    return shell_function.show_more(shown, commands)


def _arguments(item: Mapping[str, Any], call: _PartialCall) -> ShellArguments | BadArguments:
    written = item.get("arguments") or call.writing.text
    action = item.get("action") or {}
    if item.get("status") == "incomplete":
        return shell_function.broken_off(str(written or "\n".join(call.shown)))
    if item.get("type") == "function_call":
        return shell_function.read_arguments(written)
    if not action.get("commands") and call.shown:
        action = {**action, "commands": call.shown}
    return shell_function.read_action(action, raw=str(action))


def _error(error: object) -> ResponseError:
    """In OpenAI's shape, from what providers send."""
    if not isinstance(error, Mapping):
        return ResponseError(code="server_error", message=str(error))
    message = error.get("message") or "The provider gave no reason."
    return ResponseError.of_provider(error.get("code") or error.get("type"), str(message), more=error)
