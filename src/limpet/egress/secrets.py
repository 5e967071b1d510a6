"""Secrets that a box uses and never holds: it has a placeholder, and the door puts the value in its place. Pure.

A placeholder is replaced in the fields of a request's head (in Basic credentials too), and where the secret allows it in the query and in
the body; only towards the secret's own hosts and only over verified TLS. What comes back is searched for the value in its usual encodings.
"""

import base64
import binascii
import html
import json
import re
import secrets
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from urllib.parse import quote, quote_plus

from limpet.core.secret import PLACEHOLDER, Secret
from limpet.egress.host_patterns import HostPattern
from limpet.egress.http_heads import CHUNKED, MOST_HEAD, Field, MalformedHttp, RequestHead, ResponseHead
from limpet.egress.policy import Reason, Refused

LEAST_SCRUBBED = 8  # bytes; what is shorter is found in too much that is no secret
MOST_VALUE = 8_192  # bytes: a head with more is refused by servers
MOST_BODY = 1 << 18  # bytes of a body that is read whole and keeps a length; a longer one is sent on in pieces, chunked
MOST_GROWN = 1 << 20  # bytes of such a body, or of a piece of a longer one, once the values are in it
_FORM = b"application/x-www-form-urlencoded"
_BASIC = b"basic "
_MASK = b"*"
_PROBE = 16  # bytes of a needle that are looked for before more of it is compared
_MOST_TRIED = 16  # places that are compared in full


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainSecret:
    """A secret for these `hosts` alone (such as `api.example.com`); `in_query`: also where it stands in a URL's query; `in_body`: also in
    a request's body (docs/egress.md says in which)."""

    value: Secret
    hosts: tuple[str, ...]
    in_query: bool = False
    in_body: bool = False


def new_placeholder() -> bytes:
    """One that was never there before, in letters and digits that no encoding of a request changes but base64."""
    return (PLACEHOLDER + secrets.token_hex(20)).encode()


@dataclass(frozen=True, kw_only=True)  # without slots: it keeps its needles
class PlacedSecret:
    """A secret in a box: `name` is its variable there, `placeholder` what that holds. Several may have one placeholder, with values for
    different hosts."""

    name: str
    value: bytes = field(repr=False)
    also_hidden: tuple[bytes, ...] = field(
        default=(), repr=False
    )  # values that it had before: never sent, masked in what comes back
    hosts: tuple[HostPattern, ...]
    in_query: bool = False
    in_body: bool = False
    placeholder: bytes = field(default_factory=new_placeholder)

    def is_for(self, host: str) -> bool:
        return any(pattern.matches(host) for pattern in self.hosts)

    @cached_property
    def needles(self) -> frozenset[bytes]:
        """What is masked in answers: each value in each encoding."""
        return frozenset[bytes]().union(*map(encodings, (self.value, *self.also_hidden)))


def encodings(value: bytes) -> frozenset[bytes]:
    """The forms in which a server may send back what it was sent: as it is, in base64 at each alignment, base32, hexadecimal, percent
    (once and twice), JSON, HTML, and backwards."""
    found = {value, value[::-1], value.hex().encode(), value.hex().upper().encode()}
    for shift in range(3):
        encoded = base64.b64encode(b"\0" * shift + value)
        # What depends on the bytes before and behind it is left out.
        inner = encoded[(shift * 8 + 5) // 6 : (shift + len(value)) * 8 // 6]
        found |= {inner, inner.translate(bytes.maketrans(b"+/", b"-_"))}
    text = value.decode("utf-8", "surrogateescape")
    percent = quote(value, safe="")
    lower = _lower_escapes(percent)
    found |= {percent.encode(), lower.encode(), quote(percent, safe="").encode(), quote(value).encode()}
    found |= {lower.replace("%", "%25").encode(), _lower_escapes(quote_plus(value)).encode()}
    found |= {quote_plus(value).encode(), base64.b32encode(value).rstrip(b"=")[:-1]}
    found |= {form.encode(errors="surrogateescape") for form in (*_in_json(text), *_in_html(text))}
    return frozenset(form for form in found if len(form) >= LEAST_SCRUBBED)


def _in_json(text: str) -> Iterator[str]:
    """As writers of JSON escape it: each that is named escapes these characters of ASCII too, in its own case of the digits."""
    lower = {character: json.dumps(character)[1:-1] for character in text if ord(character) > 126}
    upper = {character: code.upper().replace("U", "u") for character, code in lower.items()}
    for escaped in (
        "",
        "&<>",
        "&<>'=",
        "&<>'\"",
        "&<>'\"+`",
        "&<>'\"+=/`",
    ):  # plain; Go and Rails; Gson; PHP; .NET; all
        for written in ("\\u{:04x}", "\\u{:04X}"):
            codes = {'"': '\\"', "\\": "\\\\"} | {mark: written.format(ord(mark)) for mark in escaped}
            for beyond in ({}, lower, upper):
                form = text.translate({ord(mark): code for mark, code in (codes | beyond).items()})
                yield from (form, form.replace("/", "\\/"))


def _in_html(text: str) -> Iterator[str]:
    escaped = html.escape(text, quote=False)
    yield escaped
    for double in ('"', "&quot;", "&#34;", "&#x22;"):
        for single in ("'", "&#x27;", "&#39;", "&#039;", "&apos;"):
            form = escaped.replace('"', double).replace("'", single)
            yield from (form, form.replace("/", "&#x2F;").replace("+", "&#43;"))


class _NeedleStream:
    """A stream in which needles become something else. What could be the beginning of one is held back until more comes."""

    def __init__(self, needles: Collection[bytes]) -> None:
        self._needles = needles
        self._tail = b""

    def feed(self, piece: bytes) -> bytes:
        data = self.whole(self._tail + piece)
        held = max((_overlap(data, needle) for needle in self._needles), default=0)
        self._tail = data[len(data) - held :]
        return data[: len(data) - held]

    def end(self) -> bytes:
        rest, self._tail = self._tail, b""
        return rest

    def whole(self, data: bytes) -> bytes:
        """All of it at once."""
        raise NotImplementedError


class Scrubber(_NeedleStream):
    """Masks needles in a stream, byte for byte."""

    def __init__(self, needles: Iterable[bytes]) -> None:
        super().__init__(sorted(needles, key=len, reverse=True))

    def whole(self, data: bytes) -> bytes:
        """All of it at once."""
        for needle in self._needles:
            if needle in data:
                data = data.replace(needle, _MASK * len(needle))
        return data


def _overlap(data: bytes, needle: bytes) -> int:
    """How many bytes of the end of `data` begin `needle`, and not all of it. Where `data` looks like its beginning at very many places,
    as a run of one character may, more than these: comparing each would take time in the square of the needle's length."""
    begin = max(0, len(data) - len(needle) + 1)
    probe = needle[:_PROBE]
    at = data.find(probe, begin)
    for _ in range(_MOST_TRIED):
        if at < 0:
            break
        if needle.startswith(data[at:]):
            return len(data) - at
        at = data.find(probe, at + 1)
    if at >= 0:
        return len(data) - at
    at = data.find(needle[:1], max(begin, len(data) - _PROBE + 1))
    while at >= 0:
        if needle.startswith(data[at:]):
            return len(data) - at
        at = data.find(needle[:1], at + 1)
    return 0


def _with_values(data: bytes, replaced: Iterable[tuple[bytes, bytes]], most: int) -> bytes:
    """`data` with a value in the place of each placeholder. Raises MalformedHttp, before it grows, where it would become longer than
    `most` bytes: a placeholder is short, a value long, and a box may write any number of them."""
    for placeholder, value in replaced:
        if count := data.count(placeholder):
            if len(data) + count * (len(value) - len(placeholder)) > most:
                raise MalformedHttp("too long with its secrets")
            data = data.replace(placeholder, value)
    return data


class Replacer(_NeedleStream):
    """Puts values in the place of placeholders in a stream whose length may change; `found` are those that there were. MalformedHttp for
    a piece that would become longer than MOST_GROWN."""

    def __init__(self, replaced: Mapping[bytes, bytes]) -> None:
        super().__init__(replaced)
        self._replaced = replaced
        self.found: set[bytes] = set()

    @property
    def replaces_any(self) -> bool:
        return bool(self._replaced)

    def whole(self, data: bytes) -> bytes:
        """All of it at once."""
        self.found.update(placeholder for placeholder in self._replaced if placeholder in data)
        return _with_values(data, self._replaced.items(), MOST_GROWN)


class SecretRewriter:
    """http_exchange.Rewriting towards one host. `refusal` is what becomes of a request that carries no secret. MalformedHttp where a head
    would become longer than MOST_HEAD, or a body than MOST_GROWN."""

    def __init__(self, head: RequestHead, ours: Sequence[PlacedSecret], *, refusal: Refused | None = None) -> None:
        self._ours = ours
        self._refusal = refusal
        self._in_head = tuple(secret.name for secret in ours if _carries(head, secret))
        self._scrubber = Scrubber(frozenset[bytes]().union(*(secret.needles for secret in ours)))
        self._in_bodies = [secret for secret in ours if secret.in_body]
        self._replacer = Replacer(_in_body(head, self._in_bodies))
        # HTTP/1.0 knows no chunks: its long bodies go as they are.
        self._is_streamed = self._replacer.replaces_any and (
            head.length == CHUNKED or (head.length > MOST_BODY and head.minor > 0)
        )

    @property
    def most_body(self) -> int:
        return MOST_BODY if self._in_bodies else 0

    @property
    def used(self) -> tuple[str, ...]:
        """The names of the secrets that were put in until now."""
        found = (secret.name for secret in self._in_bodies if secret.placeholder in self._replacer.found)
        return tuple(dict.fromkeys((*self._in_head, *found)))

    def request(self, head: RequestHead, body: bytes | None) -> tuple[RequestHead, bytes | None] | Refused:
        dropped = _NOT_PASSED if body is None else _NOT_PASSED | {b"expect"}
        if body is not None:
            body = self._replacer.whole(body)
            head = replace(head, length=len(body))
        elif self._is_streamed:
            head = replace(head, length=CHUNKED)
        if self._refusal is not None and not self.used:
            return self._refusal
        in_query = (
            (secret.placeholder, quote(secret.value, safe="").encode()) for secret in self._ours if secret.in_query
        )
        target = _with_values(head.target, in_query, MOST_HEAD)
        left = MOST_HEAD - len(target)
        fields: list[Field] = []
        for name, value in head.fields:
            if name.lower() not in dropped:
                fields.append((name, self._placed(value, left)))
                left -= len(name) + len(fields[-1][1])
        if left < 0:
            raise MalformedHttp("too long with its secrets")
        # What is encoded, or a part of the whole, could not be searched.
        fields.append((b"Accept-Encoding", b"identity"))
        return replace(head, fields=tuple(fields), target=target), body

    def _placed(self, value: bytes, most: int) -> bytes:
        ours = [(secret.placeholder, secret.value) for secret in self._ours]
        if value[: len(_BASIC)].lower() == _BASIC:
            decoded = _decoded(value[len(_BASIC) :])
            if any(placeholder in decoded for placeholder, _ in ours):
                return value[: len(_BASIC)] + base64.b64encode(_with_values(decoded, ours, most * 3 // 4))
        return _with_values(value, ours, most)

    def response(self, head: ResponseHead) -> ResponseHead:
        fields: tuple[Field, ...] = tuple((name, self._scrubber.whole(value)) for name, value in head.fields)
        return replace(head, fields=fields, phrase=self._scrubber.whole(head.phrase))

    def sent(self, piece: bytes) -> bytes:
        return self._replacer.feed(piece) if self._is_streamed else piece

    def sent_end(self) -> bytes:
        return self._replacer.end()

    def received(self, piece: bytes) -> bytes:
        return self._scrubber.feed(piece)

    def received_end(self) -> bytes:
        return self._scrubber.end()


def _in_body(head: RequestHead, ours: Iterable[PlacedSecret]) -> dict[bytes, bytes]:
    """What stands for each placeholder in a body of that type; nothing in one that is encoded."""
    if any(value.lower() != b"identity" for value in head.values(b"content-encoding")):
        return {}
    kind = b"".join(head.values(b"content-type")[:1]).partition(b";")[0].strip().lower()
    return {secret.placeholder: _written_for(kind, secret.value) for secret in ours}


def _written_for(kind: bytes, value: bytes) -> bytes:
    if kind == _FORM:
        return quote(value, safe="").encode()
    if kind == b"application/json" or kind.endswith(b"+json"):
        return json.dumps(value.decode(errors="surrogateescape"), ensure_ascii=False)[1:-1].encode(
            errors="surrogateescape"
        )
    return value


def _lower_escapes(text: str) -> str:
    """With the letters of `%2F` and its kin in lower case, as some servers write them."""
    return re.sub("%[0-9A-F]{2}", lambda found: found[0].lower(), text)


_NOT_PASSED = frozenset({b"accept-encoding", b"range", b"if-range", b"sec-websocket-extensions"})


def rewriting_for(
    head: RequestHead, host: str, port: int, secrets_of_box: Sequence[PlacedSecret], *, needs_one: bool
) -> SecretRewriter | Refused:
    """What a request to that host becomes; refused where it carries what is not for it, and with `needs_one` where it carries none."""
    ours = [secret for secret in secrets_of_box if secret.is_for(host)]
    known = {secret.placeholder for secret in ours}
    others = [secret for secret in secrets_of_box if secret.placeholder not in known]
    if any(_carries(head, secret) or secret.placeholder in head.target for secret in others):
        return Refused(host=host, port=port, reason=Reason.SECRET_ELSEWHERE)
    if any(secret.placeholder in head.target and not _may_stand_in(head.target, secret) for secret in ours):
        return Refused(host=host, port=port, reason=Reason.SECRET_ELSEWHERE)
    refusal = Refused(host=host, port=port, reason=Reason.HOST_NOT_ALLOWED) if needs_one else None
    rewriting = SecretRewriter(head, ours, refusal=refusal)
    if refusal is not None and not rewriting.used and not rewriting.most_body:
        return refusal
    return rewriting


def carries_any(head: RequestHead, secrets_of_box: Iterable[PlacedSecret]) -> bool:
    """Whether a request's head holds a placeholder, wherever."""
    return any(_carries(head, secret) or secret.placeholder in head.target for secret in secrets_of_box)


def _carries(head: RequestHead, secret: PlacedSecret) -> bool:
    if secret.in_query and secret.placeholder in head.target:
        return True
    return any(
        secret.placeholder in value
        or (value[: len(_BASIC)].lower() == _BASIC and secret.placeholder in _decoded(value[len(_BASIC) :]))
        for _, value in head.fields
    )


def _may_stand_in(target: bytes, secret: PlacedSecret) -> bool:
    path, _, _ = target.partition(b"?")
    return secret.in_query and secret.placeholder not in path


def _decoded(value: bytes) -> bytes:
    try:
        return base64.b64decode(value.strip(), validate=True)
    except (ValueError, binascii.Error):
        return b""


def place(
    given: Mapping[str, DomainSecret], patterns: Mapping[str, tuple[HostPattern, ...]]
) -> tuple[PlacedSecret, ...]:
    """Secrets with placeholders of their own. Raises ValueError for a value that could not stand in a head."""
    return tuple(
        PlacedSecret(
            name=name,
            value=sendable(name, secret.value),
            hosts=patterns[name],
            in_query=secret.in_query,
            in_body=secret.in_body,
        )
        for name, secret in given.items()
    )


def sendable(name: str, secret: Secret) -> bytes:
    """The value of the secret of that name, as it is sent. Raises ValueError for one that no request could carry in its head."""
    value = secret.reveal().encode(errors="surrogateescape")
    if len(value) > MOST_VALUE:
        raise ValueError(f"the secret {name} is longer than {MOST_VALUE} bytes, which no server takes in a head")
    if not value or any(byte < 32 or byte == 127 for byte in value):
        raise ValueError(f"the secret {name} is empty or holds control characters, which no head can carry")
    return value
