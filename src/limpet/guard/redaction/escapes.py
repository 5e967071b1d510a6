"""Output with its escape sequences decoded: percent encoding, backslashes, HTML's entities, colours. Pure.

A secret in a URL, a JSON string, a web page or a coloured line is not there byte by byte. `Unescaped` is a stretch of output in which each
sequence stands for what it means, and it knows where every byte of it came from.
"""

import re
from bisect import bisect_right
from functools import cached_property
from html.entities import html5
from itertools import accumulate

_HEX = "[0-9A-Fa-f]"
_HIGH, _LOW = r"\\u[dD][89abAB][0-9A-Fa-f]{2}", r"\\u[dD][c-fC-F][0-9A-Fa-f]{2}"
# Entities by name, of whatever templates escape: ASCII, and the letters that PHP's htmlentities() names.
_NAMED = {name[:-1]: text for name, text in html5.items() if name[-1] == ";" and len(text) == 1 and ord(text) < 0x180}
_NAME = f"[A-Za-z][A-Za-z0-9]{{0,{max(map(len, _NAMED)) - 1}}}"
# Each alternative begins with a byte, so that `re` skips to the next of these four by table.
_SEQUENCE = re.compile(
    rf"(%{_HEX}{{2}}|\\(?:u[dD][89abAB][0-9A-Fa-f]{{2}}{_LOW}|u{_HEX}{{4}}|x{_HEX}{{2}}|u\{{{_HEX}{{1,6}}\}}|U{_HEX}{{8}}"
    r"|[0-3][0-7]{2}|[abefnrtv]|[ -/:-@\[-`{-~])|\x1b\[[0-9;]{0,24}[mK]"
    rf"|&(?:#0{{0,8}}[0-9]{{1,7}}|#[xX]0{{0,8}}{_HEX}{{1,6}}|{_NAME});)".encode()
)
_UNFINISHED = re.compile(
    rf"(?:%{_HEX}?|\\(?:u{_HEX}{{0,3}}|u\{{{_HEX}{{0,6}}|U{_HEX}{{0,7}}|x{_HEX}?|[0-3][0-7]?)?|{_HIGH}(?:\\(?:u{_HEX}{{0,3}})?)?"
    rf"|\x1b(?:\[[0-9;]{{0,24}})?|&(?:#(?:[0-9]{{0,15}}|[xX]{_HEX}{{0,14}})|{_NAME})?)\Z".encode()
)
_LETTERS = dict(zip(b"abefnrtv", (b"\a", b"\b", b"\x1b", b"\f", b"\n", b"\r", b"\t", b"\v"), strict=True))
# What every sequence that stands for nothing begins with.
COLOUR = b"\x1b["
# No sequence is longer.
LONGEST = 32
# So many sequences are remembered with what they stand for.
_MOST_KEPT = 4096


def triggers(alphabet: bytes) -> list[bytes]:
    """What a sequence begins with that may stand for one of these bytes, or for nothing at all (a colour)."""
    if not alphabet:
        return [COLOUR]
    known = {*alphabet, *b"\\%&"}  # what is escaped may be an escape
    found = [b"\\u", b"\\U", b"\\x", b"&#", COLOUR, *(b"\\%d" % digit for digit in range(4))]
    found += [b"&%b;" % name.encode() for name, text in _NAMED.items() if set(text.encode()) <= known]
    for byte in known:
        code = b"%02x" % byte
        found += [
            b"%" + form for form in (code, code.upper(), code[:1].upper() + code[1:], code[:1] + code[1:].upper())
        ]
        if not chr(byte).isalnum() and 0x20 <= byte <= 0x7E:
            found.append(b"\\" + bytes([byte]))
    found += [b"\\" + bytes([letter]) for letter, meaning in _LETTERS.items() if meaning[0] in known]
    return sorted(set(found))


def unfinished(data: bytes, start: int) -> int | None:
    """Where a sequence begins that the end of `data` cuts off; None where none does. `start` lies between two sequences."""
    found = _UNFINISHED.search(data, max(start, len(data) - LONGEST))
    while found is not None and _is_escaped(data, start, found.start()):
        found = _UNFINISHED.search(data, found.start() + 1)
    return None if found is None else found.start()


def between(data: bytes, start: int, at: int) -> int:
    """`at`, or where the sequence begins in whose middle it lies. `start` lies between two sequences."""
    for place in range(max(start, at - LONGEST), at):
        if data[place] in b"\\%&\x1b" and not _is_escaped(data, start, place):
            found = _SEQUENCE.match(data, place)
            if found is not None and found.end() > at:
                return place
    return at


def _is_escaped(data: bytes, start: int, at: int) -> bool:
    """Whether an odd number of backslashes stands before, the last of which begins a sequence with this byte."""
    if data[at] == 0x1B:
        return False
    return (at - run_start(data, start, at)) % 2 == 1


def run_start(data: bytes, start: int, at: int) -> int:
    """Where the backslashes begin that stand before `at`; `at` where there are none."""
    return start + len(data[start:at].rstrip(b"\\"))


class UnescapedText:
    """`data[start:end]` with its sequences undone. `start` lies between two sequences."""

    def __init__(self, data: bytes, start: int, end: int) -> None:
        # What stands between sequences, and the sequences, in turn. Where each came from is worked out once it is asked for.
        self._read = _SEQUENCE.split(data[start:end])
        self._meant = self._read.copy()
        self._meant[1::2] = map(_MEANINGS.__getitem__, self._read[1::2])
        self.data = b"".join(self._meant)
        self._raw, self._start = data, start
        self.has_colours = data.find(COLOUR, start, end) >= 0

    def start_of(self, at: int) -> int:
        """Where the byte at `at` begins in the data."""
        return self._origin(at)[0]

    def end_of(self, at: int) -> int:
        """Where the byte before `at` ends in the data."""
        return self._origin(at - 1)[1]

    def is_coloured(self, start: int, end: int) -> bool:
        """Whether a colour stood between these bytes."""
        return self._raw.find(COLOUR, self.start_of(start), self.end_of(end)) >= 0

    @cached_property
    def _ends(self) -> tuple[list[int], list[int]]:
        """Where each piece ends, here and in the data."""
        return list(accumulate(map(len, self._meant))), list(accumulate(map(len, self._read), initial=self._start))[1:]

    def _origin(self, at: int) -> tuple[int, int]:
        here, there = self._ends
        index = min(bisect_right(here, at), len(here) - 1)
        if index % 2 and self._meant[index] != self._read[index]:  # else it is no entity but looks like one
            return there[index] - len(self._read[index]), there[index]
        place = there[index] - (here[index] - at)
        return place, place + 1


class _MeaningCache(dict[bytes, bytes]):
    """What each sequence stands for. Those that were met are kept, so that most are found by a look into a dictionary."""

    def __missing__(self, sequence: bytes) -> bytes:
        if len(self) >= _MOST_KEPT:
            self.clear()
        self[sequence] = meaning = _meaning(sequence)
        return meaning


def _meaning(sequence: bytes) -> bytes:
    match sequence[:1], sequence[1:2]:
        case b"&", b"#":
            digits = sequence[2:-1].lstrip(b"xX")
            return _character(int(digits, 10 if sequence[2:3].isdigit() else 16), digits.lstrip(b"0"))
        case b"&", _:
            return _NAMED.get(sequence[1:-1].decode(), sequence.decode()).encode()
        case (b"%", _) | (_, b"x"):
            return bytes([int(sequence[-2:], 16)])
        case b"\x1b", _:
            return b""
        case _, b"u" | b"U":
            return _of_unicode(sequence)
        case _, letter if letter[0] in _LETTERS:
            return _LETTERS[letter[0]]
        case _, letter if letter.isdigit():
            return bytes([int(sequence[1:], 8)])
        case _, itself:
            return itself


def _of_unicode(sequence: bytes) -> bytes:
    r"""Of \uD83D\uDE00, \u0041, \u{41} and \U00000041."""
    if len(sequence) == 12:
        high, low = int(sequence[2:6], 16), int(sequence[8:12], 16)
        return chr(0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00)).encode()
    digits = sequence[2:].strip(b"{}")
    return _character(int(digits, 16), digits)


def _character(code: int, text: bytes) -> bytes:
    """Of that number in Unicode; the digits themselves where there is none."""
    return chr(code).encode("utf-8", "surrogatepass") if code <= 0x10FFFF else text


_MEANINGS = _MeaningCache()
