"""Takes a provider's key out of what the provider says: out of texts, out of events, and out of texts that come in pieces."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from limpet.core.hiding import spellings
from limpet.core.secret import HIDDEN, Secret


def hide_key(text: str, key: Secret | None) -> str:
    """`text` without the provider's key, in any spelling of it."""
    return _without(text, spellings(key))


def _without(text: str, found: Iterable[str]) -> str:
    for spelling in found:
        text = text.replace(spelling, HIDDEN)
    return text


_ESCAPED_ASCII = b"\\u00"  # some encoders of JSON write +, &, < and others so


class KeyFilter:
    """Takes a provider's key out of its events. Costs one search for each spelling where the key is not there."""

    # What says of which kind a thing is, in small words: a short key may be one, and the event would be none of the protocol any more.
    _KINDS = frozenset({"type", "object", "status", "role"})
    _WORDS = re.compile(r"[a-z]+(?:[._][a-z]+)*")

    def __init__(self, key: Secret | None) -> None:
        self._texts = found = spellings(key)
        self._spellings = tuple(spelling.encode() for spelling in found)
        self._beginnings = frozenset(text[:length] for text in found for length in range(1, len(text)))
        self._first = frozenset(text[0] for text in found)
        self._longest = max(map(len, found), default=1) - 1

    def may_hold_key(self, data: bytes) -> bool:
        """Whether an event's JSON has the key in it, or escapes characters of ASCII, which may be the key's."""
        for spelling in self._spellings:
            if spelling in data:
                return True
        return bool(self._spellings) and _ESCAPED_ASCII in data

    def hide(self, value: Any) -> Any:
        """A decoded event without the key, in names as in values."""
        match value:
            case str():
                return self.hide_in(value)
            case list():
                return [self.hide(each) for each in value]
            case dict():
                shown = {
                    name if self._WORDS.fullmatch(name) else self.hide_in(name): each
                    if self._is_kind(name, each)
                    else self.hide(each)
                    for name, each in value.items()
                }
                if shown.get("logprobs") and (shown != value or self._spells_key(value["logprobs"])):
                    shown["logprobs"] = []
                return shown
            case _:
                return value

    def _is_kind(self, name: str, value: object) -> bool:
        return name in self._KINDS and isinstance(value, str) and self._WORDS.fullmatch(value) is not None

    def _spells_key(self, tokens: object) -> bool:
        """Whether the tokens of a text (`logprobs`) make up the key together: each has a part of it, as text and as bytes."""
        given = [each for each in tokens if isinstance(each, dict)] if isinstance(tokens, list) else []
        text = "".join(str(each.get("token")) for each in given)
        data = bytes(
            byte for each in given for byte in each.get("bytes") or () if isinstance(byte, int) and 0 <= byte < 256
        )
        return any(spelling in text for spelling in self._texts) or any(
            spelling in data for spelling in self._spellings
        )

    def hide_in(self, text: str) -> str:
        """A text without the key."""
        return _without(text, self._texts)

    def unfinished(self, text: str) -> int:
        """How many characters at the end of a text may be the beginning of the key."""
        tail = text[-self._longest :] if self._longest else ""
        for at, character in enumerate(tail):
            if character in self._first and tail[at:] in self._beginnings:
                return len(tail) - at
        return 0

    def text(self) -> "SplitText":
        """For one text that comes in pieces."""
        return SplitText(self)

    def events(self) -> "SplitEvents":
        """For the events of one answer, which are without the key each."""
        return SplitEvents(self)


class SplitText:
    """A text in pieces, without a key that begins in one and ends in another. What may be its beginning waits for the next piece."""

    __slots__ = ("_filter", "held")

    def __init__(self, keys: KeyFilter) -> None:
        self._filter = keys
        self.held = ""

    def feed(self, piece: str) -> str:
        """What may be shown by now; often the piece."""
        text = self._filter.hide_in(self.held + piece)
        waits = self._filter.unfinished(text)
        self.held = text[len(text) - waits :]
        return text[: len(text) - waits] if waits else text

    def end(self) -> str:
        """What waited, and is no key."""
        held, self.held = self.held, ""
        return held


_MOST_OPEN = 64  # texts of one answer that wait at once


@dataclass(slots=True)
class _OpenText:
    last: Mapping[str, Any]
    text: SplitText


class SplitEvents:
    """Events of the Responses API whose `delta` is text: a key that is split over several of them is in none."""

    _PLACES = ("type", "item_id", "output_index", "content_index", "summary_index", "command_index")

    def __init__(self, keys: KeyFilter) -> None:
        self._filter = keys
        self._open: dict[tuple[str, ...], _OpenText] = {}

    def feed(self, event: dict[str, Any]) -> Iterable[dict[str, Any]]:
        """The events to go on with in its place, in order: what waited for it comes first."""
        delta = event.get("delta")
        if not self._open and not (isinstance(delta, str) and self._filter.unfinished(delta)):
            return (event,)
        return self._with_what_waited(event, delta)

    def _with_what_waited(self, event: dict[str, Any], delta: object) -> Iterator[dict[str, Any]]:
        if not isinstance(delta, str) or not delta:
            if self._open:
                yield from self._rest(event.get("output_index"))
            yield event
            return
        place = tuple(str(event.get(name)) for name in self._PLACES)  # a provider may send anything there
        waiting = self._open.pop(place, None)
        if waiting is None and not self._filter.unfinished(delta):
            yield event
            return
        waiting = waiting or _OpenText(event, self._filter.text())
        shown = waiting.text.feed(delta)
        if waiting.text.held:
            waiting.last = event
            if len(self._open) >= _MOST_OPEN:
                yield from self._rest(None)
            self._open[place] = waiting
        if shown:
            yield _with_delta(event, shown)

    def _rest(self, output_index: object) -> Iterator[dict[str, Any]]:
        """What waited in that item, or anywhere: its text has ended."""
        ended = [place for place in self._open if output_index is None or place[2] == str(output_index)]
        for place in ended:
            waiting = self._open.pop(place)
            yield _with_delta(waiting.last, waiting.text.end())


def _with_delta(event: Mapping[str, Any], delta: str) -> dict[str, Any]:
    """The event with another delta, and without the tokens of the one that it had."""
    tokens: dict[str, Any] = {"logprobs": []} if event.get("logprobs") else {}
    return {**event, "delta": delta, **tokens}
