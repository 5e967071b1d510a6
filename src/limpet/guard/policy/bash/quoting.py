"""Quotes, braces and patterns of one word, undone as bash undoes them. Pure functions over text."""

import re
from collections.abc import Iterator

Char = tuple[str, bool]  # a character, and whether it was quoted
MOST_BRACES = 128

_ESCAPE = re.compile(r"\\(\n|.|$)", re.DOTALL)
_DOUBLE = re.compile(r'\\([$`"\\\n])')
_ANSI = re.compile(
    r"\\(?:([abeEfnrtv\\'\"?])|([0-7]{1,3})|x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})|U([0-9a-fA-F]{1,8})|(c.)|(.))",
    re.DOTALL,
)
_LETTERS = dict(zip("abeEfnrtv\\'\"?", "\a\b\x1b\x1b\f\n\r\t\v\\'\"?", strict=True))
_NUMBERS = re.compile(r"-?\d{1,9}\.\.-?\d{1,9}(?:\.\.-?\d{1,9})?")
_ALPHABET = re.compile(r"([A-Za-z])\.\.([A-Za-z])")


def unquoted(raw: str) -> list[Char]:
    """A bare piece of a word: backslashes quote, a backslash at the end of a line goes with it."""
    chars: list[Char] = []
    at = 0
    for found in _ESCAPE.finditer(raw):
        chars += [(char, False) for char in raw[at : found.start()]]
        if found[1] != "\n":
            chars += [(char, True) for char in found[1] or "\\"]
        at = found.end()
    return chars + [(char, False) for char in raw[at:]]


def in_double_quotes(raw: str) -> str:
    """A literal piece of "…"."""
    return _DOUBLE.sub(lambda found: "" if found[1] == "\n" else found[1], raw)


def ansi_c(raw: str) -> str | None:
    """The text of $'…'; None where it depends on the locale or is cut off at a NUL."""
    pieces = []
    at = 0
    for found in _ANSI.finditer(raw):
        pieces.append(raw[at : found.start()])
        at = found.end()
        letter, octal, hexa, short, long, control, other = found.groups()
        if letter is not None:
            pieces.append(_LETTERS[letter])
        elif control is not None or other is not None:
            return None
        else:
            code = int(octal, 8) if octal else int(hexa or short or long, 16)
            if not 0 < code < 0x80:
                return None
            pieces.append(chr(code))
    return "".join(pieces) + raw[at:]


def has_braces(chars: list[Char]) -> bool:
    """Whether bash may make several words of this one."""
    return ("{", False) in chars and ("}", False) in chars


def braces(chars: list[Char]) -> list[list[Char]] | None:
    """The words that brace expansion makes of one; None where those are too many to look at."""
    words = []
    for word in _expanded(chars):
        words.append(word)
        if len(words) > MOST_BRACES:
            return None
    return words


def _expanded(chars: list[Char]) -> Iterator[list[Char]]:
    for start, char in enumerate(chars):
        if char != ("{", False):
            continue
        inner = _matched(chars, start)
        if inner is None:
            continue
        choices, end = inner
        for choice in choices:
            for tail in _expanded(chars[end + 1 :]):
                yield chars[:start] + choice + tail
        return
    yield chars


def _matched(chars: list[Char], start: int) -> tuple[list[list[Char]], int] | None:
    """What stands for the brace that opens at `start`, and where it closes; None if it is only a character."""
    depth = 0
    begin = start + 1
    parts: list[list[Char]] = []
    for at in range(start + 1, len(chars)):
        char = chars[at]
        if char == ("{", False):
            depth += 1
        elif char == (",", False) and depth == 0:
            parts.append(chars[begin:at])
            begin = at + 1
        elif char == ("}", False) and depth:
            depth -= 1
        elif char == ("}", False):
            parts.append(chars[begin:at])
            choices = [word for part in parts for word in _expanded(part)] if len(parts) > 1 else _sequence(parts[0])
            return (choices, at) if choices is not None else None
    return None


def _sequence(chars: list[Char]) -> list[list[Char]] | None:
    text = "".join(char for char, _ in chars)
    if any(quoted for _, quoted in chars):
        return None
    if _NUMBERS.fullmatch(text):
        first, last, *_ = (int(part) for part in text.split(".."))
        return [[(digit, True) for digit in str(number)] for number in {first, last}]  # two samples stand for all
    if letters := _ALPHABET.fullmatch(text):
        low, high = sorted(map(ord, letters.groups()))
        return [[(chr(code), True)] for code in range(low, high + 1)]
    return None
