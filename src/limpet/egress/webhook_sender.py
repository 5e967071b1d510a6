"""Posts an event to an endpoint that a tenant named: over https, to the public internet, bounded in time; no redirect is followed."""

import ssl
from collections.abc import Mapping

import anyio
import httpcore2

from limpet.core.errors import FetchFailed
from limpet.egress.dialer import PublicOnly
from limpet.egress.fetch import check_url
from limpet.egress.resolver import Resolve, system_resolve
from limpet.egress.settings import WebhookSettings


class WebhookSender:
    """`tls` is the trust (None: the system's store, SSL_CERT_FILE honoured)."""

    def __init__(
        self, settings: WebhookSettings, *, tls: ssl.SSLContext | None = None, resolve: Resolve = system_resolve
    ) -> None:
        self._settings = settings
        self._ports, self._allowed = frozenset(settings.ports), settings.networks()
        self._tls = tls
        self._resolve = resolve

    def check(self, url: str) -> str:
        """The URL as it will be asked. Raises FetchRefused."""
        return check_url(url, ports=self._ports).geturl()

    async def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> int:
        """The status that the endpoint answers with; its body is not read. Raises FetchRefused where it may not be dialed, FetchFailed
        where it does not answer in time."""
        parts = check_url(url, ports=self._ports)
        request = httpcore2.Request(
            "POST",
            parts.geturl(),
            headers=[
                ("Host", parts.netloc),
                ("Content-Type", "application/json"),
                ("Content-Length", str(len(body))),
                ("User-Agent", "limpet"),
                *headers.items(),
            ],
            content=body,
        )
        backend = PublicOnly(ports=self._ports, allowed=self._allowed, resolve=self._resolve)
        if self._tls is None:  # once: reading the system's store holds up the event loop for 20 ms
            self._tls = ssl.create_default_context()
        try:
            with anyio.fail_after(self._settings.timeout_secs):
                async with httpcore2.AsyncConnectionPool(ssl_context=self._tls, network_backend=backend) as pool:
                    response = await pool.handle_async_request(request)
                    with anyio.move_on_after(1, shield=True):
                        await response.aclose()
                    return int(response.status)
        except TimeoutError as error:
            raise FetchFailed(f"It did not answer within {self._settings.timeout_secs:g} seconds.") from error
        except (httpcore2.NetworkError, httpcore2.ProtocolError, httpcore2.TimeoutException, ssl.SSLError) as error:
            raise FetchFailed(f"It did not answer as https demands: {type(error).__name__}.") from error
