"""Secrets of containers and of responses in them: how long they last, over restarts too, and what is kept of them."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from tests.support.doors import Upstream, upstream
from tests.support.gateway import Gateway, lasting
from tests.support.host import eventually
from tests.wire.asking import container_of, entries, printed, referring_to, run
from tests.wire.conftest import RUNTIME
from tests.wire.test_domain_secrets import BEARER, ELSE, GOOD, OTHER, VALUE, asking, curl, inline, lending

pytestmark = pytest.mark.skipif(
    RUNTIME not in ("bubblewrap", "docker"),
    reason="of the runtimes that are built only bubblewrap and docker can hold a network",
)


@pytest.fixture(scope="module")
def up() -> Iterator[Upstream]:
    with upstream(GOOD, OTHER, ELSE) as opened:
        yield opened


@pytest.fixture(scope="module")
def gateway(up: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    directory = tmp_path_factory.mktemp("lending")
    (directory / "deploy").write_text("operat0r/value-of-a-file")
    with lasting(directory, **lending(directory, up, directory / "deploy")) as opened:
        yield opened


def created(gateway: Gateway, *secrets: dict[str, Any], domains: tuple[str, ...] = ()) -> str:
    policy = {"type": "allowlist", "allowed_domains": list(domains), "domain_secrets": list(secrets)}
    with gateway.http() as http:
        answer = http.post("/v1/containers", json={"name": "a", "network_policy": policy})
    assert answer.status_code == 200, answer.text
    assert answer.json()["network_policy"] == {"type": "allowlist", "allowed_domains": list(domains)}
    identifier: str = answer.json()["id"]
    return identifier


def sealed(gateway: Gateway, table: str, key: str, value: str) -> bytes | None:
    """What the database has of it, committed."""
    with closing(sqlite3.connect(f"file:{gateway.home / 'limpet.db'}?mode=ro", uri=True)) as db:
        (found,) = db.execute(f"SELECT sealed FROM {table} WHERE {key} = ?", (value,)).fetchone()
    kept: bytes | None = found
    return kept


AUTHORITY = "sed '1,/authority of this box/d' /etc/ssl/certs/ca-certificates.crt"


@pytest.mark.promise("containers-post-takes-a-network-policy", "containers-post-secrets-live-sealed-until-expiry")
def test_a_containers_secret_lasts_over_a_killed_gateway_with_the_same_authority_and_ends_with_it(
    gateway: Gateway, up: Upstream
) -> None:
    container = created(gateway, inline(), {"placeholder": "DEPLOY_TOKEN"})
    kept = sealed(gateway, "containers", "id", container)
    assert kept is not None
    assert VALUE.encode() not in kept
    assert printed(run(gateway.client(), f"{curl(up, BEARER)}; echo $TOKEN > mine", container=container)) == "hello"
    certificate = printed(run(gateway.client(), AUTHORITY, container=container))
    assert "BEGIN CERTIFICATE" in certificate

    gateway.kill()
    gateway.start()

    # A placeholder that a program of the box has kept is still one, and what it trusted is still trusted.
    before = len(up.seen)
    kept_one = '-H "Authorization: Bearer $(cat mine)"'
    assert printed(run(gateway.client(), curl(up, kept_one), container=container)) == "hello"
    assert f"Bearer {VALUE}".encode() in up.seen[before]
    assert printed(run(gateway.client(), AUTHORITY, container=container)) == certificate
    gateway.client().containers.delete(container)
    assert sealed(gateway, "containers", "id", container) is None


@pytest.mark.promise("hadrian-secrets-last-as-long-as-their-request", "hadrian-shell-output-is-redacted")
def test_a_responses_secret_is_no_use_to_the_next_one_in_its_container(gateway: Gateway, up: Upstream) -> None:
    client, before = gateway.client(), len(up.seen)
    half = len(VALUE) // 2
    leak = f"printf '%s%s' '{VALUE[:half]}' '{VALUE[half:]}'"  # as if a host had sent it back in a form of its own
    background = f"(while :; do {curl(up, BEARER)} -o got; sleep 0.05; done) >/dev/null 2>&1 &"
    first = run(client, f"{curl(up, BEARER)}; echo $TOKEN > mine", leak, background, tools=asking(inline()))
    assert [entry.stdout for entry in entries(first)] == ["hello", "[REDACTED:TOKEN]", ""]
    assert sealed(gateway, "runs", "response_id", first.id) is None
    count = len(up.seen)
    assert count > before

    kept = curl(up, '-H "Authorization: Bearer $(cat mine)"')
    second = run(client, kept, "echo ${TOKEN-none}", tools=referring_to(container_of(first)))
    assert entries(second)[0].outcome.exit_code != 0
    assert entries(second)[1].stdout == "none\n"
    assert len(up.seen) <= count + 1  # the loop's request that was under way
    third = run(client, curl(up, BEARER), tools=asking(inline(value="an0ther-value")), previous_response_id=first.id)
    assert container_of(third) == container_of(first)
    assert entries(third)[0].stdout == "hello"
    assert b"Bearer an0ther-value" in up.seen[-1]


def test_a_containers_secrets_are_replaced_while_it_lives(gateway: Gateway, up: Upstream) -> None:
    container = created(gateway, inline())
    assert printed(run(gateway.client(), curl(up, BEARER), container=container)) == "hello"
    new = {
        "type": "allowlist",
        "allowed_domains": [],
        "domain_secrets": [inline("OTHER_TOKEN", OTHER, "an0ther-value")],
    }
    with gateway.http() as http:
        answer = http.post(f"/v1/containers/{container}", json={"network_policy": new})
    assert answer.status_code == 200, answer.text
    assert "an0ther" not in answer.text
    header = '-H "Authorization: Bearer $OTHER_TOKEN"'
    response = run(gateway.client(), curl(up, header, host=OTHER), curl(up, BEARER), container=container)
    assert entries(response)[0].stdout == "hello"
    assert entries(response)[1].outcome.exit_code != 0
    assert b"Bearer an0ther-value" in up.seen[-1]


def test_two_values_under_one_name_go_to_their_own_hosts(gateway: Gateway, up: Upstream) -> None:
    both = asking(inline(), inline(domain=OTHER, value="the value of the other"))
    before = len(up.seen)
    response = run(gateway.client(), curl(up, BEARER), curl(up, BEARER, host=OTHER), tools=both)
    assert [entry.stdout for entry in entries(response)] == ["hello", "hello"]
    assert [request.partition(b"Bearer ")[2].partition(b"\r\n")[0] for request in up.seen[before:]] == [
        VALUE.encode(),
        b"the value of the other",
    ]


@pytest.mark.promise("hadrian-secrets-are-sealed-and-never-echoed")
def test_a_run_in_the_background_goes_on_with_its_secret_in_the_next_gateway(gateway: Gateway, up: Upstream) -> None:
    """The command waits in its box while the gateway is killed, and uses what its variable held from the start."""
    wait = f"touch begun; until test -e go; do sleep 0.05; done; until {curl(up, BEARER, '-sf')}; do sleep 0.05; done"
    tools = asking(inline())
    begun = gateway.client().responses.create(
        model="limpet/script",
        input=f"~~~~sh\n{wait}\n~~~~\n~~~~sh\n{curl(up, BEARER)}\n~~~~",
        tools=tools,
        background=True,
    )
    container = container_of(begun)
    data = gateway.home / "boxes" / container / "data"
    eventually((data / "begun").exists, within=20)
    kept = sealed(gateway, "runs", "response_id", begun.id)
    assert kept is not None
    assert VALUE.encode() not in kept
    gateway.kill()
    before = len(up.seen)
    gateway.start()
    eventually(lambda: "responses_go_on" in gateway.log.read_text(), within=20)
    (data / "go").touch()
    ended = eventually(lambda: ended_one(gateway, begun.id), within=30)
    assert [entry.stdout for entry in entries(ended)] == ["hello", "hello"]
    assert [VALUE.encode() in request for request in up.seen[before:]] == [True, True]
    assert sealed(gateway, "runs", "response_id", begun.id) is None


def ended_one(gateway: Gateway, response_id: str) -> Any:
    found = gateway.client().responses.retrieve(response_id)
    return found if found.status not in ("queued", "in_progress") else None
