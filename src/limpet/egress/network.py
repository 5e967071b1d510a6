"""What a box may reach, as the library and the command line take it, and what programs in the box need to know of its door."""

import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from limpet.core.network import DOOR_ADDRESS, PROXY_PORT, TRUST_FILE, DoorPlan
from limpet.egress.host_patterns import parse_patterns
from limpet.egress.policy import WEB_PORTS, EgressPolicy, read_policy
from limpet.egress.resolver import Resolve, system_resolve
from limpet.egress.secrets import DomainSecret, PlacedSecret, place

OPEN = "open"
_PROXY = f"http://{DOOR_ADDRESS}:{PROXY_PORT}"
_DIRECTLY = "localhost,127.0.0.1,::1,0.0.0.0,box"
# Programs that know proxies say more of a refusal than those that find no name; those that do not are carried all the same.
PROXY_ENVIRONMENT: Mapping[str, str] = {
    **dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), _PROXY),
    "no_proxy": _DIRECTLY,
    "NO_PROXY": _DIRECTLY,
    "NODE_USE_ENV_PROXY": "1",
}
# For programs that look at variables of their own; those that every box has are the runtime's.
TRUST_ENVIRONMENT = dict.fromkeys(
    ("PIP_CERT", "AWS_CA_BUNDLE", "CARGO_HTTP_CAINFO", "DENO_CERT", "NIX_SSL_CERT_FILE", "npm_config_cafile"),
    TRUST_FILE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """`hosts` such as `api.example.com` or `*.example.com` may be reached on the ports 80 and 443 and on `ports`.

    `hosts=("open",)` is every host of the public internet. `services` are services of this host: `{"db": "127.0.0.1:5432"}` is seen in the
    box as `db.host.internal:5432`. `networks` such as `10.1.0.0/16` may be reached beside the public internet, by name. `resolve` looks
    names up, outside the box (None: as this host does); `tls` is the trust towards hosts that get secrets (None: this host's).
    """

    hosts: Sequence[str] = ()
    ports: Sequence[int] = ()
    services: Mapping[str, str] = field(default_factory=dict)
    networks: Sequence[str] = ()
    resolve: Resolve | None = field(default=None, repr=False)
    tls: ssl.SSLContext | None = field(default=None, repr=False)

    def policy(self) -> EgressPolicy:
        """Raises ValueError, whose text says what would be right."""
        return read_policy(self.hosts, ports=self.ports, services=self.services, networks=self.networks)

    @property
    def resolver(self) -> Resolve:
        return self.resolve or system_resolve


def read_network(given: object, *, with_secrets: bool = False) -> Network | None:
    """From what a caller gave: None or "none", "open", hosts, or a Network; None where that grants nothing, also no secret's host. Raises
    ValueError."""
    if given is None or given == "none":
        return Network() if with_secrets else None
    if isinstance(given, str):
        if given != OPEN:
            raise ValueError(f'{given[:100]!r} is neither "none" nor "open"; give hosts as a list, ["{given[:100]}"]')
        network = Network(hosts=(OPEN,))
    elif isinstance(given, Network):
        network = given
    elif isinstance(given, (list, tuple, set, frozenset)) and all(isinstance(each, str) for each in given):
        network = Network(hosts=tuple(given))
    else:
        raise ValueError('must be hosts such as ["api.example.com"], "open", or a limpet.Network')
    return None if network.policy().grants_nothing and not with_secrets else network


def box_environment(secrets: Sequence[PlacedSecret] = ()) -> dict[str, str]:
    """The variables of a box that has a door: its proxy, and the placeholders of its secrets."""
    placeholders = {secret.name: secret.placeholder.decode() for secret in secrets}
    return {**PROXY_ENVIRONMENT, **(TRUST_ENVIRONMENT if secrets else {}), **placeholders}


def place_secrets(given: Mapping[str, DomainSecret]) -> tuple[PlacedSecret, ...]:
    """Secrets with placeholders of their own. Raises ValueError for a host that is none, or a value that no request can carry."""
    for name, secret in given.items():
        if not secret.hosts:
            raise ValueError(f"the secret {name} is for no host; name some")
    return place(given, {name: parse_patterns(secret.hosts) for name, secret in given.items()})


def plan_for(policy: EgressPolicy) -> DoorPlan:
    """What its door listens on: the web's ports first."""
    return DoorPlan(web=(*sorted(WEB_PORTS), *sorted(policy.ports - WEB_PORTS)), services=tuple(policy.services))
