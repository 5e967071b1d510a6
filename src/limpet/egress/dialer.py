"""Connections to the public internet and nowhere else: a name is resolved once, every address is checked, and the checked one is dialed.

One answer that is not public poisons the whole name (DNS rebinding), and the address that was reached is looked at again.
`tests/egress/test_dialer.py` tries to get around it.
"""

from collections.abc import Iterable, Sequence
from ipaddress import ip_address
from typing import Any

import anyio
import httpcore2

from limpet.core.errors import FetchFailed, FetchRefused
from limpet.egress.addresses import Network, canonical_host, is_public
from limpet.egress.resolver import CONNECTING, MOST_TRIED, Resolve, checked_addresses, not_public, system_resolve


class PublicOnly(httpcore2.AsyncNetworkBackend):
    """Where an HTTP client gets its connections: first calls, redirects, retries and refills of a pool all pass here.

    `ports` may be dialed; `allowed` are networks that the operator named beside the public internet.
    """

    def __init__(
        self, *, ports: frozenset[int], allowed: Sequence[Network] = (), resolve: Resolve = system_resolve
    ) -> None:
        self._ports = ports
        self._allowed = tuple(allowed)
        self._resolve = resolve
        self._inner = httpcore2.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        """A connection to a checked address. Raises FetchRefused, FetchFailed."""
        if port not in self._ports:
            ports = ", ".join(str(number) for number in sorted(self._ports))
            raise FetchRefused(f"Port {port} may not be dialed.", f"Use one of: {ports}.")
        name = canonical_host(host, allowed=self._allowed)
        last: Exception | None = None
        for address in (await checked_addresses(name, port, resolve=self._resolve, allowed=self._allowed))[:MOST_TRIED]:
            try:
                stream = await self._inner.connect_tcp(
                    str(address), port, timeout=timeout or CONNECTING, socket_options=socket_options
                )
            except (OSError, httpcore2.NetworkError, httpcore2.TimeoutException) as error:
                last = error
                continue
            return await self._reached(stream, name)
        raise FetchFailed(f"{name} could not be reached on port {port}.") from last

    async def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: Iterable[Any] | None = None
    ) -> httpcore2.AsyncNetworkStream:
        """Raises FetchRefused: nothing is fetched by a path."""
        raise FetchRefused("A local socket may not be dialed.", "Give an https URL.")

    async def sleep(self, seconds: float) -> None:
        await anyio.sleep(seconds)

    async def _reached(self, stream: httpcore2.AsyncNetworkStream, name: str) -> httpcore2.AsyncNetworkStream:
        peer = stream.get_extra_info("server_addr")
        if peer is not None and is_public(ip_address(peer[0]), allowed=self._allowed):
            return stream
        await stream.aclose()
        raise not_public(name)
