"""`limpet containers net`: what a container has used of its network, as its gateway knows it."""

import json
from typing import Any

from limpet.cli.containers import ContainerPath, place_of, print_table
from limpet.cli.containers_http import GatewayFailed, GatewayPlace

_HEAD = ("HOST", "PORT", "VERDICT", "RULE", "CONNECTIONS", "SENT", "RECEIVED")


def network_shown(container_id: str, where: ContainerPath, *, as_json: bool) -> None:
    """Prints a line for each host and verdict, and the sums; or the object of the wire. Raises LimpetError."""
    place = place_of(where)
    if not isinstance(place, GatewayPlace):
        raise GatewayFailed(
            "What a container used of its network is known to its gateway, and none runs here. Start it with `limpet serve`."
        )
    network = place.network(container_id)
    if as_json:
        print(json.dumps(network, indent=2))
        return
    usage = network["usage"]
    print_table([_HEAD, *map(_row, usage["hosts"])])
    unlisted = f"; {usage['unlisted']} of these have no line" if usage["unlisted"] else ""
    print(
        f"{usage['connections']} allowed, {usage['refused']} refused, {usage['bytes_sent']} bytes sent,"
        f" {usage['bytes_received']} received since the gateway started{unlisted}."
        f" Its network is {'open' if network['is_open'] else 'closed'}."
    )


def _row(row: dict[str, Any]) -> tuple[str, ...]:
    keys = ("host", "port", "verdict", "rule", "connections", "bytes_sent", "bytes_received")
    return tuple(str(row[key]) or "-" for key in keys)
