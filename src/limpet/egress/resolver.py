"""Names resolved outside every box, once, to addresses that may be dialed: one answer that is not public poisons the whole name."""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from ipaddress import ip_address

import anyio

from limpet.core.errors import FetchFailed, FetchRefused
from limpet.egress.addresses import Address, Network, is_public

RESOLVING = 5.0  # seconds
CONNECTING = 10.0
MOST_TRIED = 4

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]


class Lookups:
    """`system_resolve` with threads of its own: names that hang there, also once no caller waits for them, hold up no other caller's."""

    def __init__(self, most: int = 8) -> None:
        self._pool = ThreadPoolExecutor(most, thread_name_prefix="limpet-names")

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        look = partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
        found = await asyncio.get_running_loop().run_in_executor(self._pool, look)
        return list(dict.fromkeys(str(entry[4][0]) for entry in found))

    def close(self) -> None:
        """Wait for none that is under way."""
        self._pool.shutdown(wait=False, cancel_futures=True)


async def system_resolve(host: str, port: int) -> Sequence[str]:
    """The addresses that the host's resolver gives for a name, as text. Raises OSError."""
    found = await anyio.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


async def checked_addresses(
    name: str, port: int, *, resolve: Resolve = system_resolve, allowed: Sequence[Network] = ()
) -> list[Address]:
    """What a canonical name resolves to, once, and only where all of it may be dialed. Raises FetchFailed, FetchRefused."""
    try:
        with anyio.fail_after(RESOLVING):
            answers = await resolve(name, port)
    except (OSError, UnicodeError, TimeoutError) as error:
        raise FetchFailed(f"The name {name} could not be resolved.") from error
    try:
        addresses = [ip_address(answer) for answer in answers]
    except ValueError as error:
        raise FetchFailed(f"The name {name} resolves to something that is not an address.") from error
    if not addresses:
        raise FetchFailed(f"The name {name} has no address.")
    if not all(is_public(address, allowed=allowed) for address in addresses):
        raise not_public(name)
    return addresses


def not_public(name: str) -> FetchRefused:
    """The refusal of a name that leads elsewhere. It names no address: a client must not learn the internal network."""
    return FetchRefused(
        f"{name} is not a host of the public internet.", "Give a URL that is reachable from the public internet."
    )
