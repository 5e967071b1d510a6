"""A uvicorn server with bounded connections, on a socket that is bound before anything else is opened."""

import asyncio
import errno
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

import uvicorn
from starlette.types import ASGIApp

from limpet.core.errors import AddressUnusable
from limpet.core.open_files import open_file_limit
from limpet.ingress.connections import ConnectionTable
from limpet.ingress.limits import DEFAULT, ConnectionLimits
from limpet.ingress.memory import MemoryBudget
from limpet.ingress.notices import RateLimitedLog
from limpet.ingress.protocol import BoundedHttpProtocol
from limpet.ingress.refusals import Ingress, Refusal

BACKLOG = 16  # connections that are accepted at once
WAITING = 2048  # that may wait for it; one more is dropped by the kernel, and its client tries again a second later
# Bytes of an answer that wait in the kernel beyond what its client has room for; the rest waits where it is counted.
UNSENT_BYTES = 256 * 1024
# Idle connections that are closed when the host has no file left to accept with.
FREED_AT_ONCE = 16
_OUT_OF_FILES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class HttpServer(uvicorn.Server):
    """uvicorn without its signal handlers, which would end the process before our parts are closed, and with bounded connections.

    `render` gives a refusal's body, `write` logs an event with its facts, `ready` is called when requests are answered, `grace` is how
    many seconds open answers may go on when the server stops. `trusted_proxies` as in `ServerSettings`.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        render: Callable[[Refusal], bytes],
        write: Callable[..., Any],
        ready: Callable[[], None] = lambda: None,
        limits: ConnectionLimits = DEFAULT,
        grace: int = 2,
        trusted_proxies: Sequence[str] = (),
    ) -> None:
        limits = replace(limits, max_connections=min(limits.max_connections, max(1, open_file_limit() // 2)))
        self._ingress = Ingress(
            table=ConnectionTable(limits),
            unread=MemoryBudget(limits.max_unread_memory_mb << 20),
            render=render,
            notice=RateLimitedLog(write),
        )
        self._ready = ready
        super().__init__(_config(app, limits, grace, trusted_proxies))
        self.config.load()
        self.config.http_protocol_class = partial(  # type: ignore[assignment]  # called as a class is, and only called
            BoundedHttpProtocol, ingress=self._ingress
        )

    def capture_signals(self) -> AbstractContextManager[None]:  # type: ignore[override]  # theirs is a generator's
        return nullcontext()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        asyncio.get_running_loop().set_exception_handler(self._on_loop_error)
        await super().startup(sockets)
        for listener in sockets or ():
            listener.listen(WAITING)  # asyncio has just set it to as many as it accepts at once
        if self.started:
            self._ready()

    async def on_tick(self, counter: int) -> bool:
        """uvicorn's, ten times a second; once a second every connection is looked at."""
        if counter % 10 == 0:
            now = asyncio.get_running_loop().time()
            for connection in self._ingress.table:
                connection.check_deadlines(now)
        return await super().on_tick(counter)

    def _on_loop_error(self, loop: asyncio.AbstractEventLoop, context: Mapping[str, Any]) -> None:
        """asyncio reports each accept() that fails for want of a file, a whole backlog of them a second, each with a traceback."""
        error = context.get("exception")
        if isinstance(error, OSError) and error.errno in _OUT_OF_FILES and "accept" in context.get("message", ""):
            self._ingress.notice("accept_failed", reason=error.strerror, open_connections=len(self._ingress.table))
            self._ingress.table.free(FREED_AT_ONCE)
            return
        loop.default_exception_handler(dict(context))


def _config(app: ASGIApp, limits: ConnectionLimits, grace: int, trusted_proxies: Sequence[str]) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        loop="asyncio",
        http=BoundedHttpProtocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        backlog=BACKLOG,
        timeout_keep_alive=limits.idle_timeout_secs,  # type: ignore[arg-type]  # it is handed to call_later as it is
        timeout_graceful_shutdown=grace,
        # By default uvicorn believes every program on loopback, and what FORWARDED_ALLOW_IPS says.
        proxy_headers=bool(trusted_proxies),
        forwarded_allow_ips=list(trusted_proxies),
    )


def listening_socket(host: str, port: int) -> socket.socket:
    """A socket that listens. Raises AddressUnusable."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except OSError as problem:
        raise AddressUnusable(host, port, str(problem.strerror or problem)) from problem
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Accepted sockets inherit it (tcp(7), Linux 3.12). Without it the kernel would buffer megabytes for a client that does not read.
        listener.setsockopt(socket.IPPROTO_TCP, _TCP_NOTSENT_LOWAT, UNSENT_BYTES)
        listener.bind(address)
        listener.listen(WAITING)
    except OSError as problem:
        listener.close()
        raise AddressUnusable(host, port, str(problem.strerror or problem).lower()) from problem
    return listener


_TCP_NOTSENT_LOWAT = 25  # linux/tcp.h; Python 3.12 names it
