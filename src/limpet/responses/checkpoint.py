"""What the next carrier of a run must know beside its journal: written where a model turn ends, in the transaction of its events.

The journal holds what clients see and nothing else. A turn that has ended may have items that wait behind a shell call, and a message
whose end is held back for its citations: those are here, as they came from the provider.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Literal

import msgspec

from limpet.responses.budgets import BudgetStop
from limpet.responses.context_size import ContextSize
from limpet.responses.made_calls import HostedCall, PatchMade
from limpet.upstreams.endings import IncompleteReason, ResponseError
from limpet.upstreams.upstream import BadArguments, CallBegun, CallMade, CommandText, Emit, ShellArguments, TurnEvent
from limpet.upstreams.usage import Usage

VERSION = 1  # of this format; a run of another one is ended with an error that says so


class EndedTurn(msgspec.Struct, kw_only=True):
    """A model turn that ended. `seq` is the number of the first event after it, `step` its step, and `places` the output index of
    each of its items that was told until then. `waiting` and `held` are events that were not told."""

    seq: int
    step: int
    offers_shell: bool
    admitted: dict[int, bool]
    calls: list[list[Any]]
    waiting: list[list[Any]]
    held: list[list[Any]]
    places: dict[int, int]
    status: Literal["completed", "incomplete", "failed"]
    incomplete_reason: IncompleteReason | None = None
    error: ResponseError | None = None
    bound: BudgetStop | None = None


class Checkpoint(msgspec.Struct, kw_only=True):
    """`note` is what the model is told before its first turn. `turns` are done, with all their shell calls; what comes now begins at
    output index `next`, in that `step`. `turn` has ended and is not done: its calls are being carried out. `skipped` are the output
    indexes of items that the model is not told again: they belong to attempts that broke off. `wall_secs` is for how long the run was
    carried, `newest` the usage of its newest turn, `stop` the budget for which that was the last, `context` how large the
    conversation has become, `shown` what the response shows of the provider's own."""

    version: int = VERSION
    note: str | None = None
    turns: int = 0
    next: int = 0
    step: int = 0
    usage: Usage | None = None
    calls_made: int = 0
    skipped: list[int] = msgspec.field(default_factory=list)
    wall_secs: float = 0.0
    newest: Usage | None = None
    stop: BudgetStop | None = None
    turn: EndedTurn | None = None
    context: ContextSize = msgspec.field(default_factory=ContextSize)
    shown: dict[str, Any] = msgspec.field(default_factory=dict)

    def encoded(self) -> bytes:
        return msgspec.json.encode(self)


def read(stored: bytes | None) -> Checkpoint | None:
    """The checkpoint; None where there is none or it is not one of this version."""
    try:
        checkpoint = msgspec.json.decode(stored or b"", type=Checkpoint)
    except msgspec.DecodeError:
        return None
    return checkpoint if checkpoint.version == VERSION else None


_EVENTS: dict[str, Any] = {kind.__name__: kind for kind in (Emit, CallBegun, CommandText)}
_ARGUMENTS: dict[str, Any] = {kind.__name__: kind for kind in (ShellArguments, BadArguments)}


def packed_calls(calls: Iterable[HostedCall]) -> list[list[Any]]:
    """Calls in a form that `unpacked_calls` reads again."""
    return [["PatchMade", call.index, call.item] if isinstance(call, PatchMade) else _packed(call) for call in calls]


def unpacked_calls(stored: Sequence[Sequence[Any]]) -> list[HostedCall]:
    return [PatchMade(*each[1:]) if each[0] == "PatchMade" else _unpacked_call(each) for each in stored]


def packed(events: Iterable[TurnEvent]) -> list[list[Any]]:
    """Events in a form that `unpacked` reads again."""
    return [_packed(event) for event in events]


def _packed(event: TurnEvent) -> list[Any]:
    if isinstance(event, CallMade):
        return ["CallMade", event.index, event.call_id, type(event.arguments).__name__, event.arguments]
    return [type(event).__name__, event]


def unpacked(stored: Sequence[Sequence[Any]]) -> list[TurnEvent]:
    return [_unpacked(each) for each in stored]


def _unpacked(stored: Sequence[Any]) -> TurnEvent:
    kind, *fields = stored
    if kind == "CallMade":
        return _unpacked_call(stored)
    event: TurnEvent = msgspec.convert(fields[0], _EVENTS[kind])
    return event


def _unpacked_call(stored: Sequence[Any]) -> CallMade:
    _, index, call_id, name, arguments = stored
    return CallMade(index=index, call_id=call_id, arguments=msgspec.convert(arguments, _ARGUMENTS[name]))
