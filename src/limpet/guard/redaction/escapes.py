"""Output as it reads once its escape sequences are undone: percent signs, backslashes, HTML's entities, colours. Pure.

A secret in a URL, a JSON string, a web page or a coloured line is not there byte by byte. `Plain` is a stretch of output in which each
sequence stands for what it means, and it knows where every byte of it came from.
"""

import re
from bisect import bisect_right
from html.entities import html5

_HEX = "[0-9A-Fa-f]"
_HIGH, _LOW = r"\\u[dD][89abAB][0-9A-Fa-f]{2}", r"\\u[dD][c-fC-F][0-9A-Fa-f]{2}"
# Entities by name, of whatever templates escape: ASCII, and the letters that PHP's htmlentities() names.
_NAMED = {name[:-1]: text for name, text in html5.items() if name[-1] == ";" and len(text) == 1 and ord(text) < 0x180}
_ENTITY = (
    rf"&(?:#0{{0,8}}(?P<decimal>[0-9]{{1,7}})|#[xX]0{{0,8}}(?P<base16>{_HEX}{{1,6}})|(?P<named>{'|'.join(_NAMED)}));"
)
_SEQUENCE = re.compile(
    rf"%(?P<percent>{_HEX}{{2}})|(?P<pair>{_HIGH}{_LOW})|\\u(?P<unicode>{_HEX}{{4}})|\\x(?P<hex>{_HEX}{{2}})"
    rf"|\\u\{{(?P<braced>{_HEX}{{1,6}})\}}|\\U(?P<long>{_HEX}{{8}})"
    r"|\\(?P<octal>[0-3][0-7]{2})|\\(?P<letter>[abefnrtv])|\\(?P<itself>[ -/:-@\[-`{-~])|(?P<colour>\x1b\[[0-9;]{0,24}[mK])"
    rf"|{_ENTITY}".encode()
)
_UNFINISHED = re.compile(
    rf"(?:%{_HEX}?|\\(?:u{_HEX}{{0,3}}|u\{{{_HEX}{{0,6}}|U{_HEX}{{0,7}}|x{_HEX}?|[0-3][0-7]?)?|{_HIGH}(?:\\(?:u{_HEX}{{0,3}})?)?"
    rf"|\x1b(?:\[[0-9;]{{0,24}})?|&(?:#(?:[0-9]{{0,15}}|[xX]{_HEX}{{0,14}})|[A-Za-z]{{0,{max(map(len, _NAMED))}}})?)\Z".encode()
)
_LETTERS = dict(zip(b"abefnrtv", (b"\a", b"\b", b"\x1b", b"\f", b"\n", b"\r", b"\t", b"\v"), strict=True))
# What every sequence that stands for nothing begins with.
COLOUR = b"\x1b["
# No sequence is longer.
LONGEST = 32


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


class Unescaped:
    """`data[start:end]` with its sequences undone. `start` lies between two sequences."""

    def __init__(self, data: bytes, start: int, end: int) -> None:
        pieces: list[bytes] = []
        self._starts = [0]
        self._marks = [(0, start, start)]  # where a sequence stands here (bytes long), and there (from, to)
        length, place = 0, start
        for found in _SEQUENCE.finditer(data, start, end):
            meaning = _meaning(found)
            pieces += [data[place : found.start()], meaning]
            length += found.start() - place
            self._starts.append(length)
            self._marks.append((len(meaning), found.start(), found.end()))
            length += len(meaning)
            place = found.end()
        pieces.append(data[place:end])
        self.data = b"".join(pieces)
        self._raw = data
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

    def _origin(self, at: int) -> tuple[int, int]:
        index = bisect_right(self._starts, at) - 1
        size, begin, end = self._marks[index]
        beyond = at - self._starts[index] - size
        return (begin, end) if beyond < 0 else (end + beyond, end + beyond + 1)


def _meaning(found: re.Match[bytes]) -> bytes:
    kind, text = found.lastgroup, found.group(found.lastgroup or 0)
    match kind:
        case "percent" | "hex":
            return bytes([int(text, 16)])
        case "pair":
            high, low = int(text[2:6], 16), int(text[8:12], 16)
            return chr(0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00)).encode()
        case "unicode":
            return chr(int(text, 16)).encode("utf-8", "surrogatepass")
        case "base16" | "braced" | "long" | "decimal":
            return _character(int(text, 10 if kind == "decimal" else 16), text)
        case "named":
            return _NAMED[text.decode()].encode()
        case "octal":
            return bytes([int(text, 8)])
        case "letter":
            return _LETTERS[text[0]]
        case "itself":
            return text
        case _:
            return b""


def _character(code: int, text: bytes) -> bytes:
    """Of that number in Unicode; the digits themselves where there is none."""
    return chr(code).encode("utf-8", "surrogatepass") if code <= 0x10FFFF else text
