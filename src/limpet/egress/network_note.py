"""What a model is told of a box's network, in the descriptions of its tools. Pure."""

from collections.abc import Sequence

from limpet.egress.policy import WEB_PORTS, EgressPolicy
from limpet.egress.secrets import PlacedSecret

MOST_HOSTS = 50
NO_NETWORK = "There is no network: nothing can be downloaded."


def network_note(policy: EgressPolicy | None, secrets: Sequence[PlacedSecret] = ()) -> str:
    """Which hosts can be reached, and which variables have secrets; None is a box without a door. Names only, never a value."""
    if policy is None:
        return NO_NETWORK
    return f"{_reach(policy)}{''.join(map(_secret, secrets))}"


def _reach(policy: EgressPolicy) -> str:
    more = sorted(policy.ports - WEB_PORTS)
    ports = f" (also on the ports {', '.join(map(str, more))})" if more else ""
    services = [f"{name}:{port}" for name, port in policy.services]
    if policy.is_open:
        also = f" So can {_listed(services)}." if services else ""
        return (
            f"Every public host can be reached over HTTP and HTTPS, by name{ports}; nothing else: no SSH, no UDP.{also}"
        )
    hosts = [str(pattern) for pattern in policy.hosts]
    if not hosts and not services:
        return NO_NETWORK if not policy.secret_hosts else "Only the hosts of secrets can be reached, and nothing else."
    web = f"over HTTP and HTTPS{ports}: {_listed(hosts)}" if hosts else ""
    own = f"services of the host: {_listed(services)}" if services else ""
    return (
        f"These hosts can be reached, and nothing else: {'; '.join(filter(None, (web, own)))}. "
        "Other hosts are refused at once: do not try again, say what is missing."
    )


def _secret(secret: PlacedSecret) -> str:
    hosts = _listed([str(pattern) for pattern in secret.hosts])
    return (
        f" ${secret.name} stands for a secret: send it in a header to {hosts} as if it were the value, which is put in on the way "
        "and cannot be read here."
    )


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_HOSTS} more" if len(names) > MOST_HOSTS else ""
    return f"{', '.join(names[:MOST_HOSTS])}{more}"
