"""Connections that a door opens for its box: a name is resolved once, outside the box, and the address that was checked is dialed."""

import asyncio
import socket
from collections.abc import Sequence
from ipaddress import ip_address

import anyio

from limpet.core.errors import FetchError, FetchRefused
from limpet.egress.addresses import Network, is_public
from limpet.egress.policy import Admitted, EgressPolicy, Reason, Refused
from limpet.egress.resolver import CONNECTING, MOST_TRIED, Resolve, checked_addresses, system_resolve
from limpet.egress.streams import SocketStream


class NotConnected(Exception):
    """No connection; `refused` is what the box is told."""

    def __init__(self, refused: Refused) -> None:
        super().__init__(refused.reason.value)
        self.refused = refused


async def dial(admitted: Admitted, policy: EgressPolicy, *, resolve: Resolve = system_resolve) -> SocketStream:
    """A connection to where an admitted name leads, or to its service of the host. Raises NotConnected."""
    if admitted.address is not None:
        connected = await _connected(*admitted.address)
        if connected is None:
            raise _failed(admitted, Reason.UNREACHABLE)
        return SocketStream(connected)
    try:
        addresses = await checked_addresses(admitted.host, admitted.port, resolve=resolve, allowed=policy.networks)
    except FetchRefused as error:
        raise _failed(admitted, Reason.NOT_PUBLIC) from error
    except FetchError as error:
        raise _failed(admitted, Reason.UNREACHABLE) from error
    for address in addresses[:MOST_TRIED]:
        connected = await _connected(str(address), admitted.port)
        if connected is None:
            continue
        # What was dialed is what was checked; a kernel that was told to send it elsewhere is found out here.
        if not _is_elsewhere(connected, policy.networks):
            connected.close()
            raise _failed(admitted, Reason.NOT_PUBLIC)
        return SocketStream(connected)
    raise _failed(admitted, Reason.UNREACHABLE)


def _is_elsewhere(connected: socket.socket, named: Sequence[Network]) -> bool:
    """Whether it leads to the internet, or to a network that the operator names. This host's own public address does not: the kernel
    answers itself under it, past every rule for what comes from outside."""
    peer = ip_address(connected.getpeername()[0])
    is_own = connected.getsockname()[0] == connected.getpeername()[0]
    is_named = any(peer.version == network.version and peer in network for network in named)
    return is_public(peer, allowed=named) and (is_named or not is_own)


async def _connected(address: str, port: int) -> socket.socket | None:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    trying = socket.socket(family, socket.SOCK_STREAM)
    trying.setblocking(False)
    loop = asyncio.get_running_loop()
    try:
        with anyio.fail_after(CONNECTING):
            await loop.sock_connect(trying, (address, port))
    except (OSError, TimeoutError):
        loop.remove_writer(trying)
        trying.close()
        return None
    except BaseException:
        loop.remove_writer(trying)
        trying.close()
        raise
    return trying


def _failed(admitted: Admitted, reason: Reason) -> NotConnected:
    return NotConnected(Refused(host=admitted.host, port=admitted.port, reason=reason))
