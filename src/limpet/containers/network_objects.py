"""What containers used of their network, as JSON objects. An extension: OpenAI's API does not have them. Pure."""

from typing import Literal

from limpet.core.resources import Count, Resource, WireObject
from limpet.egress.usage import HostUsage, NetworkUsage


class NetworkHost(WireObject, frozen=True, kw_only=True):
    """Connections to one host and port that met with one verdict; `rule` is the pattern that admitted them, or why they were refused."""

    host: str
    port: int
    verdict: Literal["allowed", "refused"]
    rule: str
    connections: Count
    bytes_sent: Count
    bytes_received: Count


class NetworkSummary(WireObject, frozen=True, kw_only=True):
    """`connections` were allowed, `refused` were not; bytes from and to the container. `unlisted` of them have no row in `hosts`."""

    connections: Count
    refused: Count
    bytes_sent: Count
    bytes_received: Count
    hosts: list[NetworkHost]
    unlisted: Count


class ContainerNetwork(Resource, frozen=True, kw_only=True):
    """`id` is the container's. `is_open` says whether it can reach anything now; `usage` is what it used since the gateway started."""

    object: Literal["container.network"] = "container.network"
    is_open: bool
    usage: NetworkSummary


def network_summary(usage: NetworkUsage) -> NetworkSummary:
    """The usage of a container, or of a part of its time."""
    return NetworkSummary(
        connections=usage.connections,
        refused=usage.refused,
        bytes_sent=usage.sent,
        bytes_received=usage.received,
        hosts=[_host(row) for row in usage.hosts],
        unlisted=usage.unlisted,
    )


def _host(row: HostUsage) -> NetworkHost:
    return NetworkHost(
        host=row.host,
        port=row.port,
        verdict=row.verdict,
        rule=row.rule,
        connections=row.connections,
        bytes_sent=row.sent,
        bytes_received=row.received,
    )
