"""Bedrock's Converse stream. Amazon's own client reads the scripted server, and its service model judges what is sent."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import boto3
import botocore.session
import pytest
from anyio import to_thread
from botocore.config import Config
from botocore.validate import ParamValidator

from limpet.core.errors import UpstreamBroken, UpstreamRefused
from limpet.core.secret import Secret
from limpet.upstreams import bedrock
from limpet.upstreams.retries import RetryBudget
from limpet.upstreams.routing import ProviderSettings
from limpet.upstreams.upstream import CallMade, ShellOffer, Turn, TurnEnded, Upstream
from tests.support.providers.bedrock import ScriptedBedrock
from tests.support.providers.server import Scripted
from tests.support.providers.turns import FunctionCall, Raw, Reasoning, Refuse, Reply, Text, reply
from tests.upstreams.questions import KEY, QUESTION, QUICK, asked, text_of

pytestmark = pytest.mark.anyio
MODEL = "eu.anthropic.claude-scripted-1"
IMAGE = {
    "type": "input_image",
    "image_url": "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII=",
}
TURN = Turn(model=MODEL, input=[QUESTION], shell=ShellOffer(description="a shell"))
SECRET_KEY = "wJalrXUtnFEMI-canary-bPxRfiCYEXAMPLEKEY"


@asynccontextmanager
async def amazon(
    *turns: Scripted, retries: RetryBudget = QUICK, **settings: Any
) -> AsyncIterator[tuple[ScriptedBedrock, Upstream]]:
    with anyio.fail_after(20):
        async with ScriptedBedrock(turns) as server:
            given = ProviderSettings(
                name="amazon", type="bedrock", base_url=server.base_url, **{"region": "eu-west-1", **settings}
            )
            async with bedrock.upstream(given, retries=retries) as upstream:
                yield server, upstream


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDCANARY")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
    monkeypatch.setenv("AWS_SESSION_TOKEN", "session-canary")


async def test_what_is_sent_is_what_amazons_model_of_the_service_allows(environment: None) -> None:
    given = [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "look"}, IMAGE]},
        {"type": "shell_call", "call_id": "c1", "action": {"commands": ["ls"]}, "status": "completed"},
        {"type": "shell_call_output", "call_id": "c1", "output": []},
    ]
    tool = {"type": "function", "name": "f", "parameters": {"type": "object", "properties": {}}}
    options = {"temperature": 0.5, "max_output_tokens": 99, "tool_choice": "required"}
    turn = Turn(model=MODEL, input=given, instructions="Be kind.", shell=TURN.shell, tools=[tool], options=options)
    async with amazon(reply(Reasoning("hm"), "Hello", FunctionCall("shell", {"commands": ["ls"]}))) as (
        server,
        upstream,
    ):
        events = await asked(upstream, turn)
    (request,) = server.requests
    service = botocore.session.Session().get_service_model("bedrock-runtime")
    # On the wire bytes stand in base64; the service's model has them as they are.
    body = {**request.body, "modelId": MODEL}
    body["messages"][0]["content"][1]["image"]["source"]["bytes"] = b"png"
    report = ParamValidator().validate(body, service.operation_model("ConverseStream").input_shape)

    assert not report.has_errors(), report.generate_report()
    assert (text_of(events), [event for event in events if isinstance(event, CallMade)] != []) == ("Hello", True)
    assert re.match(
        r"AWS4-HMAC-SHA256 Credential=AKIDCANARY/\d{8}/eu-west-1/bedrock/", request.headers["authorization"]
    )
    assert SECRET_KEY not in str(request)


async def test_without_credentials_it_is_refused_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_BEARER_TOKEN_BEDROCK"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    async with amazon() as (server, upstream):
        with pytest.raises(UpstreamRefused, match="credentials"):
            await asked(upstream, TURN)
    assert server.requests == []


async def test_without_a_region_it_is_refused_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
    monkeypatch.delenv("AWS_REGION", raising=False)
    async with amazon(region=None) as (_, upstream):
        with pytest.raises(UpstreamRefused, match="region") as refused:
            await asked(upstream, TURN)
    assert refused.value.status == 401


KINDS = ("modelStreamErrorException", "throttlingException", "internalServerException", "serviceUnavailableException")


@pytest.mark.parametrize("kind", [*KINDS, "validationException"])
async def test_an_exception_in_mid_stream_keeps_what_came_and_is_named(kind: str, environment: None) -> None:
    broken = reply(Text("Once upon"), Raw({"kind": kind, "event": {"message": "The stream broke."}}))
    got: list[Any] = []
    async with amazon(broken, retries=RetryBudget(most=0)) as (server, upstream):
        with pytest.raises(UpstreamBroken, match="The stream broke"):
            async for event in upstream.stream(TURN):
                got.append(event)
    assert (text_of(got), len(server.requests)) == ("Once upon", 1)


async def test_throttling_is_waited_out_within_the_budget_and_no_longer(environment: None) -> None:
    async with amazon(Refuse(429, "Slow."), Refuse(503, "Later."), reply("at last")) as (server, upstream):
        events = await asked(upstream, TURN)
    assert (text_of(events), len(server.requests)) == ("at last", 3)
    async with amazon(Refuse(429, "Slow.", headers={"retry-after": "3600"}), reply("never")) as (server, upstream):
        with pytest.raises(UpstreamRefused, match=r"Slow\.") as refused:
            await asked(upstream, TURN)
    assert (refused.value.status, refused.value.retry_after, len(server.requests)) == (429, 3600.0, 1)


@pytest.mark.parametrize(
    "ends, status, reason",
    [("failed", "incomplete", "content_filter"), ("max_output_tokens", "incomplete", "max_output_tokens")],
)
async def test_stop_reasons_are_told(ends: Any, status: str, reason: str, environment: None) -> None:
    async with amazon(Reply((Text("x"),), ends=ends)) as (_, upstream):
        events = await asked(upstream, TURN)
    ended = events[-1]
    assert isinstance(ended, TurnEnded)
    assert (ended.status, ended.incomplete_reason) == (status, reason)


async def test_sixty_streams_at_once_do_not_wait_for_each_other() -> None:
    """The library reads each in a thread of anyio's, of which there are 40."""
    turns = [reply("x", hold_after=1) for _ in range(60)]
    async with amazon(*turns, api_key=Secret(KEY)) as (server, upstream), anyio.create_task_group() as tasks:
        for _ in turns:
            tasks.start_soon(asked, upstream, TURN)
        while len(server.requests) < len(turns):
            await anyio.sleep(0.01)
        server.release.set()


async def test_amazons_client_accepts_the_scripted_server(environment: None) -> None:
    async with ScriptedBedrock([reply(Reasoning("hm"), "Hello", input_tokens=5)]) as server:
        client = boto3.client(
            "bedrock-runtime",
            region_name="eu-west-1",
            endpoint_url=server.base_url,
            config=Config(retries={"total_max_attempts": 1}),
        )
        message = {"role": "user", "content": [{"text": "hi"}]}

        def read() -> list[Any]:
            return list(client.converse_stream(modelId=MODEL, messages=[message])["stream"])

        events = await to_thread.run_sync(read)
    deltas = [event["contentBlockDelta"]["delta"] for event in events if "contentBlockDelta" in event]
    assert "".join(delta.get("text", "") for delta in deltas) == "Hello"
    assert events[-1]["metadata"]["usage"]["inputTokens"] == 5
