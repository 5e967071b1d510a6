"""The front matter of SKILL.md: the part of YAML that a skill needs, read as text. Constructs no value of any other type.

YAML lets a few hundred bytes describe gigabytes (aliases to aliases) and lets text choose the type that it becomes (tags). Neither
is needed here. So this reads parser events and keeps mappings, lists and text, within bounds, and refuses all else in words.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import yaml
from yaml.events import (
    AliasEvent,
    CollectionStartEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)
from yaml.nodes import ScalarNode
from yaml.resolver import Resolver

MOST_BYTES = 64 << 10
MOST_EVENTS = 2000
MOST_DEPTH = 8
_TEXT = "tag:yaml.org,2002:str"
_KINDS = {"bool": "a boolean", "int": "a number", "float": "a number", "timestamp": "a date", "null": "null"}


@dataclass(frozen=True, slots=True)
class OtherScalar:
    """A plain scalar that YAML takes for something else than text: what it would be, in words. Its value is never computed."""

    kind: str


Value = str | OtherScalar | list["Value"] | dict[str, "Value"]


class FrontMatterInvalid(Exception):
    """Why it cannot be read: a sentence."""


def read_front_matter(source: bytes) -> Mapping[str, Value]:
    """The top-level mapping. Raises FrontMatterInvalid for what is no YAML, no mapping, larger or deeper than the bounds of this
    module, or uses anchors, aliases, merge keys or tags."""
    if len(source) > MOST_BYTES:
        raise FrontMatterInvalid(f"is longer than {MOST_BYTES} bytes")
    try:
        return _FrontMatterReader(source.decode()).document()
    # PyYAML lets some of Python's own errors through, of characters and numbers that there are not.
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError) as error:
        raise FrontMatterInvalid("is not YAML") from error


class _FrontMatterReader:
    """Reads one document. What is under way is on `_depth` and the Python stack, which MOST_DEPTH bounds."""

    def __init__(self, text: str) -> None:
        self._events: Iterator[Event] = yaml.parse(text, Loader=yaml.SafeLoader)
        self._resolver = Resolver()
        self._left = MOST_EVENTS
        self._depth = 0

    def document(self) -> dict[str, Value]:
        self._next()  # the stream's start
        start = self._next()
        if not isinstance(start, DocumentStartEvent) or start.tags:
            raise FrontMatterInvalid("is not a mapping")
        value = self._value(self._next())
        self._next()  # the document's end
        if isinstance(self._next(), DocumentStartEvent):
            raise FrontMatterInvalid("holds more than one document")
        if not isinstance(value, dict):
            raise FrontMatterInvalid("is not a mapping")
        return value

    def _next(self) -> Event:
        self._left -= 1
        if self._left < 0:
            raise FrontMatterInvalid(f"has more than {MOST_EVENTS} parts")
        event = next(self._events)
        if isinstance(event, AliasEvent) or getattr(event, "anchor", None) is not None:
            raise FrontMatterInvalid("uses anchors or aliases (& and *), which are not taken; write the text out")
        if getattr(event, "tag", None) is not None:
            raise FrontMatterInvalid("uses a tag (!), which is not taken; write plain text")
        return event

    def _value(self, event: Event) -> Value:
        if isinstance(event, ScalarEvent):
            return self._scalar(event)
        if not isinstance(event, CollectionStartEvent):
            raise FrontMatterInvalid("is not YAML")
        self._depth += 1
        if self._depth > MOST_DEPTH:
            raise FrontMatterInvalid(f"is nested deeper than {MOST_DEPTH} levels")
        value = self._mapping() if isinstance(event, MappingStartEvent) else self._list(event)
        self._depth -= 1
        return value

    def _mapping(self) -> dict[str, Value]:
        found: dict[str, Value] = {}
        while not isinstance(event := self._next(), MappingEndEvent):
            if not isinstance(event, ScalarEvent):
                raise FrontMatterInvalid("has a key that is not text")
            if event.style is None and event.value == "<<":
                raise FrontMatterInvalid("uses a merge key (<<), which is not taken; write the fields out")
            key = _printable(event.value)
            if key in found:
                raise FrontMatterInvalid(f"has the key {key[:40]!r} twice")
            found[key] = self._value(self._next())
        return found

    def _list(self, start: Event) -> list[Value]:
        assert isinstance(start, SequenceStartEvent)
        found: list[Value] = []
        while not isinstance(event := self._next(), SequenceEndEvent):
            found.append(self._value(event))
        return found

    def _scalar(self, event: ScalarEvent) -> Value:
        tag: str = self._resolver.resolve(ScalarNode, event.value, event.implicit)  # type: ignore[no-untyped-call]  # PyYAML's stubs
        if tag == _TEXT:
            return _printable(event.value)
        return OtherScalar(_KINDS.get(tag.rpartition(":")[2], "no text"))


def _printable(text: str) -> str:
    """Text that every store and client can hold: an escape in quotes may make NUL, controls and halves of characters."""
    if any((ord(letter) < 32 and letter not in "\n\t") or 0xD800 <= ord(letter) < 0xE000 for letter in text):
        raise FrontMatterInvalid("holds control characters or broken ones")
    return text
