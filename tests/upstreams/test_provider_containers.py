"""`/containers` of a provider: what is read of its answers, and that their connections are given back."""

from collections.abc import AsyncIterator
from contextlib import aclosing

import anyio
import httpx2
import pytest

from limpet.core.errors import UpstreamRefused
from limpet.core.secret import Secret
from limpet.upstreams.provider_containers import AnswerBody, ContainerRequest
from limpet.upstreams.relay import RelayUpstream
from limpet.upstreams.retries import RetryBudget
from limpet.upstreams.routing import ProviderSettings
from tests.support.providers.openai_responses import ScriptedResponses
from tests.support.providers.server import Request
from tests.support.providers.turns import Refuse, Turn

GET = ContainerRequest(method="GET", path="/cntr_1/files/cfile_1/content")


class ScriptedContainers(ScriptedResponses):
    """Answers each GET with the next turn of its script."""

    def _next(self, request: Request) -> Turn:
        turn = self.turns.pop(0)
        return turn(request) if callable(turn) else turn


def upstream_of(server: ScriptedResponses) -> RelayUpstream:
    settings = ProviderSettings(name="acme", type="openai", base_url=server.base_url, api_key=Secret("sk-canary"))
    return RelayUpstream(settings, retries=RetryBudget(first_wait=0.001))


@pytest.mark.anyio
async def test_an_empty_file_is_an_answer_and_is_asked_for_once() -> None:
    with anyio.fail_after(5):
        async with ScriptedContainers([Refuse(200, body=b"")]) as server, upstream_of(server) as upstream:
            answer = await upstream.containers(GET)
            assert (await answer.read(), len(server.requests)) == (b"", 1)


@pytest.mark.anyio
async def test_an_answer_that_is_closed_unread_gives_its_connection_back() -> None:
    connection = Connection()
    async with aclosing(AnswerBody(httpx2.Response(200, stream=connection))):
        pass
    assert connection.is_closed


@pytest.mark.anyio
async def test_of_an_error_only_the_beginning_is_read() -> None:
    with anyio.fail_after(5):
        turns = [Refuse(404, body=b"x" * (8 << 20)), Refuse(200, body=b"bytes")]
        async with ScriptedContainers(turns) as server, upstream_of(server) as upstream:
            with pytest.raises(UpstreamRefused) as raised:
                await upstream.containers(GET)
            answer = await upstream.containers(GET)
            # A connection whose answer was read to its end would have served the second request.
            assert (raised.value.status, await answer.read(), server.connections) == (404, b"bytes", 2)


class Connection(httpx2.AsyncByteStream):
    """A body on a connection that says whether it was given back."""

    def __init__(self) -> None:
        self.is_closed = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield b"bytes"

    async def aclose(self) -> None:
        self.is_closed = True
