"""Takes configured secrets out of text that is shown: errors, log lines, events. `protect` registers a configured secret, once.

Every `LimpetError` goes through here, so that no road of an error (answer, event, row, log) has to remember it.
"""

import json
import logging
from base64 import b64encode
from collections.abc import Hashable, Iterable, Iterator
from urllib.parse import quote

from limpet.core.secret import HIDDEN, Secret

SHORTEST = 4  # characters; a shorter secret would match parts of ordinary words
SHORTEST_ENCODED = 8  # bytes; of a shorter one too little stays of its own in base64
_URL_SAFE = str.maketrans("+/", "-_")
# What the manuals of local servers tell people to write where a key is asked for: hiding these would eat ordinary text.
PLACEHOLDERS = frozenset({
    "ollama", "lm-studio", "vllm", "none", "empty", "dummy", "local", "limpet", "no-key", "not-needed", "no key needed",
    "none needed", "sk-no-key-required",
})  # fmt: skip

_values: dict[Hashable, tuple[str, ...]] = {}  # the spellings that each key protects
_protected: dict[str, None] = {}  # all of them, the longest first


def spellings(secret: Secret | None) -> tuple[str, ...]:
    """The forms of a secret in text: plain, as a JSON string, in a URL; of a longer one also in hexadecimal, and in base64 wherever it
    stands there, but for what its neighbours decide. The longest first. Empty where there is nothing to hide."""
    value = secret.reveal().strip() if secret is not None else ""
    if len(value) < SHORTEST or value.lower() in PLACEHOLDERS:
        return ()
    escaped = json.dumps(value)[1:-1]
    found = {
        value,
        escaped,
        escaped.replace("/", "\\/"),
        json.dumps(value, ensure_ascii=False)[1:-1],
        quote(value, safe="", errors="surrogatepass"),
        *_encoded(value),
    }
    return tuple(sorted(found, key=len, reverse=True))


def _encoded(value: str) -> Iterator[str]:
    data = value.encode(errors="surrogatepass")
    if len(data) < SHORTEST_ENCODED:
        return
    yield from (data.hex(), data.hex().upper())
    for before in range(3):  # bytes of what stands before it in a group of three
        digits = b64encode(bytes(before) + data)[before + (before > 0) : (before + len(data)) * 8 // 6].decode()
        yield from (digits, digits.replace("/", "\\/"), digits.translate(_URL_SAFE))


def protect(secrets: Iterable[Secret | None], *, key: Hashable = None) -> None:
    """From now on these are in no error and no log line of this process. With a `key` they take the place of those that it had, so that
    a value that is rotated for ever does not make every line slower."""
    before = _values.get(key, ()) if key is None else ()
    _values[key] = (*before, *(spelling for secret in secrets for spelling in spellings(secret)))
    found = {spelling for each in _values.values() for spelling in each}
    _protected.clear()
    _protected.update(dict.fromkeys(sorted(found, key=len, reverse=True)))


def hide_secrets(text: str) -> str:
    """`text` with ``[REDACTED]`` in place of everything that is protected."""
    for spelling in _protected:
        if spelling in text:
            text = text.replace(spelling, HIDDEN)
    return text


def secrets_in(settings: object) -> list[Secret]:
    """Every Secret in a tree of dataclasses, mappings and sequences."""
    if isinstance(settings, Secret):
        return [settings]
    if isinstance(settings, dict):
        return [found for value in settings.values() for found in secrets_in(value)]
    if isinstance(settings, list | tuple | set | frozenset):
        return [found for value in settings for found in secrets_in(value)]
    names = getattr(settings, "__dataclass_fields__", ())
    return [found for name in names for found in secrets_in(getattr(settings, name))]


class HidingFormatter(logging.Formatter):
    """Lines of `logging`, tracebacks included, without any configured secret."""

    def format(self, record: logging.LogRecord) -> str:
        return hide_secrets(super().format(record))
