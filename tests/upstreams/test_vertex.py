"""Vertex AI: Gemini and Claude with Google's credentials. Google's and Anthropic's own clients are the witnesses."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from google import genai
from google.genai import types

from limpet.core.errors import UpstreamRefused
from limpet.core.secret import Secret
from limpet.upstreams import vertex
from limpet.upstreams.routing import ProviderSettings
from limpet.upstreams.upstream import CallMade, Emit, ShellOffer, TurnEnded, Upstream
from limpet.upstreams.upstream import Turn as Asked
from tests.support.providers.anthropic import ScriptedAnthropic
from tests.support.providers.gemini import ScriptedGemini
from tests.support.providers.server import Request, Scripted, ScriptedServer
from tests.support.providers.turns import FunctionCall, Reasoning, Refuse, Turn, reply
from tests.upstreams.questions import KEY, QUESTION, QUICK, asked, text_of

pytestmark = pytest.mark.anyio
TOKEN = "ya29.canary-of-google-81c2"
SHELL = ShellOffer(description="a shell")


class ScriptedVertexClaude(ScriptedAnthropic):
    """Claude on Vertex AI: the Messages API at an address that names project, location and model."""

    def serves(self, path: str) -> bool:
        return (
            path == "/v1/projects/team-1/locations/europe-west1/publishers/anthropic/models/claude-x:streamRawPredict"
        )


class ScriptedTokens(ScriptedServer):
    """Where a service account's signed claim is changed for a token (RFC 7523)."""

    path = "/token"

    def _next(self, request: Request) -> Turn:
        if self.turns:
            return super()._next(request)
        body = json.dumps({"access_token": TOKEN, "expires_in": 3600, "token_type": "Bearer"}).encode()
        return Refuse(200, "", body=body, headers={"content-type": "application/json"})


def service_account(directory: Path, token_uri: str) -> Path:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
    file = directory / "account.json"
    given = {
        "type": "service_account",
        "project_id": "team-1",
        "private_key_id": "k1",
        "private_key": pem,
        "client_email": "gateway@team-1.example.com",
        "token_uri": token_uri,
    }
    file.write_text(json.dumps(given))
    return file


@asynccontextmanager
async def on_vertex(
    server: ScriptedServer, directory: Path, **settings: Any
) -> AsyncIterator[tuple[Upstream, ScriptedTokens]]:
    with anyio.fail_after(20):
        async with ScriptedTokens() as tokens, server:
            given = ProviderSettings(
                name="google",
                type="vertex",
                base_url=server.base_url,
                region="europe-west1",
                credentials_file=service_account(directory, f"{tokens.base_url}/token"),
                **settings,
            )
            async with vertex.upstream(given, retries=QUICK) as upstream:
                yield upstream, tokens


async def test_gemini_is_asked_in_the_project_of_the_service_account(tmp_path: Path) -> None:
    server = ScriptedGemini([reply("Hello"), reply("again")])
    async with on_vertex(server, tmp_path) as (upstream, tokens):
        events = await asked(upstream, Asked(model="gemini-x", input=[QUESTION], shell=SHELL))
        await asked(upstream, Asked(model="gemini-x", input=[QUESTION]))
    first = server.requests[0]
    assert text_of(events) == "Hello"
    assert first.path.startswith(
        "/v1beta1/projects/team-1/locations/europe-west1/publishers/google/models/gemini-x:streamGenerateContent"
    )
    assert (first.headers["authorization"], len(tokens.requests)) == (f"Bearer {TOKEN}", 1)
    types.Content.model_validate(first.body["contents"][0], strict=False)


async def test_claude_is_asked_there_too_with_its_thinking(tmp_path: Path) -> None:
    server = ScriptedVertexClaude([reply(Reasoning("hm", "SIG"), FunctionCall("shell", {"commands": ["ls"]}))])
    async with on_vertex(server, tmp_path) as (upstream, _):
        events = await asked(upstream, Asked(model="claude-x", input=[QUESTION], shell=SHELL))
    (request,) = server.requests
    assert [event.arguments for event in events if isinstance(event, CallMade)] != []
    assert ("anthropic_version" in request.body, "model" in request.body) == (True, False)
    assert request.headers["authorization"] == f"Bearer {TOKEN}"


async def test_an_account_that_was_revoked_is_told_as_that(tmp_path: Path) -> None:
    async with on_vertex(ScriptedGemini([reply("never")]), tmp_path) as (upstream, tokens):
        tokens.turns = [Refuse(400, body=b'{"error": "invalid_grant", "error_description": "Account not found"}')]
        with pytest.raises(UpstreamRefused, match="invalid_grant") as refused:
            await asked(upstream, Asked(model="gemini-x", input=[QUESTION]))
    assert refused.value.status == 401


async def test_a_refusal_never_shows_the_token_and_is_told_in_googles_words(tmp_path: Path) -> None:
    server = ScriptedGemini([Refuse(403, f"Denied for {TOKEN}.")])
    async with on_vertex(server, tmp_path) as (upstream, _):
        with pytest.raises(UpstreamRefused, match="Denied for") as refused:
            await asked(upstream, Asked(model="gemini-x", input=[QUESTION]))
    assert (refused.value.status, refused.value.code) == (403, "PERMISSION_DENIED")
    assert TOKEN not in refused.value.message


@pytest.mark.parametrize("written", ["", "{}", '{"type": "service_account"}'], ids=["empty", "no type", "no key"])
async def test_credentials_that_are_none_are_refused_with_what_to_do(tmp_path: Path, written: str) -> None:
    file = tmp_path / "account.json"
    file.write_text(written)
    given = ProviderSettings(name="google", type="vertex", credentials_file=file)
    async with vertex.upstream(given) as upstream:
        with pytest.raises(UpstreamRefused, match="Give credentials_file") as refused:
            await asked(upstream, Asked(model="gemini-x", input=[QUESTION]))
    assert refused.value.status == 401


async def test_a_signature_without_thoughts_is_kept_for_the_next_turn() -> None:
    call = FunctionCall("shell", {"commands": ["ls"]}, call_id="c1")
    server = ScriptedGemini([reply(Reasoning("", "SIGNED"), call), reply("done")])
    async with server:
        given = ProviderSettings(name="google", type="vertex", base_url=server.base_url, api_key=Secret(KEY))
        async with vertex.upstream(given, retries=QUICK) as upstream:
            first = await asked(upstream, Asked(model="gemini-x", input=[QUESTION], shell=SHELL))
            (thought,) = [e.data["item"] for e in first if isinstance(e, Emit) and e.type.endswith("item.done")]
            made = {"type": "shell_call", "call_id": "c1", "action": {"commands": ["ls"]}, "status": "completed"}
            output = {"type": "shell_call_output", "call_id": "c1", "output": []}
            last = await asked(upstream, Asked(model="gemini-x", input=[QUESTION, thought, made, output], shell=SHELL))
    assert isinstance(last[-1], TurnEnded)
    assert (thought["type"], thought["summary"]) == ("reasoning", [])
    parts = [part for content in server.requests[1].body["contents"] for part in content["parts"]]
    assert [part["thoughtSignature"] for part in parts if "functionCall" in part] == ["U0lHTkVE"]


@pytest.mark.parametrize("turn", [reply(Reasoning("hm"), "Hello", FunctionCall("f", {"a": 1}))])
async def test_googles_client_accepts_the_scripted_gemini(turn: Scripted) -> None:
    async with ScriptedGemini([turn]) as server:
        options = types.HttpOptions(base_url=server.base_url, httpx_async_client=httpx2.AsyncClient())
        client = genai.Client(vertexai=True, api_key=KEY, http_options=options)
        chunks = [
            chunk async for chunk in await client.aio.models.generate_content_stream(model="gemini-x", contents="hi")
        ]
    assert "".join(chunk.text or "" for chunk in chunks if chunk.candidates) == "Hello"
    assert chunks[-1].usage_metadata is not None
    assert chunks[-1].usage_metadata.prompt_token_count == 11
