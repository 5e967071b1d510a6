"""What an operator may choose about where the gateway listens and who is let in. Values only."""

from dataclasses import dataclass, field
from typing import Literal

from limpet.core.secret import Secret
from limpet.core.settings import Port
from limpet.ingress.limits import ConnectionLimits

AccessLevel = Literal["debug", "info", "off"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """`[server]`. `port` 0 takes a free one."""

    host: str = "127.0.0.1"
    port: Port = 8420
    secret_key: Secret | None = None
    secret_key_previous: Secret | None = None
    advertise: str | None = None
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    access_log: AccessLevel = "info"
    connections: ConnectionLimits = field(default_factory=ConnectionLimits)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthSettings:
    """`[auth]`. `none` lets in every program of this machine, `keys` clients that send a key, from anywhere."""

    mode: Literal["none", "keys"] = "none"
