"""Shells whose calls the client carries out: `client_passthrough`, `bare_tool = "local"`, and `environment: local` anywhere."""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest

from limpet.config import load_config
from tests.support.gateway import Gateway, running
from tests.support.host import rows
from tests.support.providers.turns import FunctionCall, Said, ShellCall
from tests.wire.schema import check_error, check_event, check_response
from tests.wire.test_seed_examples import CLIENT_PASSTHROUGH
from tests.wire.voices import KEY, KEY_VARIABLE, KINDS, Voice, section_of

BARE: Any = [{"type": "shell"}]
LOCAL: Any = [{"type": "shell", "environment": {"type": "local"}}]


@pytest.fixture(scope="module")
def client_gateway(voices: dict[str, Voice], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """The seed's configuration as it stands, with every kind of provider."""
    config = CLIENT_PASSTHROUGH + "".join(map(section_of, voices.values()))
    with running(tmp_path_factory.mktemp("clients"), runtime=None, config=config, env={KEY_VARIABLE: KEY}) as gateway:
        yield gateway


def call_of(voice: Voice, *commands: str) -> Said:
    """A model's shell call with a time and an output limit, as its wire spells it."""
    if voice.kind.has_native_shell:
        return ShellCall(commands, timeout_ms=2_000, max_output_length=500)
    arguments = {"commands": list(commands), "timeout_ms": 2_000, "max_output_length": 500}
    return FunctionCall("shell", arguments, call_id="call_shell_1")


def carried_out(call: Any) -> dict[str, Any]:
    """The item that a client answers a call with, its commands run here."""
    entries = []
    for command in call.action.commands:
        done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=30, check=False)
        outcome = {"type": "exit", "exit_code": done.returncode}
        entries.append({"stdout": done.stdout, "stderr": done.stderr, "outcome": outcome})
    return {"type": "shell_call_output", "call_id": call.call_id, "output": entries}


def asked(client: openai.OpenAI, *, streamed: bool, **request: Any) -> Any:
    """The response, and where it is streamed each of its events checked."""
    if not streamed:
        response = client.responses.create(**request)
        check_response(response.to_dict())
        return response
    events = [event.to_dict() for event in client.responses.create(**request, stream=True)]
    for event in events:
        check_event(event)
    return client.responses.retrieve(events[-1]["response"]["id"]) if request.get("store") is not False else events[-1]


@pytest.mark.promise(
    "client-passthrough-leaves-execution-to-the-client",
    "client-passthrough-works-behind-every-provider",
    "client-passthrough-emits-shell-calls-for-every-provider",
    "client-passthrough-call-data-is-the-same-for-every-provider",
    "hadrian-local-environment-call-goes-to-the-client",
    "toml-example-client-passthrough-is-accepted",
)
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_a_call_goes_to_the_client_and_its_output_comes_back(
    client_gateway: Gateway, voice: Voice, tmp_path: Path, streamed: bool
) -> None:
    client = client_gateway.client()
    voice.play(call_of(voice, f"echo one | tee {tmp_path}/here", "echo two >&2; exit 3"), "All done.")
    tools = LOCAL if streamed else BARE

    first = asked(client, streamed=streamed, model=voice.model, input="Go.", tools=tools)
    (call,) = first.output
    assert (first.status, call.type, call.status, call.call_id) == (
        "completed",
        "shell_call",
        "completed",
        "call_shell_1",
    )
    assert call.environment.type == "local"
    assert (call.action.timeout_ms, call.action.max_output_length) == (2_000, 500)
    assert "container_id" not in (first.model_extra or {})
    assert not (tmp_path / "here").exists()  # nothing was run by the gateway

    more = {"previous_response_id": first.id, "input": [carried_out(call)]}
    second = asked(client, streamed=streamed, model=voice.model, tools=tools, **more)
    assert (tmp_path / "here").read_text() == "one\n"
    assert second.output_text == "All done."
    ((told_call, commands),) = voice.told[-1].calls
    ((told_result, result),) = voice.told[-1].results
    assert (told_call, told_result, commands) == ("call_shell_1", "call_shell_1", call.action.commands)
    if voice.kind.has_native_shell:
        assert [entry["outcome"]["exit_code"] for entry in result] == [0, 3]
    else:
        assert result == "[command 1 of 2]\nexit code: 0\nstdout:\none\n\n[command 2 of 2]\nexit code: 3\nstderr:\ntwo"


def test_an_unstored_call_is_answered_with_its_history(client_gateway: Gateway, voices: dict[str, Voice]) -> None:
    voice, client = voices["chat"], client_gateway.client()
    voice.play(call_of(voice, "echo kept nowhere"), "Fine.")
    said: Any = {"role": "user", "content": "Go."}
    first = client.responses.create(model=voice.model, input=[said], tools=BARE, store=False)
    call = first.output[0]
    history: Any = [said, call.to_dict(), carried_out(call)]
    second = client.responses.create(model=voice.model, input=history, tools=BARE, store=False)
    assert (first.output[0].type, second.output_text) == ("shell_call", "Fine.")
    assert rows(client_gateway.home / "limpet.db", "SELECT count(*) AS n FROM containers") == [{"n": 0}]


def test_an_output_without_its_call_is_refused(client_gateway: Gateway, voices: dict[str, Voice]) -> None:
    stray = {"type": "shell_call_output", "call_id": "call_nobody", "output": []}
    with pytest.raises(
        openai.BadRequestError, match="No tool call found for shell call output with call_id call_nobody"
    ):
        client_gateway.client().responses.create(model=voices["chat"].model, input=[stray], tools=BARE)  # type: ignore[list-item]


@pytest.mark.parametrize(
    "environment", [{"type": "container_auto"}, {"type": "container_reference", "container_id": "c"}]
)
def test_a_container_cannot_be_asked_for(client_gateway: Gateway, environment: Any) -> None:
    with client_gateway.http() as http:
        body = {"model": "anthropic/x", "input": "x", "tools": [{"type": "shell", "environment": environment}]}
        answer = http.post("/v1/responses", json=body)
        made = http.post("/v1/containers", json={"name": "mine"})
        listed = http.get("/v1/containers").json()
    check_error(answer.json())
    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["param"]) == (
        400,
        "shell_environment_unsupported",
        "tools[0].environment",
    )
    assert (made.status_code, made.json()["error"]["code"], listed["data"]) == (400, "containers_unavailable", [])


def test_the_older_form_of_a_call_where_it_is_asked_for(voices: dict[str, Voice], tmp_path: Path) -> None:
    """`client_item = "function_call"`: for models that know no shell tool; OpenAI's get their own form."""
    config = f'{CLIENT_PASSTHROUGH}client_item = "function_call"\n' + "".join(map(section_of, voices.values()))
    with running(tmp_path, runtime=None, config=config, env={KEY_VARIABLE: KEY}) as gateway:
        client = gateway.client()
        for name in KINDS:
            voice = voices[name]
            voice.play(call_of(voice, "true"), "Done.")
            forced: Any = {"type": "shell"}
            first = client.responses.create(model=voice.model, input="Go.", tools=BARE, tool_choice=forced)
            assert voice.told[0].choice != "auto"
            call = first.output[0]
            if voice.kind.has_native_shell:
                assert call.type == "shell_call"
                continue
            assert (call.type, call.name) == ("function_call", "shell")  # type: ignore[union-attr]
            answer: Any = {"type": "function_call_output", "call_id": "call_shell_1", "output": "exit code: 0"}
            second = client.responses.create(
                model=voice.model, input=[answer], tools=BARE, previous_response_id=first.id
            )
            assert (second.output_text, voice.told[-1].results) == ("Done.", [("call_shell_1", "exit code: 0")])
        function: Any = {"type": "function", "name": "shell", "parameters": {"type": "object", "properties": {}}}
        with pytest.raises(openai.BadRequestError, match="Rename the function"):
            client.responses.create(model=voices["chat"].model, input="Go.", tools=[*BARE, function])


def test_a_bare_tool_is_the_clients_where_the_operator_says_so(voices: dict[str, Voice], tmp_path: Path) -> None:
    """Containers that are asked for are hosted all the same, and a chain may go from one to the other."""
    config = '[features.shell]\ntype = "memory"\nbare_tool = "local"\n' + section_of(voices["chat"])
    with running(tmp_path, runtime=None, config=config, env={KEY_VARIABLE: KEY}) as gateway:
        voice, client = voices["chat"], gateway.client()
        voice.play(call_of(voice, "echo hosted"), "Ran.", call_of(voice, "echo local"))
        auto: Any = [{"type": "shell", "environment": {"type": "container_auto"}}]
        hosted = client.responses.create(model=voice.model, input="Go.", tools=auto)
        local = client.responses.create(model=voice.model, input="Go.", tools=BARE, previous_response_id=hosted.id)
        assert [item.type for item in hosted.output] == ["shell_call", "shell_call_output", "message"]
        assert [item.type for item in local.output] == ["shell_call"]
        assert local.output[0].environment.type == "local"  # type: ignore[union-attr]


@pytest.mark.parametrize("table", ["policy", "redaction"])
def test_rules_that_would_hold_for_no_command_are_refused(tmp_path: Path, table: str) -> None:
    file = tmp_path / "limpet.toml"
    file.write_text(f"{CLIENT_PASSTHROUGH}[features.shell.{table}]\n")
    with pytest.raises(Exception, match=f"features.shell.{table}.*would hold for no command"):
        load_config(file, environ={})
