"""`/containers` of a provider that runs shells itself: requests go to it as they came, with its own key, and answers come back."""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import httpx2

from limpet.core.clock import MICROSECONDS, Clock, SystemClock
from limpet.core.errors import UpstreamRefused
from limpet.upstreams.client import ProviderClient, beginning_of, close, reason_of
from limpet.upstreams.endpoints import Endpoint
from limpet.upstreams.key_filter import hide_key
from limpet.upstreams.refusals import refusal
from limpet.upstreams.retries import told_wait

MOST_BYTES = 64 << 20  # of a JSON answer


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerRequest:
    """`path` stands behind `/containers`, encoded, `query` behind the question mark; `body` is read once, `length` is that of one that
    streams, where it is known."""

    method: str
    path: str = ""
    query: str = ""
    content_type: str | None = None
    body: bytes | AsyncIterator[bytes] | None = None
    length: str | None = None


class AnswerBody:
    """The bytes of an answer, read once. The connection is given back at their end, and by `aclose`, whether they were read or not."""

    def __init__(self, response: httpx2.Response) -> None:
        self._response = response

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for piece in self._response.aiter_bytes():
                yield piece
        finally:
            await self.aclose()

    async def aclose(self) -> None:
        """Safe to repeat."""
        await close(self._response)


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerAnswer:
    """A success. The caller closes its `body`."""

    status: int
    content_type: str
    length: str | None
    body: AnswerBody

    async def read(self) -> bytes:
        """All of it. Raises ValueError past MOST_BYTES."""
        whole = bytearray()
        async for piece in self.body:
            whole += piece
            if len(whole) > MOST_BYTES:
                raise ValueError("it is too large")
        return bytes(whole)


@runtime_checkable
class ContainerProvider(Protocol):
    """An upstream whose provider has containers."""

    @property
    def name(self) -> str: ...

    async def containers(self, request: ContainerRequest) -> ContainerAnswer:
        """What the provider answers with. Raises UpstreamRefused for an error of its own, and where it cannot be reached."""
        ...


async def asked_of_containers(
    client: ProviderClient, endpoint: Endpoint, request: ContainerRequest, *, provider: str, clock: Clock | None = None
) -> ContainerAnswer:
    """See `ContainerProvider.containers`."""
    base, _, own_query = endpoint.responses.partition("?")
    query = "&".join(each for each in (own_query, request.query) if each)
    url = f"{base.removesuffix('/responses')}/containers{request.path}{'?' if query else ''}{query}"
    access = await endpoint.access()
    headers: Mapping[str, str] = {"accept-encoding": "identity", **access.headers}
    given = {"content-type": request.content_type, "content-length": request.length}
    headers = {**headers, **{name: value for name, value in given.items() if value is not None}}
    try:
        sent = client.build_request(request.method, url, content=request.body, headers=headers)
        # Asked again, what changes something might change it twice; and a body that streams is read once.
        answer = await (client.send(sent, stream=True) if request.method == "GET" else client.send_once(sent))
        if not answer.is_success:
            try:
                body = await beginning_of(answer)
            finally:
                await close(answer)
            wait = told_wait(answer.headers, now=(clock or SystemClock()).now() / MICROSECONDS)
            raise refusal(provider, answer.status_code, body, access.secret, retry_after=wait)
    except (httpx2.HTTPError, httpx2.StreamError) as error:
        said = hide_key(reason_of(error), access.secret)
        raise UpstreamRefused(provider, None, f"it cannot be reached: {said}") from error
    return ContainerAnswer(
        status=answer.status_code,
        content_type=answer.headers.get("content-type", "application/octet-stream"),
        length=answer.headers.get("content-length"),
        body=AnswerBody(answer),
    )
