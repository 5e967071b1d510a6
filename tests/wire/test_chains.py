"""A conversation keeps its container: over turns, by name, over restarts of the gateway, and with two at once."""

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest
from openai.types.responses import Response

from tests.support.gateway import Gateway, lasting
from tests.support.host import processes_with, rows, stored_ref
from tests.wire.asking import SHELL, container_of, entries, printed, referring_to, run, shell_blocks
from tests.wire.conftest import RUNTIME

BOX = "readlink /proc/self/ns/pid"
needs_lasting_boxes = pytest.mark.skipif(RUNTIME == "local", reason="a local box ends with its gateway")


@pytest.fixture
def restartable(tmp_path: Path) -> Iterator[Gateway]:
    with lasting(tmp_path, runtime=RUNTIME) as gateway:
        yield gateway


@pytest.mark.promise(
    "hadrian-chain-of-ten-stays-in-one-container",
    "hadrian-chain-passes-through-a-turn-without-a-call",
    "container-is-reused-through-previous-response-id",
    "work-is-chained-over-turns",
    "workspace-keeps-what-was-written",
    "box-runs-on-between-calls",
    "detached-process-outlives-its-command",
    "detached-process-is-seen-by-later-calls-of-the-chain",
    "hadrian-response-names-its-container",
)
@needs_lasting_boxes
def test_ten_turns_stay_in_one_box_over_both_kinds_of_restart(restartable: Gateway) -> None:
    gateway, client = restartable, restartable.client()
    # A name that nobody else on this machine has: the process is looked for on the host.
    nap = f"1000.{gateway.process.pid if gateway.process else 0}"
    first = run(client, f"setsid -f sleep {nap}; echo 1 > turns; {BOX}")
    container, box = container_of(first), printed(first)
    reference = stored_ref(gateway.home / "limpet.db", container)
    (detached,) = processes_with(nap)

    last = first
    for turn in range(2, 11):
        if turn == 4:
            assert gateway.stop() == 0
            client = gateway.start().client()
        if turn == 7:
            gateway.kill()
            client = gateway.start().client()
        last = take_turn(client, turn, last, container=container, box=box)

    assert printed(run(client, "cat turns", previous_response_id=last.id)).split() == [
        "1",
        "2",
        "4",
        "5",
        "7",
        "8",
        "10",
    ]
    assert stored_ref(gateway.home / "limpet.db", container) == reference
    assert processes_with(nap) == [detached]
    assert client.responses.retrieve(last.id) == last


def take_turn(client: openai.OpenAI, turn: int, before: Response, *, container: str, box: str) -> Response:
    """Every third turn is one without a command: by turns without a call, and without a shell at all."""
    if turn in (3, 9):
        response = client.responses.create(
            model="limpet/script", input="hi", tools=SHELL, previous_response_id=before.id
        )
    elif turn == 6:
        response = client.responses.create(model="limpet/script", input="hi", previous_response_id=before.id)
    else:
        response = run(client, f"echo {turn} >> turns; {BOX}", previous_response_id=before.id)
        assert printed(response) == box
    assert response.status == "completed"
    assert container_of(response) == container
    return response


@pytest.mark.promise(
    "container-reference-attaches-an-existing-container",
    "tool-example-container-reference-is-accepted",
    "container-is-shared-implicitly-and-explicitly",
    "detached-process-is-seen-through-a-container-reference",
)
def test_a_container_is_reached_by_chain_and_by_name(client: openai.OpenAI) -> None:
    made = client.containers.create(name="by name").id
    first = run(client, f"setsid -f sleep 1000 & echo mine > file; {BOX}", container=made)

    by_chain = run(client, f"cat file; {BOX}", previous_response_id=first.id)
    by_name = run(client, f"cat file; {BOX}; pgrep -xc sleep", container=made)

    assert container_of(first) == container_of(by_chain) == container_of(by_name) == made
    assert printed(by_chain) == f"mine\n{printed(first)}"
    assert printed(by_name).startswith(f"mine\n{printed(first)}")
    assert int(printed(by_name).split()[-1]) >= 1
    elsewhere = run(client, "ls", container=container_of(run(client, "true")))
    assert printed(elsewhere) == ""


@pytest.mark.promise(
    "shell-response-has-a-container-before-it-is-created",
    "response-names-its-container",
    "container-auto-is-taken",
    "environment-is-optional",
)
@pytest.mark.parametrize("tool", [{"type": "shell"}, {"type": "shell", "environment": {"type": "container_auto"}}])
def test_a_hosted_shell_has_its_container_in_the_first_event(
    gateway: Gateway, client: openai.OpenAI, tool: Any
) -> None:
    with client.responses.create(model="limpet/script", input="no call", tools=[tool], stream=True) as stream:
        created = next(iter(stream))
        assert created.type == "response.created"
        container = container_of(created.response)
        # The row is there before the event; it ends with the response, which may be quicker than this look.
        (row,) = rows(gateway.home / "limpet.db", "SELECT status FROM containers WHERE id = ?", container)
        assert row["status"] in ("running", "expired")
        final = list(stream)[-1]

    assert final.type == "response.completed"
    for response in (created.response, final.response, client.responses.retrieve(created.response.id)):
        assert container_of(response) == container
        (echoed,) = response.tools
        assert echoed.to_dict()["environment"] == {"type": "container_reference", "container_id": container}


def test_a_reference_in_mid_chain_moves_the_chain(client: openai.OpenAI) -> None:
    other = client.containers.create(name="other").id
    first = run(client, "echo first > file")

    moved = run(client, "echo second > file", container=other, previous_response_id=first.id)
    after = run(client, "cat file", previous_response_id=moved.id)

    assert container_of(first) != other
    assert (container_of(moved), container_of(after), printed(after)) == (other, other, "second\n")


def test_two_branches_of_a_chain_share_its_container(client: openai.OpenAI) -> None:
    root = run(client, "echo root > file")
    one = run(client, "echo one >> file", previous_response_id=root.id)
    two = run(client, "echo two >> file; cat file", previous_response_id=root.id)

    assert container_of(root) == container_of(one) == container_of(two)
    assert printed(two) == "root\none\ntwo\n"


@pytest.mark.promise("hadrian-two-first-users-share-one-box")
def test_two_first_users_of_a_sleeping_container_share_one_box(gateway: Gateway, client: openai.OpenAI) -> None:
    container = client.containers.create(name="shared").id
    answers: dict[str, Response] = {}

    def use(mine: str, theirs: str) -> None:
        # Each waits for the other: they run at once, or not at all.
        command = f"touch {mine}; timeout 5 sh -c 'until [ -e {theirs} ]; do sleep 0.01; done' && {BOX}"
        answers[mine] = run(gateway.client(), command, container=container)

    threads = [threading.Thread(target=use, args=pair) for pair in (("a", "b"), ("b", "a"))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)

    assert printed(answers["a"]) == printed(answers["b"])
    query = "SELECT DISTINCT boot_id FROM executions WHERE container_id = ?"
    assert len(rows(gateway.home / "limpet.db", query, container)) == 1


def test_a_box_that_was_killed_is_told_to_the_model_once_and_its_files_are_kept(
    gateway: Gateway, client: openai.OpenAI
) -> None:
    first = run(client, f"setsid -f sleep 1000; echo kept > file; {BOX}")
    reference = stored_ref(gateway.home / "limpet.db", container_of(first))
    assert reference is not None
    os.kill(reference["facts"]["pid"], signal.SIGKILL)

    second = run(client, "cat file; pgrep -xc sleep", previous_response_id=first.id)
    third = run(client, "cat file", previous_response_id=second.id)

    assert container_of(first) == container_of(second) == container_of(third)
    (told,), (untold,) = entries(second), entries(third)
    if RUNTIME != "local":
        assert told.stdout == "kept\n0\n"
    assert "was lost and has been started again" in told.stderr
    assert (untold.stdout, untold.stderr) == ("kept\n", "")


def test_a_chain_onto_a_running_response_is_refused(gateway: Gateway, client: openai.OpenAI) -> None:
    with client.responses.create(
        model="limpet/script", input=shell_blocks("sleep 2"), tools=SHELL, stream=True
    ) as stream:
        running = next(iter(stream)).response

        with pytest.raises(openai.BadRequestError) as refused:
            run(client, "true", previous_response_id=running.id)

        assert refused.value.code == "previous_response_in_progress"
    client.responses.delete(running.id)


def test_a_reference_and_a_chain_agree_after_the_chains_response_is_deleted(client: openai.OpenAI) -> None:
    first = run(client, "echo kept > file")
    client.responses.delete(first.id)

    with pytest.raises(openai.NotFoundError) as refused:
        run(client, "cat file", previous_response_id=first.id)
    assert refused.value.code == "previous_response_not_found"

    assert printed(run(client, "cat file", tools=referring_to(container_of(first)))) == "kept\n"
