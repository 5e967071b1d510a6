"""What an operator may choose about where the gateway listens and who is let in. Values only."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from ipaddress import ip_network
from typing import Literal
from urllib.parse import urlsplit

from limpet.core.secret import Secret
from limpet.core.settings import Port
from limpet.ingress.limits import ConnectionLimits

AccessLevel = Literal["debug", "info", "off"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """`[server]`. `port` 0 takes a free one. `trusted_proxies` are addresses and networks: who connects from there says for whom,
    in `X-Forwarded-For` and `X-Forwarded-Proto`; from elsewhere these headers mean nothing. `advertise` is where other gateways of the
    database reach this one, None for the address that it listens on.
    """

    host: str = "127.0.0.1"
    port: Port = 8420
    secret_key: Secret | None = None
    secret_key_previous: Secret | None = None
    advertise: str | None = None
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    access_log: AccessLevel = "info"
    trusted_proxies: tuple[str, ...] = ()
    connections: ConnectionLimits = field(default_factory=ConnectionLimits)

    def conflicts(self) -> Iterator[tuple[str, str]]:
        """See `core.settings.Checked`."""
        for proxy in self.trusted_proxies:
            try:
                ip_network(proxy)
            except ValueError:
                yield "trusted_proxies", f"should hold addresses and networks such as 10.0.0.0/8, not {proxy!r}"
        if self.advertise is not None and not _is_address(self.advertise):
            yield "advertise", f"should be http://HOST:PORT, not {self.advertise!r}"


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthSettings:
    """`[auth]`. `none` lets in every program of this machine, `keys` clients that send a key, from anywhere."""

    mode: Literal["none", "keys"] = "none"


def _is_address(text: str) -> bool:
    try:
        place = urlsplit(text)
        return place.scheme == "http" and bool(place.hostname and place.port) and text == f"http://{place.netloc}"
    except ValueError:
        return False
