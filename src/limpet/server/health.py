"""`/livez`, `/healthz`, `/metrics` and `/v1/models`: liveness, readiness, counters and the models that are served."""

from collections.abc import Awaitable, Callable, Mapping

import anyio
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from limpet.containers.admission import AdmissionCounts
from limpet.core.clock import Clock
from limpet.core.ports import Probe, Runtime
from limpet.responses.metrics import Metrics
from limpet.server.callers import caller_of
from limpet.upstreams.known_models import KnownModels
from limpet.upstreams.routing import ListedModel, Router

FRESH_SECONDS = 10.0


class Health:
    """Probes the runtime on request, at most every 10 s; requests in between share the answer."""

    def __init__(self, runtime: Runtime, clock: Clock) -> None:
        self._runtime = runtime
        self._clock = clock
        self._lock = anyio.Lock()
        self._probe: Probe | None = None
        self._at = 0.0

    async def probe(self) -> tuple[Probe, float]:
        """What the newest probe found and how many seconds ago it began."""
        async with self._lock:
            now = self._clock.monotonic()
            if self._probe is None or now - self._at >= FRESH_SECONDS:
                self._probe, self._at = await self._runtime.probe(), now
            return self._probe, self._clock.monotonic() - self._at


def routes(
    *,
    health: Health,
    runtime: str,
    metrics: Metrics,
    boxes: Callable[[], AdmissionCounts],
    stored: Callable[[], Awaitable[Mapping[tuple[str, str], int]]],
    home: str,
) -> list[Route]:
    """`home` is the id of the home that is served; `boxes` and `stored` (bytes by area and backend) say how things stand."""

    async def livez(request: Request) -> Response:
        return JSONResponse({"status": "ok", "home": home})

    async def healthz(request: Request) -> Response:
        probe, age = await health.probe()
        status = "ok" if probe.works else "failing"
        if not caller_of(request).may("admin"):
            return JSONResponse({"status": status}, status_code=200 if probe.works else 503)
        body = {"status": status, "runtime": {"name": runtime, **_found(probe), "probed_seconds_ago": round(age, 3)}}
        return JSONResponse(body, status_code=200 if probe.works else 503)

    async def metrics_page(request: Request) -> Response:
        metrics.look(boxes(), await stored())
        return Response(generate_latest(metrics.registry), media_type=CONTENT_TYPE_LATEST)

    return [Route("/livez", livez), Route("/healthz", healthz), Route("/metrics", metrics_page)]


def model_routes(router: Router, known: KnownModels, started_at: int) -> list[Route]:
    """`started_at` is in seconds since 1970; models have no other age."""

    async def models(request: Request) -> Response:
        await known.refresh()
        listed = [_model(model, started_at) for model in router.models(known.names)]
        return JSONResponse({"object": "list", "data": listed})

    async def model(request: Request) -> Response:
        wanted = request.path_params["model"]
        for listed in router.models(known.names):
            if listed.id == wanted:
                return JSONResponse(_model(listed, started_at))
        found = router.find(wanted)
        return JSONResponse(_model(ListedModel(wanted, found.upstream.name), started_at))

    return [
        Route("/v1/models", models),
        Route("/v1/models/{model:path}", model),
    ]


def _found(probe: Probe) -> dict[str, object]:
    return {"works": probe.works, "detail": probe.detail, "remedy": probe.remedy, "notes": list(probe.notes)}


def _model(model: ListedModel, created: int) -> dict[str, object]:
    return {"id": model.id, "object": "model", "created": created, "owned_by": model.provider}
