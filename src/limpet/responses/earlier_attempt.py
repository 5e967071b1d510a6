"""A model turn that broke off is asked again. What the first attempt had told whole is not told twice.

The items of the new attempt are held back one by one and compared with those of the old one, in order; equal ones stand as they were told.
At the first that differs the rest of the old attempt is given up, and telling goes on as ever. Providers choose ids and sealed reasoning
anew each time, so those do not count.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from limpet.core import events as ev
from limpet.upstreams.upstream import CallMade, Emit, ShellArguments, TurnEnded, TurnEvent

Json = dict[str, Any]
_CHOSEN_ANEW = ("id", "call_id", "status", "encrypted_content", "annotations", "logprobs")


@dataclass(frozen=True, slots=True, kw_only=True)
class RepeatedItem:
    """An item of the new attempt, by its `index` in the turn, that stands at output index `place` already. `call` is set for a shell call,
    under the call id that it was told with."""

    index: int
    place: int
    item: Json
    call: CallMade | None = None


@dataclass(slots=True)
class EarlierAttempt:
    """`items`: the items that were told whole, each with its output index. `given_up` are the output indexes of those that the new attempt
    does not repeat."""

    items: deque[tuple[int, Json]]
    given_up: list[int] = field(default_factory=list)
    _buffer: list[TurnEvent] = field(default_factory=list)

    def take(self, event: TurnEvent) -> Iterable[TurnEvent | RepeatedItem]:
        """What is to be done now, in order: nothing while it is not known whether an item was told before."""
        if not self.items:
            return (event,)
        if isinstance(event, TurnEnded):
            return (*self._give_up(), event)
        self._buffer.append(event)
        if isinstance(event, CallMade):
            return self._compare_call(event)
        if isinstance(event, Emit) and event.type == ev.ITEM_DONE:
            place, item = self.items[0]
            if _essence(item) != _essence(event.data["item"]):
                return self._give_up()
            return self._matched(RepeatedItem(index=event.data["output_index"], place=place, item=item))
        return ()

    def _compare_call(self, call: CallMade) -> Iterable[TurnEvent | RepeatedItem]:
        place, item = self.items[0]
        if item["type"] != "shell_call" or item["action"] != _action(call):
            return self._give_up()
        told = replace(call, call_id=item["call_id"])
        return self._matched(RepeatedItem(index=call.index, place=place, item=item, call=told))

    def _matched(self, found: RepeatedItem) -> Iterable[TurnEvent | RepeatedItem]:
        self.items.popleft()
        self._buffer.clear()
        return (found,)

    def _give_up(self) -> Iterable[TurnEvent]:
        self.given_up += [place for place, _ in self.items]
        self.items.clear()
        buffered, self._buffer = self._buffer, []
        return buffered


def _action(call: CallMade) -> Json | None:
    if not isinstance(call.arguments, ShellArguments):
        return None
    return {
        "commands": list(call.arguments.commands),
        "timeout_ms": call.arguments.timeout_ms,
        "max_output_length": call.arguments.max_output_length,
    }


def _essence(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _essence(inner) for key, inner in value.items() if key not in _CHOSEN_ANEW and inner}
    return [_essence(inner) for inner in value] if isinstance(value, list) else value
