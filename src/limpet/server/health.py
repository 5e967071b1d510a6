"""`/livez`, `/healthz`, `/metrics` and `/v1/models`: liveness, readiness, counters and the models that are served."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Annotated, Literal

import anyio
from msgspec import UNSET, Meta, UnsetType
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from limpet.containers.admission import AdmissionCounts
from limpet.containers.doors import DoorCounts
from limpet.core.clock import Clock
from limpet.core.ports import Probe, Runtime
from limpet.core.resources import Moment, Resource, WireObject
from limpet.responses.metrics import Metrics
from limpet.server.answers import json_answer
from limpet.server.callers import caller_of
from limpet.upstreams.known_models import KnownModels
from limpet.upstreams.routing import ListedModel, Router

FRESH_SECONDS = 10.0


class Model(Resource, frozen=True, kw_only=True):
    object: Literal["model"] = "model"
    created: Moment
    owned_by: str


class ModelList(WireObject, frozen=True, kw_only=True):
    object: Literal["list"] = "list"
    data: Sequence[Model]


class Alive(WireObject, frozen=True, kw_only=True):
    status: Literal["ok"] = "ok"
    home: str


class RuntimeHealth(WireObject, frozen=True, kw_only=True):
    name: str
    works: bool
    detail: str
    remedy: str
    notes: tuple[str, ...]
    probed_seconds_ago: Annotated[float, Meta(ge=0)]


class GatewayHealth(WireObject, frozen=True, kw_only=True):
    """`runtime` is for callers with the scope `admin`."""

    status: Literal["ok", "failing"]
    runtime: RuntimeHealth | UnsetType = UNSET


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
    doors: Callable[[], DoorCounts],
    stored: Callable[[], Awaitable[Mapping[tuple[str, str], int]]],
    home: str,
) -> list[Route]:
    """`home` is the id of the home that is served; `boxes`, `doors` and `stored` (bytes by area and backend) say how things stand."""

    async def livez(request: Request) -> Response:
        return json_answer(Alive(home=home))

    async def healthz(request: Request) -> Response:
        probe, age = await health.probe()
        shown = caller_of(request).may("admin")
        body = GatewayHealth(
            status="ok" if probe.works else "failing", runtime=_runtime_health(runtime, probe, age) if shown else UNSET
        )
        return json_answer(body, status=200 if probe.works else 503)

    async def metrics_page(request: Request) -> Response:
        metrics.look(boxes(), await stored(), doors())
        return Response(generate_latest(metrics.registry), media_type=CONTENT_TYPE_LATEST)

    return [Route("/livez", livez), Route("/healthz", healthz), Route("/metrics", metrics_page)]


def model_routes(router: Router, known: KnownModels, started_at: int) -> list[Route]:
    """`started_at` is in seconds since 1970; models have no other age."""

    async def models(request: Request) -> Response:
        await known.refresh()
        listed = [_model(model, started_at) for model in router.models(known.names)]
        return json_answer(ModelList(data=listed))

    async def model(request: Request) -> Response:
        wanted = request.path_params["model"]
        for listed in router.models(known.names):
            if listed.id == wanted:
                return json_answer(_model(listed, started_at))
        found = router.find(wanted)
        return json_answer(_model(ListedModel(wanted, found.upstream.name), started_at))

    return [
        Route("/v1/models", models),
        Route("/v1/models/{model:path}", model),
    ]


def _runtime_health(name: str, probe: Probe, age: float) -> RuntimeHealth:
    return RuntimeHealth(
        name=name,
        works=probe.works,
        detail=probe.detail,
        remedy=probe.remedy,
        notes=tuple(probe.notes),
        probed_seconds_ago=round(age, 3),
    )


def _model(model: ListedModel, created: int) -> Model:
    return Model(id=model.id, created=created, owned_by=model.provider)
