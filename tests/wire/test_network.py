"""What hosted shells reach: a service of this host stands for what is allowed, and its log says what left."""

import json
import os
import re
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from limpet.runtimes.local.runtime import LocalRuntime
from limpet.runtimes.memory import MemoryRuntime
from tests.support.doors import Upstream, upstream
from tests.support.gateway import Gateway, running
from tests.support.inprocess import serving
from tests.support.prepared import ran
from tests.wire.asking import container_of, entries, referring_to, run
from tests.wire.conftest import RUNTIME
from tests.wire.schema import check_container, check_error
from tests.wire.test_seed_examples import CONTAINER
from tests.wire.test_skills import zipped

pytestmark = pytest.mark.skipif(
    RUNTIME not in ("bubblewrap", "docker"),
    reason="of the runtimes that are built only bubblewrap and docker can hold a network",
)
DB = "db.host.internal"


@pytest.fixture(scope="module")
def service() -> Iterator[Upstream]:
    with upstream(tls=False, answer=b"reached") as up:
        yield up


@pytest.fixture(scope="module")
def granting(service: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    config = (
        '[features.server_tools.shell_limits]\nallowed_egress_hosts = ["packages.example.com", "*.files.example.com"]\n'
        f'[features.shell.host_services]\ndb = "127.0.0.1:{service.port}"\n'
    )
    with running(tmp_path_factory.mktemp("granting"), runtime=RUNTIME, config=config) as gateway:
        yield gateway


def allowlist(*domains: str) -> dict[str, Any]:
    return {"type": "allowlist", "allowed_domains": list(domains)}


def asking(policy: dict[str, Any]) -> list[Any]:
    return [{"type": "shell", "environment": {"type": "container_auto", "network_policy": policy}}]


def curl(service: Upstream, host: str = DB) -> str:
    return f"curl -sS --noproxy '*' --max-time 20 http://{host}:{service.port}/"


@pytest.mark.promise(
    "allowlist-of-the-tool-admits-exactly-its-hosts", "hadrian-policy-of-a-live-box-follows-the-request"
)
def test_a_response_reaches_what_it_asked_for_and_a_later_turn_can_ask_for_less(
    granting: Gateway, service: Upstream
) -> None:
    client, before = granting.client(), len(service.seen)
    other = "curl -sS http://other.example/; curl -sS --noproxy '*' http://other.example/"

    first = run(client, curl(service), other, tools=asking(allowlist(DB)))

    reached, refused = entries(first)
    assert reached.stdout == "reached"
    assert "Blocked by network policy: other.example" in refused.stdout
    assert "Could not resolve host" in refused.stderr
    second = run(client, curl(service), tools=asking({"type": "disabled"}), previous_response_id=first.id)
    assert container_of(second) == container_of(first)
    assert entries(second)[0].outcome.exit_code != 0
    assert len(service.seen) == before + 1
    records = [line for line in granting.log.read_text().splitlines() if "network_audit" in line]
    told = {(verdict, host) for line in records for verdict in ("allowed", "refused") for host in (DB, "other.example")
            if f"verdict={verdict}" in line and f"host={host}" in line and container_of(first) in line}  # fmt: skip
    assert told >= {("allowed", DB), ("refused", "other.example")}


@pytest.mark.promise("requested-hosts-are-a-subset-of-the-operators")
@pytest.mark.parametrize(
    "domain", ["api.example.com", "*.example.com", "files.example.com", "*.packages.example.com", "1.1.1.1", "*", 7]
)
def test_a_host_beyond_the_operators_is_refused_by_its_name(granting: Gateway, domain: object) -> None:
    with granting.http() as http:
        answer = http.post(
            "/v1/containers", json={"name": "a", "network_policy": allowlist("packages.example.com", domain)}
        )  # type: ignore[arg-type]
    check_error(answer.json())
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (400, "network_policy_rejected")
    assert error["param"].startswith("network_policy.allowed_domains")
    assert isinstance(domain, int) or domain in error["message"]


@pytest.mark.promise("empty-operator-list-grants-nothing")
def test_without_a_list_of_the_operator_no_host_is_granted(gateway: Gateway) -> None:
    with gateway.http() as http:
        answer = http.post("/v1/containers", json={"name": "a", "network_policy": allowlist("packages.example.com")})
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "network_policy_rejected")


@pytest.mark.promise("unenforceable-network-policy-is-refused")
def test_a_runtime_that_cannot_hold_a_policy_refuses_it_when_the_container_is_made(tmp_path: Path) -> None:
    with serving(tmp_path, runtime=MemoryRuntime()) as gateway, gateway.http() as http:
        answer = http.post("/v1/containers", json={"name": "a", "network_policy": allowlist("packages.example.com")})
        fine = http.post("/v1/containers", json={"name": "a", "network_policy": {"type": "disabled"}})
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "network_policy_unsupported")
    assert fine.status_code == 200


@pytest.mark.promise("hadrian-disabled-means-no-network-on-every-runtime")
def test_a_runtime_on_the_host_itself_refuses_to_promise_no_network(tmp_path: Path) -> None:
    with serving(tmp_path, runtime=LocalRuntime()) as gateway, gateway.http() as http:
        policy = {"type": "disabled"}
        made = http.post("/v1/containers", json={"name": "a", "network_policy": policy})
        tool = {"type": "shell", "environment": {"type": "container_auto", "network_policy": policy}}
        asked = http.post("/v1/responses", json={"model": "limpet/script", "input": "hi", "tools": [tool]})
        without = http.post("/v1/containers", json={"name": "a"})
    for answer in (made, asked):
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, "network_policy_unsupported")
        assert "use a runtime that isolates" in answer.json()["error"]["message"]
    assert without.status_code == 200


@pytest.mark.promise("containers-post-example-is-accepted")
def test_the_example_of_a_container_with_hosts_and_a_skill_is_accepted(granting: Gateway) -> None:
    with granting.http() as http:
        packed = zipped({"known/SKILL.md": b"---\nname: known\ndescription: Known.\n---\n"})
        skill = http.post("/v1/skills", files={"files": ("skill.zip", packed, "application/zip")}).json()["id"]
        bare = str(uuid.UUID(skill.removeprefix("skill_")))
        answer = http.post("/v1/containers", json=json.loads(CONTAINER.replace("<uuid>", bare)))
    assert answer.status_code == 200, answer.text
    assert answer.json()["network_policy"] == allowlist("packages.example.com")


@pytest.mark.promise("response-summarises-network-use", "container-network-is-shown")
def test_what_a_response_used_of_the_network_is_in_it_and_at_its_container(
    granting: Gateway, service: Upstream
) -> None:
    client = granting.client()
    other = "curl -sS http://other.example/"
    first = run(client, curl(service), curl(service), other, tools=asking(allowlist(DB)))
    second = run(client, "true", tools=referring_to(container_of(first)))
    third = run(client, other, tools=referring_to(container_of(first)))

    used = (first.model_extra or {})["network"]
    assert (used["connections"], used["refused"], used["unlisted"]) == (2, 1, 0)
    rows = [(row["host"], row["port"], row["verdict"], row["rule"], row["connections"]) for row in used["hosts"]]
    assert rows == [
        (DB, service.port, "allowed", f"{DB}:{service.port}", 2),
        ("other.example", 80, "refused", "host_not_allowed", 1),
    ]
    assert used["bytes_sent"] >= 2 * len(service.seen[-1]) > 0
    assert "network" not in (second.model_extra or {})
    again = (third.model_extra or {})["network"]
    assert (again["connections"], again["refused"], len(again["hosts"])) == (0, 1, 1)
    assert (client.responses.retrieve(first.id).model_extra or {})["network"] == used
    with granting.http() as http:
        seen = http.get(f"/v1/containers/{container_of(first)}/network").json()
        metrics = http.get("/metrics").text
        assert http.get("/v1/containers/cntr_0/network").status_code == 404
    assert (seen["object"], seen["id"], seen["is_open"]) == ("container.network", container_of(first), True)
    assert (seen["usage"]["connections"], seen["usage"]["refused"]) == (2, 2)
    shown = ran(("containers", "net", container_of(first), "--url", granting.url), env=dict(os.environ))
    assert shown.returncode == 0, shown.stderr
    assert "2 allowed, 2 refused" in shown.stdout
    assert re.search(rf"^{DB} +{service.port} +allowed ", shown.stdout, re.MULTILINE), shown.stdout
    assert re.search(r"^limpet_network_connections_total\{result=\"allowed\"\} [1-9]", metrics, re.MULTILINE)
    assert re.search(r"^limpet_network_connections_total\{result=\"host_not_allowed\"\} [1-9]", metrics, re.MULTILINE)
    assert re.search(r"^limpet_network_doors [1-9]", metrics, re.MULTILINE)


def test_a_running_containers_policy_is_changed_by_a_post_to_it(granting: Gateway, service: Upstream) -> None:
    client = granting.client()
    container = client.containers.create(name="a").id
    assert entries(run(client, curl(service), container=container))[0].outcome.exit_code != 0
    with granting.http() as http:
        changed = http.post(f"/v1/containers/{container}", json={"network_policy": allowlist(DB)})
        assert (changed.status_code, changed.json()["network_policy"]) == (200, allowlist(DB))
        check_container(changed.json())
        assert entries(run(client, curl(service), tools=referring_to(container)))[0].stdout == "reached"
        for body in (
            {},
            {"name": "b"},
            {"network_policy": {"type": "open"}},
            {"network_policy": allowlist("x.example")},
            [],
        ):
            assert http.post(f"/v1/containers/{container}", json=body).status_code == 400
        assert http.post("/v1/containers/cntr_0", json={"network_policy": allowlist(DB)}).status_code == 404
        assert http.get(f"/v1/containers/{container}").json()["network_policy"] == allowlist(DB)
