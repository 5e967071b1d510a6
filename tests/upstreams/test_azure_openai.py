"""Azure's Responses API: the same wire as OpenAI's at other addresses, with other credentials. The official client is the witness."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import openai
import pytest

from limpet.config import load_config
from limpet.core.errors import ConfigInvalid, UpstreamRefused
from limpet.core.secret import Secret
from limpet.upstreams.endpoints import AzureEndpoint
from limpet.upstreams.relay import RelayUpstream
from limpet.upstreams.routing import ProviderSettings
from limpet.upstreams.upstream import Turn, TurnEnded
from tests.support.providers.azure import ScriptedAzure
from tests.support.providers.openai_responses import ScriptedResponses
from tests.support.providers.server import Scripted
from tests.support.providers.turns import Refuse, reply
from tests.upstreams.questions import KEY, QUESTION, QUICK, asked, text_of

pytestmark = pytest.mark.anyio
TURN = Turn(model="gpt-5", input=[QUESTION])
TOKEN = "eyJ0eXAiOiJKV1QiLCJhbGciOiJub25lIn0.canary-4471"


class ScriptedIdentity(ScriptedResponses):
    """The token endpoint that Azure's App Service gives a program (IDENTITY_ENDPOINT)."""

    def _next(self, request: Any) -> Refuse:
        body = f'{{"access_token": "{TOKEN}", "expires_on": "4102444800", "resource": "r", "token_type": "Bearer"}}'
        return Refuse(200, "", body=body.encode(), headers={"content-type": "application/json"})


@asynccontextmanager
async def azure(*turns: Scripted, is_dated: bool = False, **settings: Any) -> AsyncIterator[tuple[ScriptedAzure, Any]]:
    with anyio.fail_after(20):
        async with ScriptedAzure(turns, is_dated=is_dated) as server:
            given = ProviderSettings(name="acme", type="azure_openai", base_url=server.resource, **settings)
            async with RelayUpstream(given, retries=QUICK) as upstream:
                yield server, upstream


async def test_a_turn_goes_where_the_official_client_sends_it() -> None:
    settings: dict[str, Any] = {"api_key": Secret(KEY), "api_version": "2025-04-01-preview"}
    async with azure(reply("ours"), reply("theirs"), is_dated=True, **settings) as (server, upstream):
        events = await asked(upstream, TURN)
        async with openai.AsyncAzureOpenAI(
            azure_endpoint=server.resource, api_key=KEY, api_version="2025-04-01-preview", max_retries=0
        ) as client:
            stream = await client.responses.create(model="gpt-5", input="hello", stream=True)
            kinds = [event.type async for event in stream]
    ours, theirs = server.requests
    assert (text_of(events), kinds[-1]) == ("ours", "response.completed")
    assert (ours.method, ours.path, ours.headers["api-key"]) == (theirs.method, theirs.path, theirs.headers["api-key"])
    assert "authorization" not in ours.headers


async def test_without_a_version_it_is_the_v1_api_and_a_deployment_has_its_own_name() -> None:
    async with azure(reply("hi"), api_key=Secret(KEY), deployments={"gpt-5": "team-gpt5-eu"}) as (
        server,
        upstream,
    ):
        events = await asked(upstream, TURN)
    assert isinstance(events[-1], TurnEnded)
    assert (server.requests[0].path, server.requests[0].body["model"]) == ("/openai/v1/responses", "team-gpt5-eu")


@pytest.mark.parametrize("written", ["", "/", "/openai", "/openai/v1", "/openai/v1/"])
def test_the_address_may_be_written_with_its_path_or_without(written: str) -> None:
    given = ProviderSettings(name="a", type="azure_openai", base_url=f"https://team.openai.example.com{written}")
    endpoint = AzureEndpoint(given)
    assert endpoint.responses == "https://team.openai.example.com/openai/v1/responses"
    assert endpoint.models == "https://team.openai.example.com/openai/v1/models"


async def test_without_a_key_a_token_of_the_machines_identity_is_sent_and_never_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with (
        ScriptedIdentity() as identity,
        azure(reply("hi"), Refuse(401, f"bad token {TOKEN}")) as (server, upstream),
    ):
        monkeypatch.setenv("IDENTITY_ENDPOINT", f"{identity.base_url}/token")
        monkeypatch.setenv("IDENTITY_HEADER", "header-of-the-machine")
        events = await asked(upstream, TURN)
        with pytest.raises(UpstreamRefused) as refused:
            await asked(upstream, TURN)
    assert text_of(events) == "hi"
    assert [request.headers["authorization"] for request in server.requests] == [f"Bearer {TOKEN}"] * 2
    assert len(identity.requests) == 1
    assert TOKEN not in refused.value.message
    assert refused.value.status == 401


async def test_without_any_credential_the_turn_is_refused_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("IDENTITY_ENDPOINT", "AZURE_CLIENT_ID", "AZURE_TENANT_ID"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AZURE_TOKEN_CREDENTIALS", "EnvironmentCredential")
    async with azure() as (server, upstream):
        with pytest.raises(UpstreamRefused, match="Set api_key") as refused:
            await asked(upstream, TURN)
    assert (refused.value.status, server.requests) == (401, [])


async def test_a_filtered_prompt_is_told_in_azures_words() -> None:
    body = b'{"error": {"code": "content_filter", "message": "The prompt was filtered.", "param": "prompt", "innererror": {}}}'
    async with azure(Refuse(400, "", body=body), api_key=Secret(KEY)) as (_, upstream):
        with pytest.raises(UpstreamRefused, match=r"The prompt was filtered\.") as refused:
            await asked(upstream, TURN)
    assert (refused.value.status, refused.value.code) == (400, "content_filter")


@pytest.mark.parametrize(
    "table, said",
    [
        ('type = "azure_openai"\napi_key = "k"', "base_url"),
        ('type = "openai"\napi_key = "k"\napi_version = "2025-04-01-preview"', "api_version"),
    ],
)
def test_settings_that_do_not_fit_are_refused_at_the_start(tmp_path: Path, table: str, said: str) -> None:
    file = tmp_path / "limpet.toml"
    file.write_text(f"[providers.acme]\n{table}\n")
    with pytest.raises(ConfigInvalid, match=said):
        load_config(file, environ={"LIMPET_HOME": str(tmp_path)})


def test_the_documented_settings_are_taken(tmp_path: Path) -> None:
    file = tmp_path / "limpet.toml"
    file.write_text(
        '[providers.azure]\ntype = "azure_openai"\nbase_url = "https://team.openai.example.com"\napi_key = "k"\n'
        'models = ["gpt-*"]\n[providers.azure.deployments]\n"gpt-5" = "team-gpt5-eu"\n'
    )
    (given, _) = load_config(file, environ={"LIMPET_HOME": str(tmp_path)}).providers
    assert (given.type, given.deployments) == ("azure_openai", {"gpt-5": "team-gpt5-eu"})
