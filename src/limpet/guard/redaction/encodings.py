"""The encodings in which a known secret may appear in output: plain, base64, hexadecimal and others that programs commonly use. Pure.

Beside these `escapes` undoes percent signs, backslashes, HTML's entities and colours, in any mixture and one in the other. What else
changes every byte (rev, gzip, one character a line) is not recognised: redaction stops accidents, and what must never be seen must
not be in the box.
"""

import base64
import html
import json
import shlex
from collections.abc import Iterator, Mapping
from urllib.parse import quote, unquote_to_bytes

from limpet.core.errors import ConfigInvalid
from limpet.core.secret import Secret
from limpet.guard.redaction import escapes

# Shorter values are in every output by chance.
SHORTEST = 8
# Longer ones are sought piece by piece, so that no form is long. Pieces share some characters, since the edges of a piece in
# base64 depend on its neighbours.
PIECE = 512
SHARED = 4
# A line of a longer value is a secret of its own from this length on: it is what a program shows that works line by line.
LINE = 16
_WRAPPED = ((57, 76), (48, 64), (45, 60))


def require_long_enough(secrets: Mapping[str, Secret]) -> None:
    """Raises ConfigInvalid that names the first secret that is none, or too short to be sought."""
    for name, secret in secrets.items():
        if not isinstance(secret, Secret):  # a plain text, which errors and representations would show
            raise ConfigInvalid("redaction", f"secrets.{name}", "must be a secret: write limpet.Secret(…) around it.")
        if len(secret.reveal().strip()) < SHORTEST:
            raise ConfigInvalid(
                "redaction",
                f"secrets.{name}",
                f"a secret to be hidden has at least {SHORTEST} characters, blanks around it aside; a shorter one would be"
                " found in ordinary words. Leave it out, or hide it with a pattern.",
            )


def forms(value: str) -> Iterator[bytes]:
    """Every form to be sought, some of them twice; none is shorter than SHORTEST bytes."""
    core = value.strip()
    for text in {core, core.replace("\n", "\r\n"), *_lines(core)}:
        for piece in _pieces(text):
            yield from (each for form in _forms_of(piece) for each in _read(form) if len(each) >= SHORTEST)
    yield from _wrapped(_encoded(value))
    yield from _wrapped(_encoded(value.rstrip("\n") + "\n"))


def _read(form: bytes) -> set[bytes]:
    """A form, and as it reads where what only looks like an escape in it was undone with the others."""
    if b"%" not in form and b"\\" not in form:
        return {form}
    return {form, unquote_to_bytes(form), escapes.UnescapedText(form, 0, len(form)).data}


def _pieces(text: str) -> Iterator[str]:
    yield text[:PIECE]
    for start in range(PIECE - SHARED, len(text) - SHARED, PIECE - SHARED):
        # The last is as long as the others, and so never a word or two.
        end = min(start + PIECE, len(text))
        yield text[end - PIECE : end]


def _lines(text: str) -> Iterator[str]:
    lines = [line.strip() for line in text.splitlines()]
    if len(lines) > 1:
        yield from (line for line in lines if len(line) >= LINE and not line.startswith("-----"))


def _forms_of(text: str) -> Iterator[bytes]:
    raw = _encoded(text)
    yield raw
    yield from _base64(raw)
    yield raw.hex().encode()
    yield raw.hex().upper().encode()
    yield _encoded(text.replace(" ", "+"))
    yield quote(raw, safe="").encode()  # what is escaped twice is this after one time
    yield _encoded(json.dumps(text)[1:-1])
    yield _encoded(json.dumps(text, ensure_ascii=False)[1:-1])
    yield _encoded(html.escape(text))
    yield _encoded(shlex.quote(text).removeprefix("'").removesuffix("'"))
    yield _encoded(text.replace("'", "'\\''"))
    yield _encoded(text.replace("'", "''"))  # SQL, YAML, PowerShell
    yield _encoded(text.replace('"', '""'))  # CSV


def _base64(raw: bytes) -> Iterator[bytes]:
    """Its base64, and the part of it that is the same whatever stands before and after, at the three places of a byte."""
    for form in (base64.b64encode(raw), *(_inner_base64(raw, offset) for offset in range(3))):
        yield form
        yield form.replace(b"+", b"-").replace(b"/", b"_")


def _inner_base64(raw: bytes, offset: int) -> bytes:
    encoded = base64.b64encode(bytes(offset) + raw)
    return encoded[(offset * 8 + 5) // 6 : (offset + len(raw)) * 8 // 6]


def _wrapped(raw: bytes) -> Iterator[bytes]:
    """Each full line that base64, openssl and xxd make of a longer value."""
    for step, width in _WRAPPED:
        if len(raw) > step:
            yield from (line for line in _split(base64.b64encode(raw), width) if len(line) >= LINE)
    if len(raw) > 30:
        yield from (line for line in _split(raw.hex().encode(), 60) if len(line) >= LINE)


def _split(data: bytes, width: int) -> Iterator[bytes]:
    yield from (data[start : start + width] for start in range(0, len(data), width))


def _encoded(text: str) -> bytes:
    """As it left a program: bytes that were not UTF-8 are those bytes again."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")
