"""The ASGI application: routes, authentication, and a count of the requests served."""

from collections.abc import Sequence

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from limpet.ingress.memory import MemoryBudget
from limpet.ingress.settings import AccessLevel
from limpet.ingress.takeover import control_of
from limpet.responses.metrics import Metrics
from limpet.server.access import AccessLog
from limpet.server.errors import HANDLERS


class RequestCounter:
    """Counts requests by route and status; touches no byte."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def counting(message: Message) -> None:
            if message["type"] == "http.response.start":
                route = getattr(scope.get("route"), "path", "other")
                self._metrics.requests.labels(scope["method"], route, str(message["status"])).inc()
            await send(message)

        await self._app(scope, receive, counting)
        if (control := control_of(scope)) is not None and control.is_taken:
            self._metrics.requests.labels(scope["method"], getattr(scope.get("route"), "path", "other"), "101").inc()


def application(
    routes: Sequence[Route], *, metrics: Metrics, door: Middleware, body_bytes: int, access_log: AccessLevel
) -> Starlette:
    """The application behind its authentication, which sets the caller (`server.callers`). Opening and closing what the routes use is
    the caller's. `body_bytes` bounds the bodies that arrive in memory, together."""
    app = Starlette(
        routes=list(routes),
        exception_handlers=HANDLERS,
        middleware=[Middleware(AccessLog, level=access_log), Middleware(RequestCounter, metrics=metrics), door],
    )
    app.state.body_memory = MemoryBudget(body_bytes)
    # An address that does not exist is an error in OpenAI's shape, not a redirect, which few clients follow with their body.
    app.router.redirect_slashes = False
    return app
