"""Secrets of requests and of the operator, used by commands behind the gateway towards real TLS servers, whose log says what arrived."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.doors import Upstream, upstream
from tests.support.gateway import Gateway, running
from tests.support.host import eventually
from tests.support.local_names import LocalNames
from tests.wire.asking import container_of, entries, referring_to, run
from tests.wire.conftest import RUNTIME
from tests.wire.provider import Provider, config_of
from tests.wire.schema import check_error
from tests.wire.test_seed_examples import CONTAINER_AUTO

pytestmark = pytest.mark.skipif(
    RUNTIME not in ("bubblewrap", "docker"),
    reason="of the runtimes that are built only bubblewrap and docker can hold a network",
)
GOOD, OTHER, ELSE = "api.good.example", "other.good.example", "api.else.example"
VALUE, OPERATORS = "inl1ne+/value.*(odd)~&signs", "operat0r/value-of-a-file"


@pytest.fixture(scope="module")
def up() -> Iterator[Upstream]:
    with upstream(GOOD, OTHER, ELSE) as opened:
        yield opened


@pytest.fixture(scope="module")
def rotated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("secrets") / "deploy"
    file.write_text(f"{OPERATORS}\n")
    return file


@pytest.fixture(scope="module")
def gateway(
    up: Upstream, rotated: Path, provider: Provider, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Gateway]:
    directory = tmp_path_factory.mktemp("lending")
    settings = lending(directory, up, rotated)
    settings["config"] += config_of(provider)
    with running(directory, **settings) as opened:
        yield opened


def lending(directory: Path, up: Upstream, file: Path) -> dict[str, Any]:
    """Settings of a gateway whose host knows the names of these servers and trusts their authority."""
    (directory / "ca.pem").write_text(up.trust)
    config = f"""
[features.server_tools.shell_limits]
allowed_egress_hosts = ["*.good.example", "*.example.com"]
allowed_egress_ports = [{up.port}]
allowed_egress_networks = ["127.0.0.0/8"]
[features.server_tools.shell_limits.allowed_domain_secrets.DEPLOY_TOKEN]
file = "{file}"
allowed_hosts = ["{ELSE}", "*.good.example"]
in_query = true
"""
    env = {"SSL_CERT_FILE": str(directory / "ca.pem")}
    return {"runtime": RUNTIME, "config": config, "env": env, "names": LocalNames()}


def inline(name: str = "TOKEN", domain: str = GOOD, value: str = VALUE, **more: Any) -> dict[str, Any]:
    return {"domain": domain, "name": name, "value": value, **more}


def asking(*secrets: dict[str, Any], domains: tuple[str, ...] = ()) -> list[Any]:
    policy = {"type": "allowlist", "allowed_domains": list(domains), "domain_secrets": list(secrets)}
    return [{"type": "shell", "environment": {"type": "container_auto", "network_policy": policy}}]


def curl(up: Upstream, *arguments: str, host: str = GOOD, path: str = "/") -> str:
    return f"curl -sS --max-time 20 {' '.join(arguments)} 'https://{host}:{up.port}{path}'"


JSON = {"Content-Type": "application/json"}
BEARER = '-H "Authorization: Bearer $TOKEN"'


@pytest.mark.promise("inline-secret-travels-with-the-request", "secret-for-an-unlisted-host-opens-that-host")
def test_an_inline_secret_of_a_request_reaches_its_host_and_is_in_nothing_that_the_box_sees(
    gateway: Gateway, up: Upstream
) -> None:
    before = len(up.seen)
    basic = curl(up, "-u x-access-token:$TOKEN")
    holds = "echo $TOKEN; env"
    response = run(gateway.client(), curl(up, BEARER), basic, holds, curl(up), tools=asking(inline()))
    first, second, env, without = entries(response)
    assert (first.stdout, second.stdout) == ("hello", "hello"), (first, second)
    assert f"Authorization: Bearer {VALUE}".encode() in up.seen[before]
    assert b"Basic " + base64.b64encode(f"x-access-token:{VALUE}".encode()) in up.seen[before + 1]
    assert "Blocked by network policy" in without.stdout
    assert len(up.seen) == before + 2
    assert env.stdout.startswith("LIMPETSECRET")
    with gateway.http() as http:
        shown = (
            http.get(f"/v1/responses/{response.id}").text + http.get(f"/v1/containers/{container_of(response)}").text
        )
    assert VALUE not in shown + json.dumps(response.model_dump(mode="json")) + gateway.log.read_text()
    assert "domain_secrets" not in shown


@pytest.mark.promise("tool-example-container-auto-is-accepted", "model-is-told-hosts-and-secret-names")
def test_the_example_of_a_request_with_a_secret_is_accepted_and_the_model_is_told_its_name(
    gateway: Gateway, provider: Provider
) -> None:
    provider.play("Done.")
    with gateway.http() as http:
        answer = http.post("/v1/responses", json=json.loads(CONTAINER_AUTO))
    assert answer.status_code == 200, answer.text
    assert "ghp_" not in answer.text
    assert answer.json()["status"] == "completed"
    told = json.dumps(provider.asked[0])
    assert "packages.example.com, files.example.com" in told
    assert "$GITHUB_TOKEN for api.example.com" in told
    assert "ghp_" not in told


@pytest.mark.promise("secret-by-reference-keeps-its-value-in-the-gateway", "operator-secret-is-used-by-name")
def test_a_secret_of_the_operator_is_named_by_its_placeholder_and_rotates_without_a_restart(
    gateway: Gateway, up: Upstream, rotated: Path
) -> None:
    before, client = len(up.seen), gateway.client()
    named = asking({"placeholder": "DEPLOY_TOKEN"})
    header = '-H "X-Key: $DEPLOY_TOKEN"'
    first = run(client, curl(up, header, host=ELSE), curl(up, host=GOOD, path="/?key='$DEPLOY_TOKEN'"), tools=named)
    assert [entry.stdout for entry in entries(first)] == ["hello", "hello"], entries(first)
    assert f"X-Key: {OPERATORS}".encode() in up.seen[before]
    assert b"GET /?key=operat0r%2Fvalue-of-a-file " in up.seen[before + 1]
    rotated.with_suffix(".new").write_text("an0ther-value-of-the-file")
    rotated.with_suffix(".new").replace(rotated)
    eventually(lambda: "secret_rotated" in gateway.log.read_text(), within=20)
    second = run(client, curl(up, header, host=ELSE), tools=named)
    assert entries(second)[0].stdout == "hello"
    assert b"X-Key: an0ther-value-of-the-file" in up.seen[-1]


@pytest.mark.promise("secret-domains-are-a-subset-of-the-operators")
@pytest.mark.parametrize(
    "secret, place, named",
    [
        (inline(domain=ELSE), "domain", ELSE),
        (inline(domain="*.example"), "domain", "example"),
        (inline(domain="https://api.good.example"), "domain", "URL"),
        (inline(domain="127.0.0.1"), "domain", "127.0.0.1"),
        (inline(domain="db.host.internal"), "domain", "db.host.internal"),
        (inline(name="A-B"), "name", "A-B"),
        (inline(name="LD_PRELOAD"), "name", "LD_PRELOAD"),
        (inline(name="https_proxy"), "name", "https_proxy"),
        (inline(value="canary\r\nX: y"), "value", "control characters"),
        (inline(value="canary" * 4000), "value", "longer"),
        (inline(value=""), "value", "empty"),
        (inline(in_body="canary"), "in_body", "true or false"),
        ({"domain": GOOD, "name": "T", "value": ["canary"]}, "", "placeholder"),
        ({"placeholder": "UNKNOWN"}, "placeholder", "DEPLOY_TOKEN"),
        ({"placeholder": "DEPLOY_TOKEN", "allowed_domains": ["x.example.com"]}, "allowed_domains[0]", "x.example.com"),
        ({"placeholder": "DEPLOY_TOKEN", "allowed_domains": ["*.example"]}, "allowed_domains[0]", "example"),
        ({"placeholder": "DEPLOY_TOKEN", "allowed_domains": "canary"}, "allowed_domains", "list"),
        ("canary", "", "placeholder"),
    ],
)
def test_a_secret_that_cannot_be_is_refused_by_its_name_and_without_its_value(
    gateway: Gateway, secret: Any, place: str, named: str
) -> None:
    policy = {"type": "allowlist", "domain_secrets": [inline(name="FINE"), secret]}
    with gateway.http() as http:
        answer = http.post("/v1/containers", content=json.dumps({"name": "a", "network_policy": policy}), headers=JSON)
    check_error(answer.json())
    error = answer.json()["error"]
    at = "network_policy.domain_secrets[1]"
    assert (answer.status_code, error["code"]) == (400, "domain_secrets_rejected")
    assert error["param"] == (f"{at}.{place}" if place else at)
    assert named in error["message"]
    assert "canary" not in answer.text + gateway.log.read_text()
    assert VALUE not in answer.text


def test_the_operators_rules_on_commands_hold_beside_secrets(up: Upstream, rotated: Path, tmp_path: Path) -> None:
    settings = lending(tmp_path, up, rotated)
    settings["config"] += (
        '[features.shell.policy]\nblocked_commands = ["uname"]\n[features.shell.redaction]\npatterns = ["ticket-[0-9]+"]\n'
    )
    with running(tmp_path, **settings) as gateway:
        header = '-H "Authorization: Bearer $CARGO_REGISTRY_TOKEN"'
        tools = asking(inline("CARGO_REGISTRY_TOKEN"))
        half = len(VALUE) // 2
        leak = f"printf '%s%s ticket-7' '{VALUE[:half]}' '{VALUE[half:]}'"
        first, second, third = entries(run(gateway.client(), curl(up, header), "uname", leak, tools=tools))
    assert (first.stdout, third.stdout) == ("hello", "[REDACTED:CARGO_REGISTRY_TOKEN] [REDACTED:pattern]"), third
    assert second.outcome.exit_code == 126
    assert f"Bearer {VALUE}".encode() in up.seen[-1]


def test_a_named_container_has_secrets_of_its_own(gateway: Gateway) -> None:
    tools = referring_to(gateway.client().containers.create(name="a").id)
    tools[0]["environment"]["network_policy"] = {"type": "allowlist", "domain_secrets": [inline()]}
    with gateway.http() as http:
        answer = http.post("/v1/responses", json={"model": "limpet/script", "input": "a", "tools": tools})
    check_error(answer.json())
    assert answer.json()["error"]["code"] == "container_network_policy_fixed"
    assert VALUE not in answer.text


@pytest.mark.parametrize(
    "tool",
    [
        {"type": "shell", "network_policy": {"type": "allowlist", "domain_secrets": [inline()]}},
        {"type": "shell", "domain_secrets": [inline()]},
        {"type": "shell", "environment": {"type": "local", "network_policy": {"domain_secrets": [inline()]}}},
        {"type": "shell", "environment": {"type": "container_auto", "network_policy": [VALUE]}},
        {"type": "shell", "environment": {"type": "container_auto", "network_policy": {"type": VALUE}}},
        {"type": "shell", "environment": {"type": "container_auto", "domain_secrets": [inline()]}},
    ],
)
def test_a_secret_in_the_wrong_place_is_neither_kept_nor_shown(gateway: Gateway, tool: dict[str, Any]) -> None:
    with gateway.http() as http:
        answer = http.post("/v1/responses", json={"model": "limpet/script", "input": "a", "tools": [tool]})
    kept = b"".join(path.read_bytes() for path in gateway.home.glob("limpet.db*"))
    assert VALUE not in answer.text + gateway.log.read_text()
    assert VALUE.encode() not in kept
