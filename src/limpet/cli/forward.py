"""`limpet containers forward`: a port of this machine's loopback that leads to one of a container, through its gateway.

Each connection is carried by an upgraded request of its own (docs/ports.md), as it is.
"""

import re
import ssl
from urllib.parse import quote, urlsplit

import anyio
from anyio.abc import ByteStream, SocketStream

from limpet.cli.client import key_headers
from limpet.cli.containers import ContainerPath, place_of, print_table
from limpet.cli.containers_http import GatewayFailed, GatewayPlace
from limpet.cli.terminal import Screen, shown
from limpet.core.errors import AddressUnusable, ConfigInvalid

_PORTS = re.compile(r"(?:([0-9]{1,5}):)?([0-9]{1,5})")
_HOST = "127.0.0.1"
_MOST_HEAD = 64 * 1024
_ANSWERED_WITHIN = 30.0


def forward(container_id: str, ports: str | None, where: ContainerPath) -> None:
    """Serve until interrupted; without `ports` (`8000:3000`, or `3000` for the same on both ends) print which ones listen there. Raises
    LimpetError."""
    place = place_of(where)
    if not isinstance(place, GatewayPlace):
        raise GatewayFailed("Ports are reached through a gateway, and none runs here. Start it with `limpet serve`.")
    listening = place.ports(container_id)
    if ports is None:
        print_table([("PORT",), *((str(port),) for port in listening)])
        return
    local, port = _chosen(ports)
    if port not in listening:
        Screen().hint(f"Nothing listens on port {port} of the container yet.")
    try:
        anyio.run(_serve, place.url, container_id, local, port)
    except KeyboardInterrupt:
        return


def _chosen(ports: str) -> tuple[int, int]:
    found = _PORTS.fullmatch(ports)
    if found is None or not (0 < int(found[2]) < 65536 and int(found[1] or found[2]) < 65536):
        raise ConfigInvalid(
            "limpet containers forward", "PORTS", f"{ports!r} is not LOCAL:PORT, such as 8000:3000, nor a port"
        )
    return int(found[1] or found[2]), int(found[2])


async def _serve(url: str, container_id: str, local: int, port: int) -> None:
    try:
        listener = await anyio.create_tcp_listener(local_host=_HOST, local_port=local)
    except OSError as error:
        raise AddressUnusable(_HOST, local, str(error.strerror or error).lower()) from error
    address = listener.extra(anyio.abc.SocketAttribute.local_address)
    print(f"http://{_HOST}:{address[1]} leads to port {port} of {shown(container_id)}", flush=True)

    async def carry(client: SocketStream) -> None:
        async with client:
            try:
                gateway, first = await _upgraded(url, container_id, port)
            except (OSError, GatewayFailed, TimeoutError, anyio.EndOfStream, anyio.BrokenResourceError) as error:
                Screen().note(shown(str(error) or "The gateway closed the connection."))
                return
            async with gateway:
                await _carry(client, gateway, first)

    await listener.serve(carry)


async def _upgraded(url: str, container_id: str, port: int) -> tuple[ByteStream, bytes]:
    """A connection to that port, and what came on it already. GatewayFailed in the gateway's words."""
    place = urlsplit(url)
    host, is_tls = place.hostname or "", place.scheme == "https"
    with anyio.fail_after(_ANSWERED_WITHIN):
        gateway: ByteStream
        if is_tls:
            context = ssl.create_default_context()
            gateway = await anyio.connect_tcp(
                host, place.port or 443, ssl_context=context, tls_standard_compatible=False
            )
        else:
            gateway = await anyio.connect_tcp(host, place.port or 80)
        lines = [
            f"GET {place.path.rstrip('/')}/v1/containers/{quote(container_id, safe='')}/ports/{port} HTTP/1.1",
            f"Host: {place.netloc.rpartition('@')[2]}",
            "Connection: Upgrade",
            "Upgrade: limpet-tcp",
            *(f"{name}: {value}" for name, value in key_headers().items()),
        ]
        await gateway.send("\r\n".join([*lines, "", ""]).encode())
        said = b""
        while b"\r\n\r\n" not in said and len(said) < _MOST_HEAD:
            said += await gateway.receive()
    head, _, rest = said.partition(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 101 "):
        await gateway.aclose()
        message = re.search(rb'"message":"((?:[^"\\]|\\.)*)"', rest)
        raise GatewayFailed((message[1] if message else head.split(b"\r\n")[0]).decode(errors="replace"))
    return gateway, rest


async def _carry(client: SocketStream, gateway: ByteStream, first: bytes) -> None:
    async with anyio.create_task_group() as tasks:

        async def back() -> None:
            try:
                if first:
                    await client.send(first)
                async for data in gateway:
                    await client.send(data)
            except (OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
                pass
            tasks.cancel_scope.cancel()  # what the client still sends has nowhere to go

        tasks.start_soon(back)
        try:
            async for data in client:
                await gateway.send(data)
            await gateway.send_eof()
        except (OSError, NotImplementedError, anyio.BrokenResourceError, anyio.ClosedResourceError):
            tasks.cancel_scope.cancel()
