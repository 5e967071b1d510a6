"""Containers that are idle expire, with their boxes and their data; those that are used do not."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import openai
import pytest
from openai.types.responses import Response

from tests.support.gateway import Gateway, running
from tests.support.host import eventually, processes_of, rows, stored_ref
from tests.wire.asking import SHELL, container_of, entries, output_files, printed, run, shell_blocks
from tests.wire.conftest import RUNTIME
from tests.wire.schema import check_container

# The least that the settings take. The gateway looks for idle containers every 5 s.
IDLE = 1
REAPED_WITHIN = IDLE + 5 + 3


@pytest.fixture(scope="module")
def hasty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A gateway whose containers expire after a second without use."""
    config = f"[features.containers]\ndefault_idle_ttl_secs = {IDLE}\n"
    with running(tmp_path_factory.mktemp("hasty"), runtime=RUNTIME, config=config) as gateway:
        yield gateway


def row(gateway: Gateway, container: str) -> dict[str, Any]:
    """The container's row. Looking at it in the database, unlike asking the gateway, does not keep it alive."""
    (found,) = rows(gateway.home / "limpet.db", "SELECT * FROM containers WHERE id = ?", container)
    return found


@dataclass(frozen=True, kw_only=True)
class Expired:
    """A container that expired by itself. `unstored` is one of a response that nobody stored, `unused` one without a box,
    `doomed` one that a test may delete."""

    gateway: Gateway
    client: openai.OpenAI
    response: Response
    container: str
    unstored: str
    unused: str
    doomed: str
    last_active_at: int


@pytest.fixture(scope="module")
def expired(hasty: Gateway) -> Expired:
    client = hasty.client()
    unused, doomed = (client.containers.create(name=name).id for name in ("unused", "doomed"))
    unstored = container_of(run(client, "setsid -f sleep 1000", store=False))
    response = run(client, "setsid -f sleep 1000; echo secret > kept.txt; echo secret > /home/agent/x")
    container = container_of(response)
    reference = stored_ref(hasty.home / "limpet.db", container)
    assert reference is not None
    assert processes_of(container) != []
    used_at = row(hasty, container)["last_active_at"]
    for each in (unused, doomed, unstored, container):
        eventually(
            lambda each=each: row(hasty, each)["status"] == "expired", within=REAPED_WITHIN, says="it did not expire"
        )
    return Expired(
        gateway=hasty,
        client=client,
        response=response,
        container=container,
        unstored=unstored,
        unused=unused,
        doomed=doomed,
        last_active_at=used_at,
    )


@pytest.mark.promise(
    "idle-container-is-reaped",
    "reaper-marks-idle-rows-expired",
    "detached-process-ends-with-its-expired-container",
    "hadrian-every-box-expires",
)
@pytest.mark.promise("hadrian-cleanup-runs-by-itself", "reaper-acts-within-five-seconds")
def test_nothing_is_left_of_an_idle_container_but_its_row(expired: Expired) -> None:
    for container in (expired.container, expired.unstored):
        eventually(lambda container=container: processes_of(container) == [], says="a process outlived its container")
        directory = expired.gateway.home / "boxes" / container
        eventually(lambda directory=directory: not directory.exists(), says="a directory outlived its container")
        assert row(expired.gateway, container)["ref"] is None
    assert list(expired.gateway.home.glob("boxes/**/kept.txt")) == []


@pytest.mark.promise("default-idle-ttl-is-twenty-minutes")
@pytest.mark.promise("expires-at-after-the-end-is-the-transition")
def test_an_expired_container_is_still_shown_and_does_not_come_back(expired: Expired) -> None:
    for container in (expired.container, expired.unstored, expired.unused):
        shape = expired.client.containers.retrieve(container).to_dict()

        check_container(shape)
        assert (shape["status"], shape["idle_ttl_secs"]) == ("expired", IDLE)
        ended = row(expired.gateway, container)["ended_at"] // 1_000_000
        assert shape["expires_at"] == ended
        assert shape["last_active_at"] + IDLE <= ended + 1
        # Asking again changes nothing any more.
        assert expired.client.containers.retrieve(container).to_dict() == shape
    assert row(expired.gateway, expired.container)["last_active_at"] == expired.last_active_at
    assert expired.container in [found.id for found in expired.client.containers.list(limit=100)]


@pytest.mark.promise("reference-to-an-expired-container-is-refused")
def test_a_reference_to_an_expired_container_is_refused_before_anything_is_made(expired: Expired) -> None:
    counting = "SELECT (SELECT count(*) FROM responses), (SELECT count(*) FROM containers)"
    before = rows(expired.gateway.home / "limpet.db", counting)

    for container in (expired.container, expired.unused):
        with pytest.raises(openai.BadRequestError) as refused:
            run(expired.client, "true", container=container)

        assert refused.value.code == "container_expired"
        assert container in str(refused.value)
    assert rows(expired.gateway.home / "limpet.db", counting) == before


@pytest.mark.promise("chain-onto-an-expired-container-gets-a-fresh-one")
def test_a_chain_onto_an_expired_container_gets_a_fresh_one_and_its_output_stays_its_own(expired: Expired) -> None:
    after = run(expired.client, "ls; ls ~", "true", previous_response_id=expired.response.id)

    assert container_of(after) not in (expired.container, expired.unstored)
    first, second = entries(after)
    assert first.stdout == ""
    # It was told before its first turn (test_history_containers), not in the output of its first command.
    assert (first.stderr, second.stderr) == ("", "")
    assert after.status == "completed"


def test_files_of_an_expired_container_are_listed_and_cannot_be_had(expired: Expired) -> None:
    files = expired.client.containers.files
    (file,) = output_files(expired.response)

    assert [listed.path for listed in files.list(expired.container)] == ["/mnt/data/kept.txt"]
    assert files.retrieve(file["file_id"], container_id=expired.container).bytes == len("secret\n")
    for ask in (
        lambda: files.content.retrieve(file["file_id"], container_id=expired.container),
        lambda: files.create(expired.container, file=b"late"),
        lambda: files.delete(file["file_id"], container_id=expired.container),
    ):
        with pytest.raises(openai.BadRequestError) as refused:
            ask()
        assert refused.value.code == "container_expired"


def test_an_expired_container_can_be_deleted_and_is_then_unknown(expired: Expired) -> None:
    expired.client.containers.delete(expired.doomed)

    with pytest.raises(openai.NotFoundError):
        expired.client.containers.retrieve(expired.doomed)


@pytest.mark.promise("hadrian-running-command-holds-its-container", "idle-ttl-is-counted-from-the-last-use")
@pytest.mark.promise("reaper-acts-within-five-seconds")
def test_a_running_command_holds_its_container_and_its_end_starts_the_clock(hasty: Gateway) -> None:
    client = hasty.client()
    long = IDLE + 5 + 1  # longer than its time, and than the gateway takes to look

    response = run(client, "echo kept > file", f"sleep {long}; cat file")
    ended = time.time()

    assert [entry.stdout for entry in entries(response)] == ["", "kept\n"]
    container = container_of(response)
    assert row(hasty, container)["status"] == "running"
    assert row(hasty, container)["last_active_at"] / 1e6 == pytest.approx(ended, abs=1)
    eventually(lambda: row(hasty, container)["status"] == "expired", within=REAPED_WITHIN, says="it did not expire")
    assert row(hasty, container)["ended_at"] / 1e6 > ended + IDLE - 1


@pytest.mark.skipif(RUNTIME == "local", reason="a local box ends with its gateway")
def test_a_command_of_a_gateway_that_was_killed_still_holds_its_container(hasty: Gateway) -> None:
    with hasty.client().responses.create(
        model="limpet/script", input=shell_blocks("echo begun; sleep 1000"), tools=SHELL, stream=True
    ) as stream:
        for event in stream:
            if event.type == "response.created":
                container = container_of(event.response)
            if event.type == "response.shell_call_output_content.delta":
                break
        hasty.kill()
    hasty.start()
    started = time.time()

    eventually(
        lambda: row(hasty, container)["last_active_at"] / 1e6 > started + IDLE,
        within=REAPED_WITHIN + 5,
        says="the gateway did not see that a command runs",
    )
    assert row(hasty, container)["status"] == "running"
    assert processes_of(container) != []
    hasty.client().containers.delete(container)
    eventually(lambda: processes_of(container) == [], says="a process outlived its container")


@pytest.mark.promise("last-active-at-moves-with-every-operation", "expires-at-is-a-forward-estimate")
def test_every_use_moves_the_clock(gateway: Gateway, client: openai.OpenAI) -> None:
    response = run(client, "sleep 1.1; echo a > a.txt")
    container = container_of(response)
    (file,) = output_files(response)
    shape = client.containers.retrieve(container).to_dict()
    assert shape["last_active_at"] >= shape["created_at"] + 1
    assert shape["expires_at"] == shape["last_active_at"] + shape["idle_ttl_secs"]

    def moves(use: Any) -> None:
        before = row(gateway, container)["last_active_at"]
        use()
        assert row(gateway, container)["last_active_at"] > before

    moves(lambda: client.containers.retrieve(container))
    moves(lambda: client.containers.files.list(container))
    moves(lambda: client.containers.files.retrieve(file["file_id"], container_id=container))
    moves(lambda: client.containers.files.content.retrieve(file["file_id"], container_id=container).read())
    moves(lambda: client.containers.files.create(container, file=("b.txt", b"b")))
    moves(lambda: client.containers.files.delete(file["file_id"], container_id=container))
    moves(lambda: run(client, "true", container=container))
    moves(lambda: run(client, "true", previous_response_id=response.id))
    assert printed(run(client, "ls", container=container)) == "b.txt\n"
