"""Takes a provider's key out of what the provider says: out of texts and out of events. `key_pieces` does so where it comes in pieces."""

import re
from collections.abc import Iterable
from typing import Any

from limpet.core.hiding import SHORTEST, spellings
from limpet.core.secret import HIDDEN, Secret


def hide_key(text: str, key: Secret | None) -> str:
    """`text` without the provider's key, in any spelling of it."""
    return _without(text, spellings(key))


def _without(text: str, found: Iterable[str]) -> str:
    for spelling in found:
        text = text.replace(spelling, HIDDEN)
    return text


LONGEST_FRAGMENT = 8  # characters; so many that belong to a key are hidden also where the rest of it is elsewhere
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

    @property
    def is_there(self) -> bool:
        """Whether there is a key to hide."""
        return bool(self._texts)

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

    def is_part(self, text: str) -> bool:
        """Whether the text is less than the key and stands somewhere in it."""
        return any(text in spelling and len(text) < len(spelling) for spelling in self._texts)

    def is_fragment(self, text: str) -> bool:
        """Whether the text is so long a part of the key that it is none by chance."""
        return any(len(text) >= _fragment(spelling) and text in spelling for spelling in self._texts)

    def is_first_fragment(self, text: str) -> bool:
        """The same of what the key begins with."""
        return any(len(text) >= _fragment(spelling) and spelling.startswith(text) for spelling in self._texts)

    def hide_end_in(self, text: str) -> str:
        """A text without so long an end of the key at its beginning."""
        for spelling in self._texts:
            least = _fragment(spelling)
            if text[:least] not in spelling:
                continue
            for at in range(len(spelling) - least + 1):
                if text.startswith(spelling[at:]):
                    return HIDDEN + text[len(spelling) - at :]
        return text

    def end_of_key(self, before: str, text: str) -> int:
        """How many characters of a text belong to a key that begins in what stands before it."""
        joined = before + text
        for spelling in self._texts:
            at = joined.find(spelling)
            if 0 <= at < len(before):
                return at + len(spelling) - len(before)
        return 0


def _fragment(spelling: str) -> int:
    """From how many characters on a part of it is hidden by itself: one that stands there by chance would be hidden too."""
    return min(LONGEST_FRAGMENT, max(SHORTEST, (len(spelling) + 1) // 2))
