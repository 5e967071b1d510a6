"""What the operator lets containers reach, what a request may ask of that, and the policy of a container's door. Pure.

Both must grant: a container reaches a host that its own policy names, while the operator's list admits it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from ssl import SSLContext
from typing import Any, Self

from limpet.containers.requested_secrets import GrantedSecret, granted_secrets
from limpet.containers.settings import DomainSecret, ShellLimits
from limpet.core.errors import RequestInvalid
from limpet.core.ports import Offer
from limpet.egress.host_patterns import HostPattern, outside, parse_pattern, parse_patterns
from limpet.egress.network import OPEN
from limpet.egress.policy import SERVICES, EgressPolicy, read_policy
from limpet.egress.resolver import Resolve, system_resolve

DISABLED: Mapping[str, Any] = {"type": "disabled"}
MOST_DOMAINS = 500
REJECTED = "network_policy_rejected"


@dataclass(frozen=True, kw_only=True)  # without slots: it keeps what it has parsed
class NetworkGrants:
    """As the operator's settings have them. `hosts` are patterns, names of `sets`, or "open" alone; `services` map a name to an address
    and port of the host; `resolve` looks up names, `secrets` may be asked for by name. `tls` is the trust towards hosts that get secrets
    (None: this host's)."""

    hosts: tuple[str, ...] = ()
    ports: tuple[int, ...] = ()
    networks: tuple[str, ...] = ()
    sets: Mapping[str, Sequence[str]] = field(default_factory=dict)
    services: Mapping[str, str] = field(default_factory=dict)
    resolve: Resolve = system_resolve
    secrets: Mapping[str, DomainSecret] = field(default_factory=dict)
    tls: SSLContext | None = field(default=None, repr=False)

    @classmethod
    def of(cls, limits: ShellLimits, services: Mapping[str, str], resolve: Resolve = system_resolve) -> Self:
        return cls(
            hosts=limits.allowed_egress_hosts,
            ports=limits.allowed_egress_ports,
            networks=limits.allowed_egress_networks,
            sets=limits.egress_host_sets,
            services=services,
            resolve=resolve,
            secrets=limits.allowed_domain_secrets,
        )

    @property
    def grants_something(self) -> bool:
        return bool(self.hosts or self.services or self.secrets)

    def requested(self, asked: object, offers: frozenset[Offer], param: str) -> dict[str, Any]:
        """The network policy that a request asks for, as it is kept. Raises RequestInvalid, naming the host and what would be allowed."""
        match asked:
            case {"type": "disabled"} if Offer.ISOLATION not in offers:
                raise RequestInvalid(
                    "This runtime runs commands on the host itself and cannot keep them from its network. "
                    "Leave `network_policy` out, or use a runtime that isolates.",
                    param=param,
                    code="network_policy_unsupported",
                )
            case None | {"type": "disabled"}:
                return dict(DISABLED)
            case {"type": "allowlist"} if Offer.NETWORK_POLICY not in offers:
                raise RequestInvalid(
                    "This runtime cannot hold a container to a list of domains, so it grants no network at all. "
                    'Use {"type": "disabled"}, or leave `network_policy` out.',
                    param=param,
                    code="network_policy_unsupported",
                )
            case {"type": "allowlist", **rest}:
                domains = self._domains(rest.get("allowed_domains"), f"{param}.allowed_domains")
                return {"type": "allowlist", "allowed_domains": domains}
        raise RequestInvalid('Its `type` is "disabled" or "allowlist".', param=f"{param}.type", code=REJECTED)

    def requested_secrets(self, asked: object, param: str) -> tuple[GrantedSecret, ...]:
        """The secrets that a network policy asks for, once `requested` has read the rest. Raises RequestInvalid."""
        if not isinstance(asked, Mapping) or not asked.get("domain_secrets"):
            return ()
        place = f"{param}.domain_secrets"
        if asked.get("type") != "allowlist":
            raise RequestInvalid(
                'Secrets need a policy of type "allowlist".', param=place, code="domain_secrets_rejected"
            )
        return granted_secrets(asked["domain_secrets"], known=self.secrets, admits=self.grants, param=place)

    def still_admits(self, secret: GrantedSecret) -> tuple[HostPattern, ...]:
        """The hosts of a secret that the operator still lets it be sent to."""
        hosts = parse_patterns(secret.hosts)
        if secret.value is None:
            known = self.secrets.get(secret.name)
            return () if known is None else _inside(hosts, parse_patterns(known.allowed_hosts))
        return tuple(host for host in hosts if self._still_grants(str(host)))

    def _domains(self, asked: object, param: str) -> list[str]:
        if asked is None:
            asked = []
        if not isinstance(asked, list) or len(asked) > MOST_DOMAINS or not all(isinstance(one, str) for one in asked):
            raise RequestInvalid(
                f'Write it as a list of at most {MOST_DOMAINS} hosts, such as ["api.example.com", "*.example.org"].',
                param=param,
                code=REJECTED,
            )
        for index, domain in enumerate(asked):
            try:
                is_granted = self.grants(domain)
            except ValueError as error:
                raise RequestInvalid(f"{error}.", param=f"{param}[{index}]", code=REJECTED) from error
            if not is_granted:
                allowed = ", ".join([*self.hosts, *(f"{name}.{SERVICES}" for name in self.services)]) or "none"
                raise RequestInvalid(
                    f"{domain[:253]} may not be reached from this gateway's containers. Allowed hosts: {allowed[:1000]}.",
                    param=f"{param}[{index}]",
                    code=REJECTED,
                )
        try:
            self.policy({"type": "allowlist", "allowed_domains": asked})
        except ValueError as error:  # sets may stand for very many
            raise RequestInvalid(f"{error}.", param=param, code=REJECTED) from error
        return list(dict.fromkeys(asked))

    def grants(self, domain: str) -> bool:
        """Whether the operator admits all that this entry of a request admits. Raises ValueError for what is no host."""
        if domain in self.sets:
            return domain in self.hosts or self._admits(parse_patterns([domain], sets=self.sets))
        if domain == OPEN:
            return self._is_open
        pattern = parse_pattern(domain)
        if pattern.name.removesuffix(f".{SERVICES}") in self.services and pattern.name.endswith(f".{SERVICES}"):
            return not pattern.is_suffix
        return self._admits((pattern,))

    @property
    def _is_open(self) -> bool:
        return self.hosts == (OPEN,)

    @cached_property
    def _patterns(self) -> tuple[HostPattern, ...]:
        return parse_patterns(self.hosts, sets=self.sets)

    def _admits(self, patterns: Sequence[HostPattern]) -> bool:
        return self._is_open or not outside(patterns, self._patterns)

    def policy(self, stored: Mapping[str, Any]) -> EgressPolicy:
        """The policy of a container's door. What the operator no longer grants is left out. Raises ValueError where sets that have grown
        stand for more hosts than a policy can have."""
        domains = stored.get("allowed_domains", ()) if stored.get("type") == "allowlist" else ()
        granted = [domain for domain in domains if self._still_grants(domain)]
        named = {domain.removesuffix(f".{SERVICES}") for domain in granted if domain.endswith(f".{SERVICES}")}
        hosts = [domain for domain in granted if not domain.endswith(f".{SERVICES}")]
        return read_policy(
            [OPEN] if OPEN in hosts else hosts,
            ports=self.ports,
            services={name: target for name, target in self.services.items() if name in named},
            networks=self.networks,
            sets=self.sets,
        )

    def _still_grants(self, domain: str) -> bool:
        try:
            return self.grants(domain)
        except ValueError:  # of a set that is no longer there
            return False


def _inside(hosts: Sequence[HostPattern], allowed: Sequence[HostPattern]) -> tuple[HostPattern, ...]:
    return tuple(host for host in hosts if not outside([host], allowed))


def is_within(narrower: Mapping[str, Any], wider: Mapping[str, Any]) -> bool:
    """Whether the first policy, as it is kept, admits nothing that the second does not."""
    if narrower.get("type") != "allowlist":
        return True
    have = wider.get("allowed_domains", ()) if wider.get("type") == "allowlist" else ()
    left = [domain for domain in narrower.get("allowed_domains", ()) if domain not in have]
    if any(domain.endswith(f".{SERVICES}") for domain in left):
        return False  # no wider policy has a service that it does not name
    try:
        patterns = parse_patterns([domain for domain in have if ":" not in domain and domain != OPEN])
        return OPEN in have or (OPEN not in left and not outside(parse_patterns(left), patterns))
    except ValueError:
        return False
