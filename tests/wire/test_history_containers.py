"""A conversation that its client keeps: the input's own items bring the container back, and never another tenant's."""

import os
import signal
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest
from openai.types.responses import Response

from tests.support.gateway import Gateway, running
from tests.support.host import stored_ref
from tests.support.prepared import ran
from tests.support.providers.turns import ShellCall
from tests.wire.asking import SHELL, container_of, printed, run, shell_blocks
from tests.wire.provider import MODEL, Provider

Json = dict[str, Any]
AUTO: list[Any] = [{"type": "shell", "environment": {"type": "container_auto"}}]
GONE = "The earlier container of this conversation has expired or was deleted."


def user(text: str) -> Json:
    return {"role": "user", "content": text}


def going_on(client: openai.OpenAI, *before: Any, command: str, **options: Any) -> Response:
    asked: Any = [*before, user(shell_blocks(command))]
    return client.responses.create(**{"model": "limpet/script", "input": asked, "tools": SHELL, **options})


def items(response: Response, *, only: tuple[str, ...] = ()) -> list[Json]:
    """What a client keeps of a response: all of its items, or those of some types."""
    return [item.to_dict() for item in response.output if not only or item.type in only]


@pytest.mark.promise("history-brings-its-container-back")
@pytest.mark.parametrize(
    "kept",
    [(), ("shell_call", "shell_call_output"), ("shell_call",), ("message",)],
    ids=lambda kept: "+".join(kept) or "all",
)
@pytest.mark.parametrize("tools", [SHELL, AUTO], ids=["bare", "auto"])
def test_whatever_a_client_keeps_of_a_turn_brings_its_container_back(
    client: openai.OpenAI, kept: tuple[str, ...], tools: list[Any]
) -> None:
    first = run(client, "echo one > file", tools=tools)
    before: list[Any] = [user("go"), *items(first, only=kept)]
    second = going_on(client, *before, command="cat file; echo two > file", tools=tools)
    third = going_on(client, *before, *items(second, only=kept or ("message",)), command="cat file", tools=tools)

    assert printed(second) == "one\n"
    assert printed(third) == "two\n"
    assert container_of(first) == container_of(second) == container_of(third)


def test_messages_alone_bring_it_back_by_their_citations_also_without_ids(client: openai.OpenAI) -> None:
    first = run(client, "echo one > file.txt")
    (message,) = items(first, only=("message",))

    second = going_on(client, {key: message[key] for key in ("role", "content")}, command="cat file.txt")

    assert printed(second) == "one\n"


def test_the_newest_container_goes_before_older_ones(client: openai.OpenAI) -> None:
    older, newer = run(client, "echo older > file"), run(client, "echo newer > file")

    assert printed(going_on(client, *items(older), *items(newer), command="cat file")) == "newer\n"
    assert printed(going_on(client, *items(newer), *items(older), command="cat file")) == "older\n"


def test_a_container_that_is_named_goes_before_the_history(client: openai.OpenAI) -> None:
    first, other = run(client, "echo first > file"), run(client, "echo other > file")
    named: Any = [
        {"type": "shell", "environment": {"type": "container_reference", "container_id": container_of(other)}}
    ]

    assert printed(going_on(client, *items(first), command="cat file", tools=named)) == "other\n"


def test_a_chain_goes_before_the_history(client: openai.OpenAI) -> None:
    first, other = run(client, "echo first > file"), run(client, "echo other > file")

    second = going_on(client, *items(other), command="cat file", previous_response_id=first.id)

    assert printed(second) == "first\n"


def test_other_limits_get_another_container(client: openai.OpenAI) -> None:
    first = run(client, "echo first > file")
    larger: Any = [{"type": "shell", "environment": {"type": "container_auto", "memory_limit": "1g"}}]

    second = going_on(client, *items(first), command="ls", tools=larger)

    assert container_of(second) != container_of(first)
    assert printed(second) == ""


@pytest.mark.promise("gone-container-is-told-before-the-first-turn")
@pytest.mark.parametrize("how", ["chain", "history", "message"])
@pytest.mark.parametrize("instructions", [None, "Be brief."])
def test_that_it_is_gone_is_told_before_the_first_turn(
    scripted_gateway: Gateway, provider: Provider, how: str, instructions: str | None
) -> None:
    client = scripted_gateway.client()
    first = run(client, "echo first > file")
    client.containers.delete(container_of(first))
    provider.play(ShellCall(("ls",)), "It is empty.")
    kept = {"chain": [], "history": items(first), "message": items(first, only=("message",))}[how]
    options: Json = {"previous_response_id": first.id} if how == "chain" else {}
    second = going_on(client, *kept, command="ls", model=MODEL, instructions=instructions, **options)

    assert printed(second) == ""
    assert second.instructions == instructions
    assert all(GONE in asked["instructions"] for asked in provider.asked)
    assert provider.asked[0]["instructions"].startswith(instructions or "Note: ")
    (output,) = [item for item in second.output if item.type == "shell_call_output"]
    assert output.output[0].stderr == ""


@pytest.mark.promise("gone-container-is-told-before-the-first-turn")
@pytest.mark.parametrize("how", ["chain", "conversation", "history", "reference"])
def test_that_its_box_is_lost_is_told_before_the_first_turn_and_once(
    scripted_gateway: Gateway, provider: Provider, how: str
) -> None:
    client = scripted_gateway.client()
    talk: Json = {"conversation": client.conversations.create().id} if how == "conversation" else {}
    first = run(client, "echo kept > file", **talk)
    reference = stored_ref(scripted_gateway.home / "limpet.db", container_of(first))
    assert reference is not None
    os.kill(reference["facts"]["pid"], signal.SIGKILL)
    provider.play("Not yet.", ShellCall(("cat file",)), "Kept.", "Still.")
    kept = items(first) if how == "history" else []
    options: Json = {"previous_response_id": first.id} if how == "chain" else talk
    if how == "reference":
        named = {"type": "container_reference", "container_id": container_of(first)}
        options = {"tools": [{"type": "shell", "environment": named}]}

    going_on(client, *kept, command="x", model=MODEL, **options)
    second = going_on(client, *kept, command="x", model=MODEL, **options)
    going_on(client, *kept, command="x", model=MODEL, **options)

    told = ["box was lost. The next command" in (asked["instructions"] or "") for asked in provider.asked]
    assert told == [True, True, True, False]  # until a command has started another one
    assert printed(second) == "kept\n"
    assert container_of(second) == container_of(first)


@pytest.mark.promise("gone-container-is-told-before-the-first-turn")
@pytest.mark.parametrize("how", ["chain", "history"])
def test_that_it_has_expired_is_told_before_the_first_turn(
    scripted_gateway: Gateway, provider: Provider, how: str
) -> None:
    client = scripted_gateway.client()
    short: Any = [{"type": "shell", "environment": {"type": "container_auto"}}]
    first = run(client, "echo first > file", tools=short)
    with sqlite3.connect(scripted_gateway.home / "limpet.db") as db:  # as if its time had passed
        db.execute("UPDATE containers SET last_active_at = 1 WHERE id = ?", (container_of(first),))
    provider.play(ShellCall(("ls",)), "Empty.")
    kept, options = (items(first), {}) if how == "history" else ([], {"previous_response_id": first.id})

    second = going_on(client, *kept, command="x", model=MODEL, **options)

    assert container_of(second) != container_of(first)
    assert all(GONE in asked["instructions"] for asked in provider.asked)


def test_where_only_the_latest_is_gone_the_earlier_goes_on_and_that_is_told(
    scripted_gateway: Gateway, provider: Provider
) -> None:
    client = scripted_gateway.client()
    older, newer = run(client, "echo older > file"), run(client, "echo newer > file")
    client.containers.delete(container_of(newer))
    provider.play(ShellCall(("cat file",)), "Older.")

    after = going_on(client, *items(older), *items(newer), command="x", model=MODEL)

    assert printed(after) == "older\n"
    assert "Commands run in an earlier one" in provider.asked[0]["instructions"]


def test_a_history_without_commands_says_nothing_of_containers(scripted_gateway: Gateway, provider: Provider) -> None:
    client = scripted_gateway.client()
    provider.play("Hello.", "Hello again.")
    first = client.responses.create(model=MODEL, input="hi", tools=SHELL)
    client.containers.delete(container_of(first))

    again: Any = [user("hi"), *items(first), user("hi")]
    client.responses.create(model=MODEL, input=again, tools=SHELL)

    assert "container of this conversation" not in provider.asked[1]["instructions"]


def test_a_client_that_runs_its_own_shell_has_no_container_brought_back(client: openai.OpenAI) -> None:
    local: Any = [{"type": "shell", "environment": {"type": "local"}}]
    first = run(client, "echo first > file")

    second = going_on(client, *items(first), command="cat file", tools=local)

    assert [item.type for item in second.output] == ["shell_call"]
    assert "container_id" not in (second.model_extra or {})


@pytest.fixture(scope="module")
def tenants(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Gateway, openai.OpenAI, openai.OpenAI]]:
    with running(tmp_path_factory.mktemp("tenants"), config='[auth]\nmode = "keys"\n') as gateway:
        keys = [_key(gateway, name) for name in ("ann", "bob")]
        yield (gateway, *(gateway.client(api_key=key) for key in keys))  # type: ignore[misc]


def _key(gateway: Gateway, tenant: str) -> str:
    env = {"PATH": "/usr/bin:/bin", "LIMPET_HOME": str(gateway.home)}
    return ran(["keys", "create", tenant, "--tenant", tenant], env=env).stdout.strip()


@pytest.mark.promise("history-brings-its-container-back", "unknown-item-reference-is-refused")
def test_another_tenants_items_neither_work_nor_leak(
    tenants: tuple[Gateway, openai.OpenAI, openai.OpenAI], tmp_path: Path
) -> None:
    _, ann, bob = tenants
    hers = run(ann, "echo secret > file.txt")
    shell, message = items(hers, only=("shell_call", "shell_call_output")), items(hers, only=("message",))
    nobodys = [{**item, "id": f"{item['id'][:-4]}0000"} for item in message]

    for kept in (shell, message, [*shell, *message]):
        his = going_on(bob, *kept, command="ls")
        assert printed(his) == ""
        assert container_of(his) != container_of(hers)
    for named in (shell[0]["id"], message[0]["id"]):
        said = []
        for item_id in (named, f"{named[:-4]}0000"):
            with pytest.raises(openai.BadRequestError) as refused:
                bob.responses.create(model="limpet/script", input=[{"type": "item_reference", "id": item_id}])
            said.append(str(refused.value).replace(item_id, "ID"))
        assert said[0] == said[1]
    unknown = going_on(bob, *nobodys, command="ls")
    assert printed(unknown) == ""
    # Hers is as it was.
    assert printed(going_on(ann, *shell, command="cat file.txt")) == "secret\n"
