"""Fetches what a request names by URL: over https, from the public internet, bounded in time, redirects and size.

Carries no cookie, no credential and no proxy of the environment; what it says of a failure names no inner address.
"""

import ssl
import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from urllib.parse import SplitResult, quote, urljoin, urlsplit

import anyio
import httpcore2

from limpet.core.errors import FetchError, FetchFailed, FetchRefused
from limpet.egress.dialer import PublicOnly
from limpet.egress.resolver import Resolve, system_resolve
from limpet.egress.settings import FetchSettings

MOST_URL = 8192
MOST_REDIRECTS = 5
PIECE = 1 << 16
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_KEPT = "%/:;=@?&+$,!*'()~|[]{}^`"  # what stands in a path or a query as its writer meant it
_IDENTITY = frozenset({"", "identity"})
_DEFLATED = frozenset({"gzip", "x-gzip", "deflate"})


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedFile:
    """An answer that has begun. `url` is the last one after redirects; `data` its content, decompressed, in pieces.

    Reading raises FetchFailed (broken off, too slow) and FetchRefused (more than the bytes allowed).
    """

    url: str
    content_type: str | None
    data: AsyncIterator[bytes]


class Fetcher:
    """Fetches files for requests. `tls` is the trust (None: the system's store, SSL_CERT_FILE honoured)."""

    def __init__(
        self,
        settings: FetchSettings | None = None,
        *,
        tls: ssl.SSLContext | None = None,
        resolve: Resolve = system_resolve,
    ) -> None:
        self._settings = settings or FetchSettings()
        self._ports, self._allowed = frozenset(self._settings.ports), self._settings.networks()
        self._tls = tls
        self._resolve = resolve

    @asynccontextmanager
    async def open(self, url: str, *, max_bytes: int | None = None) -> AsyncGenerator[FetchedFile, None]:
        """The file behind a URL, for the time of the block; `max_bytes` lowers the settings' bound.

        Raises FetchRefused for a URL that may not be fetched (also for one that a redirect leads to), FetchFailed where the other
        side does not deliver.
        """
        most = min(self._settings.max_bytes, max_bytes or self._settings.max_bytes)
        backend = PublicOnly(ports=self._ports, allowed=self._allowed, resolve=self._resolve)
        if self._tls is None:  # once: reading the system's store holds up the event loop for 20 ms
            self._tls = ssl.create_default_context()
        deadline = anyio.current_time() + self._settings.timeout_secs
        async with httpcore2.AsyncConnectionPool(ssl_context=self._tls, network_backend=backend) as pool:
            response, last = await self._follow(pool, url, deadline)
            try:
                yield FetchedFile(
                    url=last,
                    content_type=_header(response, b"content-type"),
                    data=self._content(response, most, deadline),
                )
            finally:
                with anyio.move_on_after(1, shield=True):
                    await response.aclose()

    async def _follow(
        self, pool: httpcore2.AsyncConnectionPool, url: str, deadline: float
    ) -> tuple[httpcore2.Response, str]:
        first = url
        for hop in range(MOST_REDIRECTS + 1):
            try:
                checked = check_url(url, ports=self._ports)
                response = await self._ask(pool, checked.geturl(), deadline)
                target = _header(response, b"location")
                if response.status not in _REDIRECTS or target is None:
                    return await self._succeeded(response, checked), checked.geturl()
            except FetchError as error:
                if hop == 0:
                    raise
                raise _hidden_redirect(error, first) from error
            await response.aclose()
            url = urljoin(checked.geturl(), target)
        raise FetchFailed(f"{_shown(url)}: more than {MOST_REDIRECTS} redirects.")

    async def _ask(self, pool: httpcore2.AsyncConnectionPool, url: str, deadline: float) -> httpcore2.Response:
        request = httpcore2.Request(
            "GET",
            url,
            headers={"Host": urlsplit(url).netloc, "Accept": "*/*", "Accept-Encoding": "gzip", "User-Agent": "limpet"},
        )
        try:
            with anyio.fail_at(deadline):
                return await pool.handle_async_request(request)
        except TimeoutError as error:
            raise self._too_slow(url) from error
        except (httpcore2.NetworkError, httpcore2.ProtocolError, httpcore2.TimeoutException, ssl.SSLError) as error:
            raise FetchFailed(
                f"{_shown(url)}: {type(error).__name__}. Its server did not answer as https demands."
            ) from error

    async def _succeeded(self, response: httpcore2.Response, url: SplitResult) -> httpcore2.Response:
        if response.status == 200:
            return response
        await response.aclose()
        raise FetchFailed(f"{_shown(url.geturl())}: its server answers with status {response.status}.")

    async def _content(self, response: httpcore2.Response, most: int, deadline: float) -> AsyncIterator[bytes]:
        encoding = (_header(response, b"content-encoding") or "").strip().lower()
        if encoding not in _IDENTITY | _DEFLATED:
            raise FetchFailed(f"Its server sends the content encoding {encoding!r}, which was not asked for.")
        unpack = None if encoding in _IDENTITY else zlib.decompressobj(wbits=47)
        size = 0
        pieces = aiter(response.aiter_stream())
        while True:
            try:
                with anyio.fail_at(deadline):
                    raw = await anext(pieces)
            except StopAsyncIteration:
                break
            except TimeoutError as error:
                raise self._too_slow("The file") from error
            except (httpcore2.NetworkError, httpcore2.ProtocolError, httpcore2.TimeoutException) as error:
                raise FetchFailed("Its server broke off before the end of the file.") from error
            for piece in [raw] if unpack is None else _unpacked(unpack, raw):
                size += len(piece)
                if size > most:
                    raise FetchRefused(f"The file is larger than {most} bytes.", "Give a smaller one.")
                yield piece
        if unpack is not None and not unpack.eof:
            raise FetchFailed("Its compressed content ends in the middle.")

    def _too_slow(self, what: str) -> FetchFailed:
        return FetchFailed(f"{_shown(what)} was not there within {self._settings.timeout_secs:g} seconds.")


def _hidden_redirect(error: FetchError, first: str) -> FetchError:
    """The error of an address that a redirect led to, without that address: the client may not be allowed to know it."""
    if isinstance(error, FetchRefused):
        return FetchRefused(
            f"{_shown(first)} redirects to where nothing may be fetched.", "Give the file's own address."
        )
    return FetchFailed(f"{_shown(first)}: what it redirects to could not be fetched.")


def check_url(url: str, *, ports: frozenset[int] = frozenset({443})) -> SplitResult:
    """The parts of a URL that may be fetched: https, a host, no user, a port of `ports`. Raises FetchRefused."""
    if len(url) > MOST_URL or any(ord(letter) <= 32 or ord(letter) == 127 for letter in url):
        raise FetchRefused("The URL is too long, or holds spaces or control characters.", "Encode them with %.")
    try:
        parts = urlsplit(url)
        port = parts.port or 443
    except ValueError as error:
        raise FetchRefused(f"{_shown(url)} is not a URL.", "Write it as https://files.example.com/data.csv.") from error
    if parts.scheme != "https":
        raise FetchRefused(f"{parts.scheme or 'no'} is not the scheme https.", "Only https URLs are fetched.")
    if "@" in parts.netloc or "\\" in url:
        raise FetchRefused("The URL carries a user or a backslash.", "Give one without.")
    if not parts.hostname:
        raise FetchRefused(f"{_shown(url)} names no host.", "Write it as https://files.example.com/data.csv.")
    if port not in ports:
        raise FetchRefused(f"Port {port} may not be dialed.", f"Use one of: {', '.join(map(str, sorted(ports)))}.")
    return _in_ascii(parts)._replace(fragment="", path=quote(parts.path or "/", safe=_KEPT))


def _in_ascii(parts: SplitResult) -> SplitResult:
    """As it goes over the wire: a name in its ASCII form, other letters as %XX."""
    try:
        netloc = parts.netloc if parts.netloc.isascii() else parts.netloc.encode("idna").decode("ascii")
    except UnicodeError as error:
        raise FetchRefused(f"{parts.netloc[:100]!r} names no host.", "Write it as files.example.com.") from error
    return parts._replace(netloc=netloc, query=quote(parts.query, safe=_KEPT))


def _unpacked(unpack: "zlib._Decompress", raw: bytes) -> Iterator[bytes]:
    """The content of these bytes, in pieces that are bounded however much they swell."""
    data = raw
    while data and not unpack.eof:
        try:
            piece = unpack.decompress(data, PIECE)
        except zlib.error as error:
            raise FetchFailed("Its compressed content is damaged.") from error
        data = unpack.unconsumed_tail
        if piece:
            yield piece


def _header(response: httpcore2.Response, name: bytes) -> str | None:
    return next((value.decode("latin-1") for key, value in response.headers if key.lower() == name), None)


def _shown(url: str) -> str:
    """A URL as an error may show it: without its query, which may hold a token."""
    return url.partition("?")[0][:200]
