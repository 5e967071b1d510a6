"""`passthrough_openai`: the shell tool goes to OpenAI, whose containers run the commands; what comes back is passed on, and kept."""

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import openai
import pytest

from tests.support.gateway import Gateway, running
from tests.support.host import rows
from tests.support.providers.openai_responses import ScriptedResponses
from tests.support.providers.server import Request
from tests.support.providers.turns import Raw, Refuse, ShellCall, Turn, reply
from tests.wire.order import check_event_order
from tests.wire.provider import MODEL, Provider, config_of, scripted_provider
from tests.wire.schema import check_error, check_event, check_response, recording
from tests.wire.test_keys import Keyed
from tests.wire.test_seed_examples import CONTAINER_AUTO, PASSTHROUGH_OPENAI
from tests.wire.voices import KEY, KEY_VARIABLE, Voice, section_of

RECORDED = [event for event in recording("openai-shell-skills") if "output_index" in event]
CONTAINERS = [
    event["item"]["environment"]["container_id"]
    for event in RECORDED
    if event["type"] == "response.output_item.done" and event["item"]["type"] == "shell_call"
]
AUTO: Any = [{"type": "shell", "environment": {"type": "container_auto"}}]


def container(id: str) -> dict[str, Any]:
    """One, as OpenAI shows it."""
    return {"id": id, "object": "container", "name": "", "created_at": 0, "status": "running"}


def page_behind(path: str) -> dict[str, Any]:
    """One container of the account's three, of which each belongs to another tenant or to the first."""
    after = parse_qs(urlsplit(path).query).get("after", [""])[0]
    ids = ["cntr_of_a", "cntr_of_b", "cntr_of_c"]
    left = ids[ids.index(after) + 1 :] if after else ids
    data = [container(id) for id in left[:1]]
    ends = {"first_id": left[0], "last_id": left[0]} if left else {}
    return {"object": "list", "data": data, **ends, "has_more": len(left) > 1}


class OpenAIsContainers(ScriptedResponses):
    """A provider that also has containers: each is a file `cfile_1` with the bytes of its id."""

    def _next(self, request: Request) -> Turn:
        if "/containers" not in request.path:
            return super()._next(request)
        path = request.path.partition("/containers")[2].partition("?")[0]
        match request.method, path.strip("/").split("/"):
            case "POST", [""]:
                answer: Any = container(f"cntr_of_{request.body['name']}")
            case "GET", [""]:
                answer = page_behind(request.path)
            case "GET", [id]:
                answer = container(id)
            case "POST", [id, "files"]:
                answer = {"id": "cfile_1", "container_id": id, "object": "container.file", "created_at": 0}
                answer |= {"bytes": 3, "path": "/mnt/data/x", "source": "user"}
            case "GET", [id, "files", "cfile_1", "content"]:
                return Refuse(200, body=f"bytes of {id}".encode(), headers={"content-type": "text/html"})
            case "DELETE", [id]:
                answer = {"id": id, "object": "container.deleted", "deleted": True}
            case _:
                return Refuse(404, "No such thing.")
        return Refuse(200, body=json.dumps(answer).encode(), headers={"content-type": "application/json"})


@pytest.fixture(scope="module")
def openais() -> Iterator[Provider]:
    with scripted_provider(OpenAIsContainers) as provider:
        yield provider


@pytest.fixture(scope="module")
def passing_gateway(
    openais: Provider, voices: dict[str, Voice], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Gateway]:
    """The seed's configuration as it stands, before providers of every kind."""
    config = (
        PASSTHROUGH_OPENAI + config_of(openais) + "".join(section_of(voices[name]) for name in ("chat", "function"))
    )
    with running(tmp_path_factory.mktemp("passing"), runtime=None, config=config, env={KEY_VARIABLE: KEY}) as gateway:
        yield gateway


def deltas(events: list[dict[str, Any]]) -> dict[tuple[str, int], str]:
    """All text of each kind of delta, by item."""
    texts: dict[tuple[str, int], str] = {}
    for event in events:
        if "delta" in event:
            text = event["delta"] if isinstance(event["delta"], str) else event["delta"].get("stdout", "")
            place = (event["type"], event["output_index"])
            texts[place] = texts.get(place, "") + text
    return texts


@pytest.mark.promise(
    "passthrough-openai-runs-in-openais-container",
    "toml-example-passthrough-openai-is-accepted",
    "hadrian-passthrough-is-configured-by-its-documented-name",
)
def test_what_openai_ran_is_passed_on_as_it_came_and_goes_back_in_a_chain(
    passing_gateway: Gateway, openais: Provider
) -> None:
    client = passing_gateway.client()
    openais.play(reply(*map(Raw, RECORDED)), "And on.")
    events = [event.to_dict() for event in client.responses.create(model=MODEL, input="Go.", tools=AUTO, stream=True)]
    for event in events:
        check_event(event)
    check_event_order(events)
    # Deltas may be cut elsewhere: what could be the beginning of the provider's key waits for more.
    passed = [{**event, "sequence_number": 0} for event in events if "output_index" in event and "delta" not in event]
    assert passed == [{**event, "sequence_number": 0} for event in RECORDED if "delta" not in event]
    assert deltas(events) == deltas(RECORDED)
    assert openais.asked[0]["tools"] == AUTO
    assert openais.asked[0]["store"] is False

    stored = client.responses.retrieve(events[-1]["response"]["id"])
    check_response(stored.to_dict())
    kinds = [item.type for item in stored.output]
    assert kinds.count("shell_call_output") == len(CONTAINERS) == 2
    client.responses.create(model=MODEL, input="More.", tools=AUTO, previous_response_id=stored.id)
    sent = [item for item in openais.asked[1]["input"] if item["type"].startswith("shell_call")]
    assert [item["environment"]["container_id"] for item in sent if item["type"] == "shell_call"] == CONTAINERS
    assert [item["type"] for item in sent] == ["shell_call", "shell_call_output"] * 2
    assert rows(passing_gateway.home / "limpet.db", "SELECT count(*) AS n FROM containers") == [{"n": 0}]


def test_a_bare_tool_is_hosted_and_a_local_one_is_the_clients(passing_gateway: Gateway, openais: Provider) -> None:
    client = passing_gateway.client()
    openais.play("Nothing to do.", ShellCall(("echo mine",)))
    bare: Any = [{"type": "shell"}]
    client.responses.create(model=MODEL, input="Go.", tools=bare, max_tool_calls=3)
    assert (openais.asked[0]["tools"], openais.asked[0]["max_tool_calls"]) == (AUTO, 3)
    local: Any = [{"type": "shell", "environment": {"type": "local"}}]
    response = client.responses.create(model=MODEL, input="Go.", tools=local)
    assert [(item.type, item.environment.type) for item in response.output] == [("shell_call", "local")]  # type: ignore[union-attr]


@pytest.mark.promise(
    "passthrough-behind-another-provider-is-refused",
    "hadrian-passthrough-error-has-the-documented-code",
    "passthrough-counts-a-provider-without-native-shell-as-another",
)
@pytest.mark.parametrize("model", ["chat/scripted-1", "function/scripted-1", "limpet/script"])
@pytest.mark.parametrize("tools", [AUTO, [{"type": "shell"}]], ids=["auto", "bare"])
def test_other_providers_are_refused_by_name(passing_gateway: Gateway, model: str, tools: Any) -> None:
    with passing_gateway.http() as http:
        answer = http.post("/v1/responses", json={"model": model, "input": "Go.", "tools": tools})
    check_error(answer.json())
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (400, "shell_passthrough_unsupported_provider")
    assert f"provider {model.partition('/')[0]} cannot" in error["message"]


@pytest.mark.promise("passthrough-openai-refuses-reference-secrets")
def test_a_secret_by_reference_is_refused_and_a_value_is_stored_nowhere(
    passing_gateway: Gateway, openais: Provider
) -> None:
    body = json.loads(CONTAINER_AUTO)
    body["tools"][0]["environment"]["network_policy"]["domain_secrets"][0]["value"] = "ghp_planted-in-a-request"
    openais.play("Seen.")
    with passing_gateway.http() as http:
        answer = http.post("/v1/responses", json=body)
        assert openais.asked[0]["tools"] == body["tools"]  # unchanged
        policy = {"type": "allowlist", "allowed_domains": ["x.example"], "domain_secrets": [{"placeholder": "NAME"}]}
        tool = {"type": "shell", "environment": {"type": "container_auto", "network_policy": policy}}
        refused = http.post("/v1/responses", json={"model": MODEL, "input": "x", "tools": [tool]})
        also = http.post("/v1/containers", json={"name": "x", "network_policy": policy})
    check_response(answer.json())
    assert "planted" not in answer.text
    kept = b"".join(file.read_bytes() for file in passing_gateway.home.rglob("*") if file.is_file())
    assert b"ghp_planted" not in kept
    for each in (refused, also):
        assert (each.status_code, each.json()["error"]["code"]) == (400, "domain_secret_reference_unsupported")
    assert refused.json()["error"]["param"].endswith("network_policy.domain_secrets[0]")


@pytest.mark.promise("passthrough-openai-relays-the-containers-api")
def test_containers_and_their_files_are_the_providers(passing_gateway: Gateway, openais: Provider) -> None:
    client = passing_gateway.client()
    openais.play()
    made = client.containers.create(name="a", memory_limit="1g")
    assert (made.id, openais.asked[0]) == ("cntr_of_a", {"name": "a", "memory_limit": "1g"})
    assert [each.id for each in client.containers.list(limit=5)] == ["cntr_of_a", "cntr_of_b", "cntr_of_c"]
    assert client.containers.retrieve("cntr_of_b").status == "running"
    assert client.containers.files.create("cntr_of_a", file=b"abc").id == "cfile_1"
    content = client.containers.files.content.retrieve("cfile_1", container_id="cntr_of_a")
    assert content.read() == b"bytes of cntr_of_a"
    assert content.response.headers["content-disposition"] == "attachment"
    client.containers.delete("cntr_of_a")
    seen = [(request.method, request.path.partition("/v1")[2]) for request in openais.server.requests]
    assert ("POST", "/containers/cntr_of_a/files") in seen
    assert seen[-1] == ("DELETE", "/containers/cntr_of_a")
    assert {request.headers["authorization"] for request in openais.server.requests} == {"Bearer sk-of-the-provider"}
    with pytest.raises(openai.NotFoundError):
        client.containers.files.retrieve("nobody", container_id="cntr_of_a")
    with passing_gateway.http() as http:
        assert http.get("/v1/containers/cntr_of_a/files/..%2f..%2fmodels").status_code == 404


def test_tenants_see_their_own_containers_of_the_shared_account(openais: Provider, tmp_path: Any) -> None:
    config = f'[auth]\nmode = "keys"\n{PASSTHROUGH_OPENAI}{config_of(openais)}'
    with running(tmp_path, runtime=None, config=config) as gateway:
        keyed = Keyed(gateway)
        ada, bob = (keyed.as_(keyed.key(name, "--tenant", name)) for name in ("ada", "bob"))
        openais.play(reply(*map(Raw, RECORDED)))
        ada.containers.create(name="a")
        openais.play(reply(*map(Raw, RECORDED)))
        ada.responses.create(model=MODEL, input="Go.", tools=AUTO)
        assert [each.id for each in ada.containers.list()] == ["cntr_of_a"]
        assert list(bob.containers.list()) == []
        content = ada.containers.files.content.retrieve("cfile_1", container_id=CONTAINERS[0])
        assert content.read() == f"bytes of {CONTAINERS[0]}".encode()
        for named in ("cntr_of_a", CONTAINERS[0]):
            with pytest.raises(openai.NotFoundError):
                bob.containers.files.content.retrieve("cfile_1", container_id=named)
            there: Any = [{"type": "shell", "environment": {"type": "container_reference", "container_id": named}}]
            with pytest.raises(openai.NotFoundError, match="There is no container"):
                bob.responses.create(model=MODEL, input="Go.", tools=there)


def interpreter(container: Any) -> dict[str, Any]:
    return {"type": "code_interpreter", "container": container}


def referring(container_id: str) -> dict[str, Any]:
    return {"type": "shell", "environment": {"type": "container_reference", "container_id": container_id}}


def test_no_tool_names_and_no_page_shows_a_container_of_another_tenant(openais: Provider, tmp_path: Any) -> None:
    config = f'[auth]\nmode = "keys"\n{PASSTHROUGH_OPENAI}{config_of(openais)}'
    call = {"id": "ci_1", "type": "code_interpreter_call", "code": "1", "status": "completed", "outputs": []}
    ran = {**call, "container_id": "cntr_of_c"}
    within = {"type": "namespace", "name": "n", "tools": [interpreter("cntr_of_a")]}
    with running(tmp_path, runtime=None, config=config) as gateway:
        keyed = Keyed(gateway)
        ada, bob = (keyed.as_(keyed.key(name, "--tenant", name)) for name in ("ada", "bob"))
        done = [{"type": f"response.output_item.{name}", "output_index": 0, "item": ran} for name in ("added", "done")]
        ada.containers.create(name="a")
        bob.containers.create(name="b")
        openais.play(reply(*map(Raw, done)), "Again.", "And again.")
        auto: Any = [interpreter({"type": "auto"})]
        own: Any = [interpreter("cntr_of_c"), referring("cntr_of_a")]
        again: Any = [ran]
        ada.responses.create(model=MODEL, input="Go.", tools=auto)
        ada.responses.create(model=MODEL, input=again, tools=own)
        asked = len(openais.asked)
        foreign: list[tuple[Any, Any, str]] = [
            ("Go.", [{"type": "shell"}, interpreter("cntr_of_a")], "tools[1].container"),
            ("Go.", [interpreter("cntr_of_c")], "tools[0].container"),
            ("Go.", [{"type": "shell"}, within], "tools[1].tools[0].container"),
            ("Go.", [referring("cntr_of_a")], "tools[0].environment.container_id"),
            (again, auto, "input"),
        ]
        for given, tools, param in foreign:
            with pytest.raises(openai.NotFoundError) as refused:
                bob.responses.create(model=MODEL, input=given, tools=tools)
            assert (refused.value.code, refused.value.param) == ("container_not_found", param)
        assert len(openais.asked) == asked
        whole = ada.containers.with_raw_response.list(limit=1).http_response.json()
        assert (whole["first_id"], whole["last_id"], whole["has_more"]) == ("cntr_of_a", "cntr_of_a", True)
        assert [each.id for each in ada.containers.list(limit=1)] == ["cntr_of_a", "cntr_of_c"]
        assert "cntr_of_a" not in bob.containers.with_raw_response.list().http_response.text
        with pytest.raises(openai.BadRequestError):
            bob.containers.list(after="cntr_of_a")


@pytest.mark.parametrize(
    "event",
    [
        {"type": "response.shell_call_command.delta", "output_index": 0, "command_index": 10**9, "delta": "x"},
        {
            "type": "response.shell_call_output_content.delta",
            "output_index": 0,
            "command_index": 0,
            "delta": {"stdout": "x"},
        },
        {"type": "response.shell_call_command.added", "output_index": 0, "command_index": 0, "command": 7},
    ],
)
def test_garbled_events_of_its_shell_end_the_response_and_nothing_else(
    passing_gateway: Gateway, openais: Provider, event: Any
) -> None:
    item = {"id": "sh_1", "type": "shell_call", "call_id": "c", "status": "in_progress", "action": {"commands": []}}
    added = {"type": "response.output_item.added", "output_index": 0, "item": item}
    openais.play(reply(Raw(added), Raw(event)))
    response = passing_gateway.client().responses.create(model=MODEL, input="Go.", tools=AUTO)
    assert (response.status, response.error and response.error.code) == ("failed", "server_error")
