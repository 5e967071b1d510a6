"""The HTTP client of every provider: where a request, and the key in it, may go."""

import anyio
import pytest

from limpet.core.errors import UpstreamRefused
from limpet.core.secret import Secret
from limpet.upstreams.relay import RelayUpstream
from limpet.upstreams.retries import RetryBudget
from limpet.upstreams.routing import ProviderSettings
from limpet.upstreams.upstream import Turn
from tests.support.providers.openai_responses import ScriptedResponses
from tests.support.providers.turns import Refuse, reply

QUESTION = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hello"}]}


@pytest.mark.anyio
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_not_followed_so_that_no_key_goes_elsewhere(status: int) -> None:
    with anyio.fail_after(5):
        async with ScriptedResponses([reply("caught")]) as elsewhere:
            refused = Refuse(status, headers={"location": f"{elsewhere.base_url}/responses"})
            async with ScriptedResponses([refused]) as server:
                settings = ProviderSettings(
                    name="acme", type="openai", base_url=server.base_url, api_key=Secret("sk-canary")
                )
                async with RelayUpstream(settings, retries=RetryBudget(first_wait=0.001)) as upstream:
                    with pytest.raises(UpstreamRefused):
                        _ = [event async for event in upstream.stream(Turn(model="gpt-5", input=[QUESTION]))]

            assert (len(server.requests), elsewhere.connections) == (1, 0)
