"""Where a box may connect to: values, and one decision on a name and a port. Pure: resolves and dials nothing.

A policy without hosts refuses everything. Addresses are never admitted by themselves: what is dialed is what an admitted name
resolves to outside the box, and only where all of that is public (`dialer.checked_addresses`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from ipaddress import ip_network
from types import MappingProxyType

from limpet.egress.addresses import Network
from limpet.egress.host_patterns import HostPattern, canonical_name, parse_patterns

WEB_PORTS = frozenset({80, 443})
SECRET_RULE = "secret"
SERVICES = "host.internal"  # below it are the names of the host's own services


class Reason(Enum):
    """Why a connection is refused, as a refusal's header, an audit record and a metric name it."""

    NOT_A_NAME = "not_a_name"
    HOST_NOT_ALLOWED = "host_not_allowed"
    PORT_NOT_ALLOWED = "port_not_allowed"
    NOT_PUBLIC = "not_public"
    NOT_TLS = "not_tls"
    NAMES_DISAGREE = "names_disagree"
    ENCRYPTED_NAME = "encrypted_name"
    MALFORMED = "malformed"
    SECRET_ELSEWHERE = "secret_elsewhere"
    TOO_MANY = "too_many_connections"
    UNREACHABLE = "unreachable"
    NOT_TRUSTED = "certificate_not_trusted"
    ENCODED = "encoded_response"


@dataclass(frozen=True, slots=True, kw_only=True)
class Admitted:
    """It may connect. `rule` is the pattern that says so; `address` is the one of a service of the host, which is dialed as it is."""

    host: str
    port: int
    rule: str
    address: tuple[str, int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """It may not connect. `host` is as it was asked for, at most 253 characters; `allowed` are the patterns that would be admitted."""

    host: str
    port: int
    reason: Reason
    allowed: tuple[str, ...] = ()


Decision = Admitted | Refused


@dataclass(frozen=True, slots=True, kw_only=True)
class EgressPolicy:
    """What a box may reach.

    `hosts` on `ports`; with `is_open` every public host on these. `services` are services of the host: the name in the box (such as
    `db.host.internal`) and port, with the address and port that are dialed. `networks` may be dialed beside the public internet.
    `secret_hosts` may be reached by requests that carry a secret for them, and no others.
    """

    hosts: tuple[HostPattern, ...] = ()
    ports: frozenset[int] = WEB_PORTS
    is_open: bool = False
    services: Mapping[tuple[str, int], tuple[str, int]] = field(default_factory=lambda: MappingProxyType({}))
    networks: tuple[Network, ...] = ()
    secret_hosts: tuple[HostPattern, ...] = ()

    @property
    def grants_nothing(self) -> bool:
        return not (self.hosts or self.is_open or self.services or self.secret_hosts)

    def rule_for(self, host: str) -> str | None:
        """The pattern that admits this canonical name on the web's ports, None if none does."""
        for pattern in self.hosts:
            if pattern.matches(host):
                return str(pattern)
        is_ours = host == SERVICES or host.endswith(f".{SERVICES}")
        return "open" if self.is_open and not is_ours else None

    def knows(self, host: str) -> bool:
        """Whether any port of this canonical name is admitted: those names exist for the box, no others."""
        if self.rule_for(host) is not None or any(pattern.matches(host) for pattern in self.secret_hosts):
            return True
        return any(name == host for name, _ in self.services)

    def decide(self, host: str, port: int) -> Decision:
        """Whether the box may connect to that name, in whatever spelling it was asked for."""
        try:
            name = canonical_name(host)
        except ValueError:
            return self._refused(host, port, Reason.NOT_A_NAME)
        if (address := self.services.get((name, port))) is not None:
            return Admitted(host=name, port=port, rule=f"{name}:{port}", address=address)
        rule = self.rule_for(name)
        if rule is None and any(pattern.matches(name) for pattern in self.secret_hosts):
            rule = SECRET_RULE
        if rule is None:
            known = any(service == name for service, _ in self.services)
            return self._refused(name, port, Reason.PORT_NOT_ALLOWED if known else Reason.HOST_NOT_ALLOWED)
        if port not in self.ports:
            return self._refused(name, port, Reason.PORT_NOT_ALLOWED)
        return Admitted(host=name, port=port, rule=rule)

    def _refused(self, host: str, port: int, reason: Reason) -> Refused:
        services = tuple(f"{name}:{service_port}" for name, service_port in self.services)
        return Refused(
            host=host[:253], port=port, reason=reason, allowed=(*(str(pattern) for pattern in self.hosts), *services)
        )


def read_policy(
    hosts: Sequence[str],
    *,
    ports: Sequence[int] = (),
    services: Mapping[str, str] | None = None,
    networks: Sequence[str] = (),
    sets: Mapping[str, Sequence[str]] | None = None,
) -> EgressPolicy:
    """The policy in words: `hosts` are patterns or names of `sets`, or "open" alone; `ports` go beside 80 and 443; `services` map a
    name such as `db` to an address and port of the host. Raises ValueError, whose text says what would be right."""
    is_open = tuple(hosts) == ("open",)
    if "open" in hosts and not is_open:
        raise ValueError('"open" is every host and stands alone; leave the others out')
    return EgressPolicy(
        hosts=() if is_open else parse_patterns(hosts, sets=sets),
        ports=WEB_PORTS | frozenset(ports),
        is_open=is_open,
        services=MappingProxyType(dict(_service(name, target) for name, target in (services or {}).items())),
        networks=tuple(ip_network(text) for text in networks),
    )


def _service(name: str, target: str) -> tuple[tuple[str, int], tuple[str, int]]:
    address, _, port = target.rpartition(":")
    if not address or not port.isdecimal() or not 0 < int(port) < 65_536:
        raise ValueError(f"{target[:100]!r} is not an address and port; write 127.0.0.1:5432")
    return (canonical_name(f"{name}.{SERVICES}"), int(port)), (address.removeprefix("[").removesuffix("]"), int(port))
