"""A provider's key that comes in pieces: over several events of a text, over parts, items and kinds of text that a client may join.

A text waits as long as its end may be the beginning of the key, or all of it a part of the key. What stands at two places is hidden where
it continues the text before; so at most LONGEST_FRAGMENT - 1 characters of it are shown.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from limpet.core import events as kinds
from limpet.core.secret import HIDDEN
from limpet.upstreams.key_filter import KeyFilter

_MOST_OPEN = 64  # texts of one answer that wait at once
# Names under which the API has texts that a model writes; identifiers and kinds stand between them and belong to none.
_TEXTS = frozenset(
    {"text", "arguments", "refusal", "input", "code", "command", "commands", "content", "output", "diff"}
)
_WITHOUT_OUTPUT = frozenset({kinds.CREATED, kinds.IN_PROGRESS, kinds.QUEUED})


class TextSequence:
    """The texts of one answer, in the order in which they come. What one ends with may be continued by the next."""

    __slots__ = ("keys", "last", "tail")

    def __init__(self, keys: KeyFilter) -> None:
        self.keys = keys
        self.tail = ""  # may be the beginning of the key
        self.last: SplitText | None = None

    def text(self) -> "SplitText":
        """The next text, which comes in pieces."""
        return SplitText(self)

    def whole(self, text: str) -> str:
        """The next text, which is there as a whole."""
        next_text = self.text()
        shown = next_text.feed(text)
        return shown + next_text.end()


class SplitText:
    """A text in pieces, without a key that begins in one and ends in another, or in the text before. What may be a part of it waits for
    the next piece."""

    __slots__ = ("_before", "_has_begun", "_sequence", "held")

    def __init__(self, sequence: TextSequence) -> None:
        self._sequence = sequence
        self._before = ""  # the end of another text, which this one may continue
        self._has_begun = False
        self.held = ""

    def feed(self, piece: str) -> str:
        """What may be shown by now; often the piece."""
        if not piece:
            return ""
        keys = self._sequence.keys
        if self._sequence.last is not self:
            self._sequence.last = self
            if not self.held:
                self._before = self._sequence.tail
        text = keys.hide_in(self._continued(self.held + piece))
        if not self._has_begun:
            if keys.is_part(text):
                return self._wait(text, len(text))
            text = keys.hide_end_in(text)
        return self._wait(text, keys.unfinished(self._before + text))

    def end(self) -> str:
        """What waited, and is no key."""
        held, self.held = self.held, ""
        if not held:
            return ""
        keys, joined = self._sequence.keys, self._before + held
        is_inside = not self._has_begun and keys.is_fragment(held)
        self._has_begun = True
        return HIDDEN if is_inside or keys.is_first_fragment(joined[len(joined) - keys.unfinished(joined) :]) else held

    def _continued(self, text: str) -> str:
        """The text, without the rest of a key that began before it."""
        end = self._sequence.keys.end_of_key(self._before, text) if self._before else 0
        if not end:
            return text
        self._before, self._has_begun = "", True
        return HIDDEN + text[end:]

    def _wait(self, text: str, waits: int) -> str:
        shown = text[: max(0, len(text) - waits)]
        self.held = text[len(shown) :]
        if shown:
            self._before, self._has_begun = "", True
        joined = self._before + self.held
        tail = self._sequence.keys.unfinished(joined)
        self._sequence.tail = joined[len(joined) - tail :]
        if tail <= len(self.held):
            self._before = ""
        return shown


@dataclass(slots=True)
class _OpenText:
    last: Mapping[str, Any]
    text: SplitText


@dataclass(slots=True)
class SplitEvents:
    """Events of the Responses API, each without the key: one that is split over several of them is in none, nor in what they make up
    together."""

    _PLACES = ("type", "item_id", "output_index", "content_index", "summary_index", "command_index")

    keys: KeyFilter
    _open: dict[tuple[str, ...], _OpenText] = field(default_factory=dict)
    _last: tuple[object, ...] = ()  # place of the last delta
    _told: dict[tuple[bool, str], TextSequence] = field(default_factory=dict)  # texts that events have as a whole
    _written: TextSequence = field(init=False)

    def __post_init__(self) -> None:
        self._written = TextSequence(self.keys)

    def feed(self, event: dict[str, Any]) -> Iterable[dict[str, Any]]:
        """The events to go on with in its place, in order: what waited for it comes first. The event is without the key itself."""
        delta = event.get("delta")
        if not self.keys.is_there:
            return (event,)
        if not isinstance(delta, str) or not delta:
            return self._at_whole(event)
        place = tuple(map(event.get, self._PLACES))
        if place == self._last and not self._open and not self.keys.unfinished(delta):
            return (event,)
        self._last = place
        return self._more(event, delta, tuple(map(str, place)))  # a provider may send anything there

    def _more(self, event: dict[str, Any], delta: str, place: tuple[str, ...]) -> Iterator[dict[str, Any]]:
        waiting = self._open.pop(place, None) or _OpenText(event, self._written.text())
        shown = waiting.text.feed(delta)
        if waiting.text.held:
            waiting.last = event
            if len(self._open) >= _MOST_OPEN:
                yield from self._rest(None)
            self._open[place] = waiting
        if shown:
            yield event if shown == delta else _with_delta(event, shown)

    def _at_whole(self, event: dict[str, Any]) -> Iterator[dict[str, Any]]:
        if self._open:
            yield from self._rest(event.get("output_index"))
        kind = event.get("type")
        response = event.get("response")
        if not isinstance(response, dict):
            noun, _, verb = str(kind).rpartition(".")
            form = next((each for each in ("item", "part") if noun.endswith(each)), "text")
            texts = self._told.setdefault((verb == "done", form), TextSequence(self.keys))
            yield without_split_key(event, texts)
        elif kind not in _WITHOUT_OUTPUT and "output" in response:
            output = without_split_key(response["output"], TextSequence(self.keys))
            yield {**event, "response": {**response, "output": output}}
        else:
            yield event

    def _rest(self, output_index: object) -> Iterator[dict[str, Any]]:
        """What waited in that item, or anywhere: its text has ended."""
        ended = [place for place in self._open if output_index is None or place[2] == str(output_index)]
        for place in ended:
            waiting = self._open.pop(place)
            yield _with_delta(waiting.last, waiting.text.end())


def without_split_key(value: Any, texts: TextSequence, name: str = "") -> Any:
    """A decoded event or a part of one, whose texts continue `texts`."""
    match value:
        case str():
            return texts.whole(value) if name in _TEXTS else value
        case list():
            return [without_split_key(each, texts, name) for each in value]
        case dict():
            shown = {key: without_split_key(each, texts, key) for key, each in value.items()}
            if shown.get("logprobs") and shown != value:
                shown["logprobs"] = []
            return shown
        case _:
            return value


def _with_delta(event: Mapping[str, Any], delta: str) -> dict[str, Any]:
    """The event with another delta, and without the tokens of the one that it had."""
    tokens: dict[str, Any] = {"logprobs": []} if event.get("logprobs") else {}
    return {**event, "delta": delta, **tokens}
