"""`/v1/containers` where the provider runs shells: what a tenant asks goes to the provider, about that tenant's own containers."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any
from urllib.parse import quote, urlencode

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route as HttpRoute
from starlette.types import Receive, Scope, Send

from limpet.core.errors import NotFound, RequestInvalid, UpstreamRefused
from limpet.responses.shell_delegation import refuse_secret_references
from limpet.server.answers import json_answer
from limpet.server.bodies import has_body, json_body, whole_number
from limpet.server.callers import tenant_of
from limpet.store.provider_containers import ProviderContainers
from limpet.upstreams.provider_containers import AnswerBody, ContainerAnswer, ContainerProvider, ContainerRequest
from limpet.upstreams.routing import Route

MOST_LISTED = 100  # containers in a page, here and at the provider
MOST_PAGES = 100  # of the provider, looked through for a page of a tenant's
# What of an answer's bytes a browser must not take for a page of this origin.
_SAFE = {"content-disposition": "attachment", "x-content-type-options": "nosniff"}


class _ClosingResponse(StreamingResponse):
    """It closes the provider's answer also where the client left before the first byte."""

    def __init__(self, body: AnswerBody, **options: Any) -> None:
        super().__init__(body, **options)
        self._body = body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with aclosing(self._body):
            await super().__call__(scope, receive, send)


class ContainerRelay:
    """Hands requests on to `provider`. A tenant reaches what `owners` have as its own; None is one
    tenant, which reaches all."""

    def __init__(self, provider: ContainerProvider, owners: ProviderContainers | None) -> None:
        self._provider = provider
        self._owners = owners

    async def create(self, request: Request) -> Response:
        body = await json_body(request)
        if isinstance(body, dict):
            refuse_secret_references(body.get("network_policy"), "network_policy")
        asked = ContainerRequest(method="POST", content_type="application/json", body=msgspec.json.encode(body))
        made = await self._read(await self._provider.containers(asked))
        if self._owners is not None and isinstance(made.get("id"), str):
            await self._owners.add(tenant_of(request), made["id"])
        return json_answer(made)

    async def index(self, request: Request) -> Response:
        """The tenant's among those of the provider, a page of them. Ids of other tenants stand nowhere in it, the cursors included."""
        if self._owners is None:
            listed = ContainerRequest(method="GET", query=request.url.query)
            return json_answer(await self._read(await self._provider.containers(listed)))
        limit = whole_number(request, "limit", default=20, least=1, most=MOST_LISTED)
        after = request.query_params.get("after")
        for name in ("after", "before"):
            given = request.query_params.get(name)
            if given is not None and not await self._is_own(request, given):
                raise RequestInvalid(f"{name}: there is no container {given[:80]}.", param=name)
        shown: list[dict[str, Any]] = []
        async with aclosing(self._pages(request, after)) as pages:
            async for page in pages:
                own = await self._owners.owned(tenant_of(request), [str(each.get("id")) for each in page])
                shown += [each for each in page if each.get("id") in own]
                if len(shown) > limit:
                    break
        return json_answer(_listed(shown[:limit], has_more=len(shown) > limit))

    async def _pages(self, request: Request, after: str | None) -> AsyncGenerator[list[dict[str, Any]], None]:
        """The provider's containers behind that one, of every tenant."""
        kept = [(name, value) for name, value in request.query_params.multi_items() if name not in ("limit", "after")]
        for _ in range(MOST_PAGES):
            cursor = [] if after is None else [("after", after)]
            query = urlencode([*kept, ("limit", str(MOST_LISTED)), *cursor])
            page = await self._read(await self._provider.containers(ContainerRequest(method="GET", query=query)))
            found = [each for each in page.get("data") or () if isinstance(each, dict)]
            yield found
            last = found[-1].get("id") if found else None
            if not page.get("has_more") or not isinstance(last, str) or last == after:
                return
            after = last

    async def below(self, request: Request) -> Response:
        """One container, or something in it."""
        container_id = request.path_params["container_id"]
        parts = [container_id, *(("files",) if "/files" in request.scope["route"].path else ())]
        parts += [request.path_params[name] for name in ("file_id",) if name in request.path_params]
        parts += ["content"] if request.scope["route"].path.endswith("/content") else []
        if not await self._is_own(request, container_id) or any(set(part) <= {"."} for part in parts):
            raise NotFound(
                f"There is no container {container_id[:80]}.", param="container_id", code="container_not_found"
            )
        asked = ContainerRequest(
            method=request.method,
            path="".join(f"/{quote(part, safe='')}" for part in parts),
            query=request.url.query,
            content_type=request.headers.get("content-type"),
            body=request.stream() if has_body(request) else None,
            length=request.headers.get("content-length") if has_body(request) else None,
        )
        answer = await self._provider.containers(asked)
        if parts[-1] != "content":
            return json_answer(await self._read(answer), status=answer.status)
        headers = _SAFE if answer.length is None else {**_SAFE, "content-length": answer.length}
        return _ClosingResponse(answer.body, status_code=answer.status, headers=headers, media_type=answer.content_type)

    async def _is_own(self, request: Request, container_id: str) -> bool:
        return self._owners is None or container_id in await self._owners.owned(tenant_of(request), [container_id])

    async def _read(self, answer: ContainerAnswer) -> dict[str, Any]:
        async with aclosing(answer.body):
            try:
                value: object = msgspec.json.decode(await answer.read())
            except (ValueError, RecursionError) as error:
                raise UpstreamRefused(self._provider.name, None, "its answer cannot be read.") from error
        if not isinstance(value, dict):
            raise UpstreamRefused(self._provider.name, None, "its answer is not of the API's form.")
        return value


def _listed(shown: Sequence[dict[str, Any]], *, has_more: bool) -> dict[str, Any]:
    first, last = (shown[0].get("id"), shown[-1].get("id")) if shown else (None, None)
    return {"object": "list", "data": shown, "first_id": first, "last_id": last, "has_more": has_more}


def relay_routes(providers: Sequence[Route], owners: ProviderContainers | None) -> list[HttpRoute]:
    """To the first provider of the configuration that runs shells itself; without one each request is refused."""
    chosen: object = next((route.upstream for route in providers if route.upstream.has_native_shell), None)
    if not isinstance(chosen, ContainerProvider):
        return [HttpRoute("/v1/containers", _refuse), HttpRoute("/v1/containers/{rest:path}", _refuse)]
    relay = ContainerRelay(chosen, owners)
    one = "/v1/containers/{container_id}"
    return [
        HttpRoute("/v1/containers", relay.create, methods=["POST"]),
        HttpRoute("/v1/containers", relay.index, methods=["GET"]),
        HttpRoute(one, relay.below, methods=["GET", "DELETE"]),
        HttpRoute(f"{one}/files", relay.below, methods=["GET", "POST"]),
        HttpRoute(f"{one}/files/{{file_id}}", relay.below, methods=["GET", "DELETE"]),
        HttpRoute(f"{one}/files/{{file_id}}/content", relay.below, methods=["GET"]),
    ]


async def _refuse(request: Request) -> Response:
    raise RequestInvalid(
        "No provider here has containers: `passthrough_openai` needs one of the type openai or azure_openai.",
        code="containers_unavailable",
    )
