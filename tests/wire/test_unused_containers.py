"""Containers that a response got and never used: they count for nothing, and end with the response."""

from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest

from tests.support.gateway import Gateway, running
from tests.support.providers.turns import reply
from tests.wire.asking import container_of, entries, printed, run
from tests.wire.provider import MODEL, Provider, config_of

AUTO: list[Any] = [{"type": "shell", "environment": {"type": "container_auto"}}]


def talk(client: openai.OpenAI, **options: Any) -> Any:
    """A turn in which the model runs nothing."""
    return client.responses.create(model="limpet/script", input="no command", **{"tools": AUTO, **options})


@pytest.mark.promise("unused-container-ends-with-its-response")
@pytest.mark.parametrize("stored", [True, False])
def test_a_container_in_which_nothing_ran_ends_with_its_response(client: openai.OpenAI, stored: bool) -> None:
    before = {container.id for container in client.containers.list() if container.status == "running"}
    unused = container_of(talk(client, store=stored))
    assert client.containers.retrieve(unused).status == "expired"
    assert {container.id for container in client.containers.list() if container.status == "running"} == before
    used = container_of(run(client, "true"))
    assert client.containers.retrieve(used).status == "running"


@pytest.mark.promise("unused-container-ends-with-its-response")
def test_it_takes_no_quota(tmp_path: Path) -> None:
    with running(tmp_path, config="[features.quotas]\nmax_containers = 1\n", runtime="memory") as gateway:
        client = gateway.client()
        for _ in range(3):
            talk(client)
        assert printed(run(client, "echo ran")) == "ran\n"
        with pytest.raises(openai.PermissionDeniedError):
            client.containers.create(name="second")


@pytest.mark.promise("unused-container-ends-with-its-response")
def test_a_chain_onto_it_gets_a_new_one_without_a_word(client: openai.OpenAI) -> None:
    first = talk(client)
    second = run(client, "echo ran", previous_response_id=first.id)
    assert container_of(second) != container_of(first)
    (entry,) = entries(second)
    assert (entry.stdout, entry.stderr) == ("ran\n", "")
    third = run(client, "echo ran", previous_response_id=second.id)
    assert container_of(third) == container_of(second)


def test_what_was_given_to_a_container_stays_for_the_turns_behind(client: openai.OpenAI) -> None:
    file = client.files.create(file=("data.csv", b"1"), purpose="user_data")
    given = [{"type": "shell", "environment": {"type": "container_auto", "file_ids": [file.id]}}]
    first = talk(client, tools=given)
    assert client.containers.retrieve(container_of(first)).status == "running"
    second = run(client, "cat data.csv", previous_response_id=first.id)
    assert (container_of(second), printed(second)) == (container_of(first), "1")


def test_a_file_that_a_client_gave_it_while_the_response_ran_keeps_it(gateway: Gateway, client: openai.OpenAI) -> None:
    stream = client.responses.create(model="limpet/script", input="no command", tools=AUTO, stream=True)
    created = next(iter(stream))
    container = container_of(created.response)
    try:
        client.containers.files.create(container, file=("x", b"1"))
        kept = True
    except openai.APIStatusError:
        kept = False  # the response was quicker
    list(stream)
    assert (client.containers.retrieve(container).status == "running") is kept


def test_containers_that_clients_made_do_not_end_with_responses(client: openai.OpenAI) -> None:
    made = client.containers.create(name="made").id
    talk(client, tools=[{"type": "shell", "environment": {"type": "container_reference", "container_id": made}}])
    assert client.containers.retrieve(made).status == "running"


def test_a_response_that_was_deleted_or_left_leaves_none(gateway: Gateway, client: openai.OpenAI) -> None:
    before = len([container for container in client.containers.list() if container.status == "running"])
    body = {"model": "limpet/script", "input": "no command", "tools": AUTO, "stream": True, "store": False}
    with httpx2.stream("POST", f"{gateway.url}/v1/responses", json=body) as answer:
        next(answer.iter_lines())
    client.responses.delete(talk(client).id)
    assert printed(run(client, "true")) == ""
    after = [container for container in client.containers.list() if container.status == "running"]
    assert len(after) == before + 1


def test_after_a_kill_in_a_models_turn_it_ends_with_its_response(tmp_path: Path, provider: Provider) -> None:
    with running(tmp_path, config=config_of(provider)) as gateway:
        client = gateway.client()
        used = container_of(run(client, "echo kept > x"))
        provider.play(reply("never heard", hold_after=2))
        background = client.responses.create(model=MODEL, input="hi", tools=AUTO, stream=True)
        begun = next(iter(background)).response
        unused = container_of(begun)
        provider.wait_held()
        gateway.kill()
        provider.let_go()
        gateway.start()
        client = gateway.client()
        # The turn is asked again, and the provider has nothing more to say.
        assert [event.type for event in client.responses.retrieve(begun.id, stream=True)][-1] == "response.failed"
        assert [client.containers.retrieve(id).status for id in (unused, used)] == ["expired", "running"]
        assert printed(run(client, "cat x", container=used)) == "kept\n"
