"""The examples of the specification (seed 04), as they stand but for hosts and ids: accepted, or refused by the documented code where
what they ask for is not built yet."""

import json
from pathlib import Path
from typing import Any

import openai
import pytest

from limpet.config import load_config
from limpet.core.errors import ConfigInvalid
from tests.support.gateway import Gateway
from tests.support.providers.turns import ShellCall
from tests.wire.asking import printed
from tests.wire.conftest import RUNTIME
from tests.wire.provider import Provider
from tests.wire.schema import check_container_list, check_error, check_response

CONTAINER_AUTO = """{
"model": "gpt-5.2",
"input": "Plot the residuals in residuals.csv and write the chart to /mnt/data/chart.png.",
"tools": [
{
"type": "shell",
"environment": {
"type": "container_auto",
"memory_limit": "1g",
"expires_after": { "anchor": "last_active_at", "minutes": 30 },
"network_policy": {
"type": "allowlist",
"allowed_domains": ["packages.example.com", "files.example.com"],
"domain_secrets": [
{ "domain": "api.example.com", "name": "GITHUB_TOKEN", "value": "ghp_…" }
]
}
}
}
]
}"""
CONTAINER_REFERENCE = """{
"model": "gpt-5.2",
"input": "Continue from where we left off.",
"tools": [
{
"type": "shell",
"environment": {
"type": "container_reference",
"container_id": "cntr_abc123…"
}
}
]
}"""
INPUT_FILES = """{
"input": [
{
"role": "user",
"content": [
{ "type": "input_text", "text": "Summarize this CSV." },
{ "type": "input_file", "file_id": "file_abc123" },
{ "type": "input_file", "file_url": "https://example.com/dataset.csv" },
{ "type": "input_file", "file_data": "data:text/csv;base64,..." }
]
}
]
}"""
CONTAINER = """{
"name": "my-workspace",
"memory_limit": "1g",
"expires_after": { "anchor": "last_active_at", "minutes": 60 },
"network_policy": {
"type": "allowlist",
"allowed_domains": ["packages.example.com"]
},
"skills": [
{ "type": "skill_reference", "skill_id": "<uuid>", "version": "latest" },
{
"type": "inline",
"name": "extract-csv",
"description": "Inline ephemeral skill",
"source": {
"type": "base64",
"media_type": "text/markdown",
"data": "IyBleHRyYWN0LWNzdgo="
}
}
]
}"""
CONTEXT_MANAGEMENT = """[
{
"type": "compaction",
"compact_threshold": 8000,
"strategy": "llm",
"prompt": "Summarize prior turns in <= 200 words; preserve constraints + file paths."
}
]"""
BACKGROUND = """{
"model": "gpt-5.2",
"background": true,
"input": "Run the full data pipeline.",
"tools": [{ "type": "shell" }]
}"""
PASSTHROUGH_OPENAI = """# Use OpenAI's hosted container
[features.shell]
type = "passthrough_openai"
"""
CLIENT_PASSTHROUGH = """# Or have your client execute calls (works behind any provider)
[features.shell]
type = "client_passthrough"
"""
MICROSANDBOX = """# Or host the sandbox yourself
[features.shell]
type = "microsandbox"
image = "alpine"
cpus = 1
memory_mb = 512
"""
COMPACTION = """[features.responses.compaction]
enabled = true # default false — opt in to gateway compaction
default_strategy = "truncate" # "llm" | "truncate"
default_threshold_tokens = 12_000 # falls back to this when the request omits it
keep_recent_items = 6 # most recent N items are never compacted
default_prompt = "..." # summarisation prompt for the llm strategy
"""
BUILT = ("bubblewrap", "local", "memory")


def post(gateway: Gateway, path: str, body: Any) -> tuple[int, Any]:
    with gateway.http() as http:
        answer = http.post(path, json=body)
    return answer.status_code, answer.json()


def refused(gateway: Gateway, path: str, body: Any) -> tuple[str, str]:
    """Code and param of a 400 in OpenAI's shape."""
    status, answer = post(gateway, path, body)
    check_error(answer)
    assert status == 400, answer
    return answer["error"]["code"], answer["error"]["param"]


def test_the_request_with_an_allowlist_is_refused_for_the_allowlist_alone(
    provider: Provider, scripted_gateway: Gateway
) -> None:
    """No network is granted that cannot be held to a list. The rest of the example is accepted."""
    body = json.loads(CONTAINER_AUTO)
    if RUNTIME == "local":
        del body["tools"][0]["environment"]["memory_limit"]  # it cannot limit memory, and says so
    place = "tools[0].environment.network_policy"
    assert refused(scripted_gateway, "/v1/responses", body) == (
        ("network_policy_rejected", f"{place}.allowed_domains[0]")
        if RUNTIME == "bubblewrap"
        else ("network_policy_unsupported", place)
    )

    del body["tools"][0]["environment"]["network_policy"]
    provider.play(ShellCall(("echo plotted > chart.png",)), "Plotted.")
    status, answer = post(scripted_gateway, "/v1/responses", body)
    assert status == 200
    check_response(answer)
    assert answer["output"][1]["output_files"][0]["path"].endswith("/chart.png")
    with scripted_gateway.http() as http:
        container = http.get(f"/v1/containers/{answer['container_id']}").json()
    assert container["expires_after"] == {"anchor": "last_active_at", "minutes": 30}


def test_an_inline_secret_is_in_no_refusal(scripted_gateway: Gateway) -> None:
    _, answer = post(scripted_gateway, "/v1/responses", json.loads(CONTAINER_AUTO))
    assert "ghp_" not in json.dumps(answer)
    assert "ghp_" not in scripted_gateway.log.read_text()


@pytest.mark.promise("tool-example-container-reference-is-accepted")
def test_the_request_with_a_container_goes_on_in_it(provider: Provider, scripted_gateway: Gateway) -> None:
    client = scripted_gateway.client()
    container = client.containers.create(name="before").id
    provider.play(ShellCall(("echo earlier > note",)), "Left.", ShellCall(("cat note",)), "There.")
    body = json.loads(CONTAINER_REFERENCE.replace("cntr_abc123…", container))
    client.responses.create(**body)
    assert printed(client.responses.create(**body)) == "earlier\n"


def test_the_request_with_a_container_that_is_none_is_404(scripted_gateway: Gateway) -> None:
    with pytest.raises(openai.NotFoundError) as caught:
        scripted_gateway.client().responses.create(**json.loads(CONTAINER_REFERENCE))
    check_error(caught.value.response.json())


def test_files_in_the_input_reach_a_provider_that_reads_them(provider: Provider, scripted_gateway: Gateway) -> None:
    """What is uploaded here the provider does not have, so it gets the bytes; a URL it opens itself."""
    uploaded = scripted_gateway.client().files.create(file=("data.csv", b"a"), purpose="user_data")
    body = json.loads(INPUT_FILES.replace("file_abc123", uploaded.id))
    provider.play("It has three columns.")
    status, answer = post(scripted_gateway, "/v1/responses", {"model": "gpt-5.2", **body})

    assert (status, answer["status"]) == (200, "completed")
    text, file, url, data = body["input"][0]["content"]
    told = provider.asked[0]["input"][0]["content"]
    assert [told[0], *told[2:]] == [text, url, data]
    assert (told[1]["type"], told[1]["filename"], told[1]["file_data"][-4:]) == (file["type"], "data.csv", "YQ==")


def test_files_of_which_one_is_not_there_are_refused(scripted_gateway: Gateway) -> None:
    body = {"model": "gpt-5.2", **json.loads(INPUT_FILES)}
    assert refused(scripted_gateway, "/v1/responses", body) == ("file_not_found", "input[0].content[1].file_id")


def test_a_container_with_skills_and_hosts_is_refused_for_each_of_them(scripted_gateway: Gateway) -> None:
    body = json.loads(CONTAINER)
    if RUNTIME == "local":
        del body["memory_limit"]
    assert refused(scripted_gateway, "/v1/containers", body) == (
        ("network_policy_rejected", "network_policy.allowed_domains[0]")
        if RUNTIME == "bubblewrap"
        else ("network_policy_unsupported", "network_policy")
    )
    del body["network_policy"]
    missing = ("skill_not_found", "skills[0].skill_id") if RUNTIME == "bubblewrap" else ("skills_unsupported", "skills")
    assert refused(scripted_gateway, "/v1/containers", body) == missing
    del body["skills"]
    status, answer = post(scripted_gateway, "/v1/containers", body)
    assert (status, answer["name"], answer["idle_ttl_secs"]) == (200, "my-workspace", 3600)


def test_the_list_is_asked_for_as_the_example_does(scripted_gateway: Gateway) -> None:
    older, newer = (scripted_gateway.client().containers.create(name=name).id for name in ("older", "newer"))
    with scripted_gateway.http() as http:
        page = http.get(f"/v1/containers?limit=20&after={newer}").json()
    check_container_list(page)
    assert set(page) == {"object", "data", "first_id", "last_id", "has_more"}
    assert page["data"][0]["id"] == older


@pytest.mark.promise("compaction-example-is-accepted", "native-compaction-is-forwarded")
def test_a_compaction_directive_is_accepted_and_its_extensions_stay_here(
    provider: Provider, scripted_gateway: Gateway
) -> None:
    provider.play("Nothing to compact.")
    body = {"model": "gpt-5.2", "input": "go", "context_management": json.loads(CONTEXT_MANAGEMENT)}
    status, answer = post(scripted_gateway, "/v1/responses", body)

    assert (status, answer["status"]) == (200, "completed")
    assert provider.asked[0]["context_management"] == [{"type": "compaction", "compact_threshold": 8000}]
    assert "strategy" not in json.dumps(provider.asked)
    assert "Summarize prior turns" not in json.dumps(provider.asked)


@pytest.mark.promise("background-example-is-accepted")
def test_the_background_example_is_accepted(provider: Provider, scripted_gateway: Gateway) -> None:
    provider.play("Done.")
    status, begun = post(scripted_gateway, "/v1/responses", json.loads(BACKGROUND))
    assert (status, begun["status"], begun["background"]) == (200, "in_progress", True)

    client = scripted_gateway.client()
    told = list(client.responses.retrieve(begun["id"], stream=True))
    assert told[-1].type == "response.completed"
    assert client.responses.retrieve(begun["id"]).output_text == "Done."


@pytest.mark.parametrize("example", [MICROSANDBOX])
def test_a_runtime_of_the_examples_that_is_not_built_is_refused_by_its_name(tmp_path: Path, example: str) -> None:
    file = tmp_path / "limpet.toml"
    file.write_text(example)
    with pytest.raises(ConfigInvalid) as caught:
        load_config(file, environ={})

    name = example.split('"')[1]
    assert f'{file}: features.shell.type: "{name}" is not built yet; built: ' in caught.value.message
    assert all(built in caught.value.message for built in BUILT)


def test_the_microsandbox_example_holds_with_a_runtime_that_is_built(tmp_path: Path) -> None:
    file = tmp_path / "limpet.toml"
    file.write_text(MICROSANDBOX.replace("microsandbox", "bubblewrap"))
    shell = load_config(file, environ={}).features.shell
    # The name of an image, and a directory where there is one of that name.
    assert (shell.type, shell.image, shell.cpus, shell.memory_mb) == ("bubblewrap", Path("alpine"), 1.0, 512)
    (tmp_path / "alpine").mkdir()
    assert load_config(file, environ={}).features.shell.image == tmp_path / "alpine"


@pytest.mark.promise("toml-example-compaction-is-accepted")
def test_the_compaction_example_is_read(tmp_path: Path) -> None:
    file = tmp_path / "limpet.toml"
    file.write_text(COMPACTION)
    compaction = load_config(file, environ={}).features.responses.compaction
    assert (compaction.default_strategy, compaction.default_threshold_tokens) == ("truncate", 12_000)
    assert (compaction.enabled, compaction.keep_recent_items, compaction.default_prompt) == (True, 6, "...")


UNBUILT = {name: f'[features.shell]\ntype = "{name}"\n' for name in ("microsandbox", "opensandbox", "cloudflare")}


@pytest.mark.promise("unbuilt-runtime-or-provider-is-refused-at-start")
@pytest.mark.parametrize("name", UNBUILT)
def test_what_is_not_built_keeps_the_gateway_from_starting(home_directory: Path, name: str) -> None:
    gateway = Gateway(home_directory, home=home_directory / "home", runtime=RUNTIME, config=UNBUILT[name])
    with pytest.raises(AssertionError, match="did not start"):
        gateway.start()

    said = gateway.log.read_text()
    assert f'"{name}" is not built yet; built: ' in said
    assert [one for one in BUILT if one not in said.partition("built: ")[2]] == []
    assert "Traceback" not in said
