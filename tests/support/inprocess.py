"""A gateway in the test's own process, over a real socket: for a runtime or a setting that no configuration names."""

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import anyio
import structlog
from anyio.from_thread import start_blocking_portal

from limpet.core.ports import Runtime
from limpet.ingress.server import HttpServer, listening_socket
from limpet.server.errors import error_body
from limpet.server.gateway import GatewaySettings, opened
from limpet.store.home import prepare_home
from limpet.upstreams.routing import Route
from limpet.upstreams.script import ScriptUpstream
from tests.support.gateway import Gateway

log = structlog.get_logger()


@contextmanager
def serving(
    directory: Path, *, runtime: Runtime, providers: Sequence[Route] | None = None, **settings: Any
) -> Iterator[Gateway]:
    """Serves for the time of the block, in a thread of its own. `settings` are those of GatewaySettings; the model is the built-in one."""
    routes = [Route(ScriptUpstream(), ("limpet/script",))] if providers is None else providers
    chosen = GatewaySettings(home=directory / "home", stop_boxes=True, **settings)
    with (
        start_blocking_portal("asyncio") as portal,
        portal.wrap_async_context_manager(_served(chosen, runtime, routes)) as url,
    ):
        yield Gateway(directory, chosen.home, url=url)


@asynccontextmanager
async def _served(settings: GatewaySettings, runtime: Runtime, routes: Sequence[Route]) -> AsyncIterator[str]:
    prepare_home(settings.home)
    with listening_socket("127.0.0.1", 0) as listener:
        async with opened(settings, runtime=runtime, providers=routes) as gateway:
            server = HttpServer(
                gateway.app, render=error_body, write=log.warning, limits=settings.server.connections, grace=1
            )
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(lambda: server.serve(sockets=[listener]))
                try:
                    yield f"http://127.0.0.1:{listener.getsockname()[1]}"
                finally:
                    server.should_exit = True
