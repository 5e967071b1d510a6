"""Serves a gateway: its address bound, its home held, its parts open until a signal."""

import socket
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

import anyio
import structlog

from limpet.core.errors import RuntimeUnavailable
from limpet.core.open_files import raise_open_file_limit
from limpet.core.ports import Runtime
from limpet.core.signals import signalled
from limpet.ingress.server import HttpServer, listening_socket
from limpet.ingress.settings import ServerSettings
from limpet.server.errors import error_body
from limpet.server.gateway import GatewaySettings, OpenedParts, opened
from limpet.store.home import HomeLock, announced_in, prepare_home
from limpet.upstreams.routing import Route

# So long open streams may go on after a signal; then they are cut. Their runs are not lost with them.
GRACE_SECONDS = 2

log = structlog.get_logger()


class Announce(Protocol):
    """Called once, when requests are answered."""

    def __call__(self, *, address: str, runtime: str, reason: str) -> None: ...


async def serve(
    settings: GatewaySettings, *, runtime: Runtime, why: str, providers: Sequence[Route], announce: Announce
) -> None:
    """Serve until SIGTERM or SIGINT. `why` says how the runtime came to be chosen. Raises LimpetError."""
    raise_open_file_limit()
    with listening_socket(settings.server.host, settings.server.port) as listener:
        # The home first: what is wrong with it must not look like a fault of the runtime, and no other gateway's is touched.
        prepare_home(settings.home)
        async with HomeLock(settings.home):
            async with runtime:
                probe = await runtime.probe()
            if not probe.works:
                raise RuntimeUnavailable(runtime.name, probe.detail, probe.remedy)
            host, port = listener.getsockname()[:2]
            address = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
            settings = replace(settings, probe=probe, server=_advertised(settings.server, host, address))

            def ready() -> None:
                announce(address=address, runtime=runtime.name, reason=" ".join([why, probe.detail, *probe.notes]))
                for note in probe.notes:
                    log.warning("what this runtime does not hold here", runtime=runtime.name, note=note)

            async with signalled() as stopping, opened(settings, runtime=runtime, providers=providers) as gateway:
                with announced_in(settings.home, _own_address(host, port)):
                    await _serve_until(stopping, gateway, listener, ready, settings.server)


def _advertised(asked: ServerSettings, host: str, address: str) -> ServerSettings:
    """With the address for other gateways: the one that it is bound to, unless that is no one's in particular."""
    bound = None if host in ("0.0.0.0", "::") else address
    return replace(asked, advertise=asked.advertise or bound)


def _own_address(host: str, port: int) -> str:
    """Where programs of this host reach it: one that listens on every address answers on loopback."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


async def _serve_until(
    stopping: anyio.Event,
    gateway: OpenedParts,
    listener: socket.socket,
    ready: Callable[[], None],
    asked: ServerSettings,
) -> None:
    server = HttpServer(
        gateway.app,
        render=error_body,
        write=log.warning,
        ready=ready,
        limits=asked.connections,
        grace=GRACE_SECONDS,
        trusted_proxies=asked.trusted_proxies,
    )

    async def end_when_stopping() -> None:
        await stopping.wait()
        await gateway.stop()
        server.should_exit = True

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(end_when_stopping)
        await server.serve(sockets=[listener])
        tasks.cancel_scope.cancel()
