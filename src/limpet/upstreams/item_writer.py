"""The output of a translated turn: what a model says, part by part, as turn events. Pure, and of no wire.

A wire's reader names its parts by keys of its own: texts, thoughts and calls begin with their first piece. It ends texts and thoughts;
calls end with the turn, since their arguments may arrive mixed.
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from limpet.core.errors import UpstreamBroken
from limpet.upstreams import shell_function
from limpet.upstreams.endings import ResponseError
from limpet.upstreams.function_names import FunctionNames, custom_input
from limpet.upstreams.item_events import CustomCall, FunctionCall, Message, PatchCall, Reasoning
from limpet.upstreams.key_filter import KeyFilter
from limpet.upstreams.key_pieces import SplitText, TextSequence
from limpet.upstreams.sealing import Seal, sealed
from limpet.upstreams.upstream import CallBegun, CallMade, CommandText, Emit, TurnEnded, TurnEvent
from limpet.upstreams.usage import Usage

# With `refusal` the model has said no, and said all of it; with the others but `stop` the answer was cut.
Finish = Literal["stop", "refusal", "length", "content_filter", "error"]
_WHOLE = frozenset({"stop", "refusal"})


MOST_PARTS = 2_000  # texts, thoughts and calls of one turn


@dataclass(slots=True)
class _ShellCall:
    """The function that stands for the shell, being written."""

    index: int
    call_id: str
    writing: shell_function.CommandsDecoder = field(default_factory=shell_function.CommandsDecoder)

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


_Item = Message | Reasoning | FunctionCall | PatchCall | _CustomCall | _ShellCall


class ItemWriter:
    """Writes the items of one turn.

    `provider` seals reasoning; `has_shell` says that the function `shell` is the shell; `names` are the client's tools; `keys` takes the
    provider's key out of text.
    """

    def __init__(self, *, provider: str, has_shell: bool, names: FunctionNames, keys: KeyFilter) -> None:
        self._provider = provider
        self._has_shell = has_shell
        self._names = names
        self._keys = keys
        self._written = TextSequence(keys)
        self._texts: dict[Hashable, SplitText] = {}  # of what is open, by part
        self._next = 0
        self._parts = 0
        self._open: dict[Hashable, _Item] = {}
        self._last: Hashable = None

    def begin_part(self, part: Hashable) -> None:
        """A part begins: it is the one that is cut where the answer is. Raises UpstreamBroken past MOST_PARTS."""
        self._parts += 1
        self.check_count(self._parts)
        self._last = part

    def check_count(self, parts: int) -> None:
        """Raises UpstreamBroken where that is more parts than a turn may have."""
        if parts > MOST_PARTS:
            raise UpstreamBroken(self._provider, f"it has more than {MOST_PARTS} texts, thoughts and calls.")

    def text(self, part: Hashable, text: str) -> Iterable[TurnEvent]:
        """More text of the answer; its message begins with the first text, so that there are no empty ones."""
        return self._write(part, Message, text)

    def thought(self, part: Hashable, text: str, *, even_empty: bool = False) -> Iterable[TurnEvent]:
        """More reasoning. `even_empty`: what has no text is an item too, since it carries a seal."""
        return self._write(part, Reasoning, text, even_empty=even_empty)

    def call(self, part: Hashable, function: str, call_id: str) -> Iterable[TurnEvent]:
        """A call begins."""
        item = self._open[part] = self._call(self._keys.hide_in(function), self._keys.hide_in(call_id))
        return item.begin()

    def arguments(self, part: Hashable, text: str) -> Iterable[TurnEvent]:
        """More arguments of a call, which is then the part that is cut where the answer is: calls may be written by turns."""
        if part not in self._open:
            return ()
        if text:
            self._last = part
        return self._more(part, text)

    def seal(self, part: Hashable, *, made_by: str, id: str | None = None, signature: str | None = None) -> None:
        """What proves the reasoning of a part, if it is open and is reasoning."""
        item = self._open.get(part)
        if isinstance(item, Reasoning):
            item.sealed = sealed(Seal(provider=self._provider, made_by=made_by, id=id, signature=signature))

    def add_sealed(self, *, made_by: str, signature: str) -> Iterator[TurnEvent]:
        """Reasoning that is not shown."""
        item = Reasoning(self._take())
        yield from item.begin()
        item.sealed = sealed(Seal(provider=self._provider, made_by=made_by, signature=signature))
        yield from item.end()

    def has_open(self, part: Hashable, kind: type[Message] | type[Reasoning]) -> bool:
        """Whether a part of that kind has begun and not ended."""
        return isinstance(self._open.get(part), kind)

    def end_part(self, part: Hashable) -> Iterator[TurnEvent]:
        """A text or reasoning has ended; calls wait for the end of the turn."""
        item = self._open.get(part)
        if isinstance(item, Message | Reasoning):
            yield from self._rest(part)
            del self._open[part]
            yield from item.end()

    def end(self, *, finish: Finish, usage: Usage | None, response: Mapping[str, Any]) -> Iterator[TurnEvent]:
        """Close what is open and end the turn. What was being written when the answer was cut is incomplete."""
        for part, item in self._open.items():
            yield from self._rest(part)
            if isinstance(item, FunctionCall) and not item.has_text:
                yield from item.delta("{}")
            cut = finish not in _WHOLE and part == self._last
            yield from item.end("incomplete" if cut else "completed")
        shown = {name: self._keys.hide(value) for name, value in response.items() if value}
        yield _ended(finish, usage, shown)

    def _call(self, function: str, call_id: str) -> _ShellCall | FunctionCall | PatchCall | _CustomCall:
        if self._has_shell and function == shell_function.NAME:
            return _ShellCall(self._take(), call_id)
        tool = self._names.tool(function)
        if tool is None:
            return FunctionCall(self._take(), function, call_id)
        if tool.is_patch:
            return PatchCall(self._take(), call_id)
        if tool.is_custom:
            return _CustomCall(CustomCall(self._take(), tool.name, call_id, tool.namespace))
        return FunctionCall(self._take(), tool.name, call_id, tool.namespace)

    def _write(
        self, part: Hashable, kind: type[Message] | type[Reasoning], text: str, *, even_empty: bool = False
    ) -> Iterable[TurnEvent]:
        item = self._open.get(part)
        if item is not None:
            return self._more(part, text)
        if not text and not even_empty:
            return ()
        item = self._open[part] = kind(self._take())
        return [*item.begin(), *self._more(part, text)]

    def _more(self, part: Hashable, text: str) -> Iterable[TurnEvent]:
        if text and (shown := self._text_of(part).feed(text)):
            return self._open[part].delta(shown)
        return ()

    def _rest(self, part: Hashable) -> Iterable[TurnEvent]:
        """What waited because the key might begin there: its item ends."""
        rest = self._text_of(part).end()
        return self._open[part].delta(rest) if rest else ()

    def _text_of(self, part: Hashable) -> SplitText:
        found = self._texts.get(part)
        if found is None:
            found = self._texts[part] = self._written.text()
        return found

    def _take(self) -> int:
        self._next += 1
        return self._next - 1


def _ended(finish: Finish, usage: Usage | None, response: Mapping[str, Any]) -> TurnEnded:
    match finish:
        case "length":
            return TurnEnded(status="incomplete", usage=usage, incomplete_reason="max_output_tokens", response=response)
        case "content_filter" | "refusal":
            return TurnEnded(status="incomplete", usage=usage, incomplete_reason="content_filter", response=response)
        case "error":
            error = ResponseError(code="server_error", message="The provider ended the answer with an error.")
            return TurnEnded(status="failed", usage=usage, error=error, response=response)
        case "stop":
            return TurnEnded(status="completed", usage=usage, response=response)
