"""`/v1/conversations` with the official client in strict mode, and responses that belong to one."""

import os
from pathlib import Path
from typing import Any

import openai
import pytest

from tests.support.gateway import Gateway, lasting, running
from tests.support.prepared import ran
from tests.support.providers.turns import Refuse, ShellCall, reply
from tests.wire.asking import SHELL, container_of, printed, run, shell_blocks
from tests.wire.conftest import RUNTIME
from tests.wire.provider import MODEL, Provider
from tests.wire.schema import check_error
from tests.wire.streams import asking, replaying

Json = dict[str, Any]
WAITS = "echo begun; until [ -e go ]; do sleep 0.02; done; echo over"
NOBODY = "conv_" + "0" * 32


def user(text: str) -> Any:
    return {"type": "message", "role": "user", "content": text}


def texts(items: Any) -> list[str]:
    return [part.text for item in items if item.type == "message" for part in item.content]


def code_of(problem: pytest.ExceptionInfo[openai.APIStatusError]) -> str | None:
    check_error({"error": problem.value.body})
    return problem.value.code


@pytest.mark.promise("conversations-are-kept")
def test_a_conversation_is_made_read_changed_and_deleted(client: openai.OpenAI) -> None:
    made = client.conversations.create(metadata={"topic": "demo"}, items=[user("hello")])
    bare = client.conversations.create()

    assert made.id.startswith("conv_")
    assert (made.metadata, bare.metadata) == ({"topic": "demo"}, {})
    assert client.conversations.retrieve(made.id) == made
    changed = client.conversations.update(made.id, metadata={"other": "thing"})
    assert client.conversations.retrieve(made.id).metadata == changed.metadata == {"other": "thing"}
    assert texts(client.conversations.items.list(made.id)) == ["hello"]
    gone = client.conversations.delete(made.id)
    assert (gone.id, gone.deleted, gone.object) == (made.id, True, "conversation.deleted")
    for ask in (
        lambda: client.conversations.retrieve(made.id),
        lambda: client.conversations.delete(made.id),
        lambda: client.conversations.update(made.id, metadata={}),
        lambda: client.conversations.items.list(made.id),
        lambda: client.conversations.items.create(made.id, items=[user("x")]),
        lambda: client.responses.create(model="limpet/script", input="x", conversation=made.id),
    ):
        with pytest.raises(openai.NotFoundError) as refused:
            ask()
        assert code_of(refused) == "conversation_not_found"


@pytest.mark.promise("conversation-items-are-listed")
def test_items_are_added_listed_in_pages_read_and_deleted(client: openai.OpenAI) -> None:
    made = client.conversations.create(items=[user(f"item {n}") for n in range(20)])
    added = client.conversations.items.create(made.id, items=[user(f"item {n}") for n in range(20, 25)])
    assert (texts(added.data), added.has_more) == ([f"item {n}" for n in range(20, 25)], False)

    # The newest first, and the client reads on from page to page.
    assert texts(client.conversations.items.list(made.id, limit=7)) == [f"item {n}" for n in reversed(range(25))]
    oldest = client.conversations.items.list(made.id, order="asc", limit=2)
    assert (texts(oldest.data), oldest.has_more) == (["item 0", "item 1"], True)
    first, second = oldest.data
    assert client.conversations.items.retrieve(str(first.id), conversation_id=made.id) == first

    # A list goes on behind an item that was deleted meanwhile, and nothing brings that item back.
    assert client.conversations.items.delete(str(second.id), conversation_id=made.id).id == made.id
    after = client.conversations.items.list(made.id, order="asc", limit=1, after=second.id)
    assert texts(after.data) == ["item 2"]
    with pytest.raises(openai.NotFoundError) as gone:
        client.conversations.items.retrieve(str(second.id), conversation_id=made.id)
    assert code_of(gone) == "item_not_found"
    with pytest.raises(openai.BadRequestError) as again:
        client.conversations.items.create(made.id, items=[{**user("back"), "id": second.id}])
    assert code_of(again) == "item_already_exists"
    end = client.conversations.items.list(made.id, order="desc", after=first.id)
    assert (end.data, end.has_more) == ([], False)


SENT: list[Any] = [
    {"role": "developer", "content": "be brief"},
    {"role": "user", "content": [{"type": "input_image", "image_url": "data:image/png;base64,AAAA"}]},
    {"role": "assistant", "content": "said before"},
    {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c1", "output": "7"},
    {"type": "shell_call", "call_id": "c2", "action": {"commands": ["ls"]}},
    {
        "type": "shell_call_output",
        "call_id": "c2",
        "output": [{"stdout": "", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}],
    },
    {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "sealed"},
    {"type": "custom_tool_call", "call_id": "c3", "name": "free", "input": "x"},
    {"type": "custom_tool_call_output", "call_id": "c3", "output": "y"},
]


def test_items_of_every_kind_are_shown_as_strict_clients_want_them(client: openai.OpenAI) -> None:
    made = client.conversations.create(items=SENT)

    plain: Any = client.conversations.items.list(made.id, order="asc").data
    with_all: Any = client.conversations.items.list(
        made.id, order="asc", include=["message.input_image.image_url", "reasoning.encrypted_content"]
    ).data

    assert [item.type for item in plain] == [item.get("type", "message") for item in SENT]
    assert len({item.id for item in plain}) == len(SENT)
    assert (plain[1].content[0].image_url, plain[7].encrypted_content) == (None, None)
    assert (with_all[1].content[0].image_url, with_all[7].encrypted_content) == (
        "data:image/png;base64,AAAA",
        "sealed",
    )


@pytest.mark.parametrize(
    "path, body, param",
    [
        ("", {"metadata": {str(n): "x" for n in range(17)}}, "metadata"),
        ("", {"items": [user("x")] * 21}, "items"),
        ("", {"items": [{"role": "robot", "content": "x"}]}, "items[0].role"),
        ("", {"items": [{"type": "item_reference", "id": "msg_nobody"}]}, "items[0].id"),
        ("", [], None),
        ("/items", {}, "items"),
        ("/items", {"items": []}, "items"),
        ("/items?include=everything", {"items": [user("x")]}, "include"),
    ],
)
def test_what_no_conversation_takes_is_refused(gateway: Gateway, path: str, body: Any, param: str | None) -> None:
    with gateway.http() as http:
        made = http.post("/v1/conversations").json()["id"] if path else ""
        answer = http.post(f"/v1/conversations{'/' if path else ''}{made}{path}", json=body)
    assert answer.status_code == 400, answer.text
    check_error(answer.json())
    assert answer.json()["error"]["param"] == param


@pytest.mark.parametrize("query", ["limit=0", "limit=101", "limit=-1", "order=up", "after=msg_nobody", "after="])
def test_a_cursor_that_leads_nowhere_is_refused(client: openai.OpenAI, gateway: Gateway, query: str) -> None:
    made = client.conversations.create(items=[user("x")])
    answered = client.responses.create(model="limpet/script", input="x")
    with gateway.http() as http:
        for path in (f"/v1/conversations/{made.id}/items", f"/v1/responses/{answered.id}/input_items"):
            answer = http.get(f"{path}?{query}")
            assert answer.status_code == 400, answer.text
            check_error(answer.json())
            assert answer.json()["error"]["param"] == query.partition("=")[0]


@pytest.mark.promise("response-goes-on-from-its-conversation", "response-adds-to-its-conversation")
@pytest.mark.parametrize("streamed", [False, True])
def test_turns_of_a_conversation_share_items_and_container_but_no_instructions(
    scripted_gateway: Gateway, provider: Provider, streamed: bool
) -> None:
    client = scripted_gateway.client()
    made = client.conversations.create(items=[{"role": "developer", "content": "be brief"}])
    provider.play(ShellCall(("echo kept > file",)), "Written.", ShellCall(("cat file",)), "Read.")

    def turn(text: str, conversation: Any, **more: Any) -> Any:
        asked: Any = {"model": MODEL, "tools": SHELL, "input": text, "conversation": conversation, **more}
        answer = client.responses.create(**asked, stream=streamed)
        return list(answer)[-1].response if streamed else answer

    first = turn("write", made.id, instructions="Sing.")
    second = turn("read", {"id": made.id})

    assert first.conversation.id == second.conversation.id == made.id
    assert container_of(first) == container_of(second)
    assert printed(second) == "kept\n"
    assert "Sing." in provider.asked[0]["instructions"]
    assert "Sing." not in provider.asked[2].get("instructions", "")
    kinds = [item["type"] for item in provider.asked[2]["input"]]
    assert kinds == ["message", "message", "shell_call", "shell_call_output", "message", "message"]
    kept = client.conversations.items.list(made.id, order="asc").data
    assert texts(kept) == ["be brief", "write", "Written.", "read", "Read."]
    assert [item.id for item in kept if item.type == "shell_call"] == [
        item.id for turn in (first, second) for item in turn.output if item.type == "shell_call"
    ]
    # The same ids, wherever the items are shown.
    given = client.responses.input_items.list(second.id, order="asc").data
    assert [item.id for item in given] == [item.id for item in kept[: len(given)]]
    assert client.responses.retrieve(second.id).conversation == second.conversation


def test_a_conversation_can_be_answered_without_further_input(client: openai.OpenAI) -> None:
    made = client.conversations.create(items=[user(shell_blocks("echo hello"))])
    asked: Any = {"model": "limpet/script", "conversation": made.id, "tools": SHELL}
    assert printed(client.responses.create(**asked)) == "hello\n"


@pytest.mark.parametrize(
    "more, code",
    [
        ({"previous_response_id": "resp_x"}, "mutually_exclusive_parameters"),
        ({"store": False}, "invalid_value"),
        ({"conversation": 7}, "invalid_type"),
        ({"conversation": {}}, "missing_required_parameter"),
    ],
)
def test_a_conversation_that_cannot_be_meant_is_refused(gateway: Gateway, more: Json, code: str) -> None:
    body = {"model": "limpet/script", "input": "x", "conversation": NOBODY, **more}
    with gateway.http() as http:
        answer = http.post("/v1/responses", json=body)
    assert answer.status_code == 400, answer.text
    check_error(answer.json())
    assert answer.json()["error"]["code"] == code


@pytest.mark.promise("one-response-at-a-time-in-a-conversation")
def test_while_a_response_runs_in_a_conversation_another_one_is_refused(
    client: openai.OpenAI, gateway: Gateway
) -> None:
    made = client.conversations.create()
    before = len(list(client.containers.list(limit=100)))  # all pages of them
    prompt = shell_blocks(WAITS)
    with asking(gateway, model="limpet/script", input=prompt, tools=SHELL, conversation=made.id) as stream:
        begun = stream.until("response.created")["response"]
        stream.until_printed("begun")
        with pytest.raises(openai.BadRequestError) as refused:
            run(client, "true", conversation=made.id)
        assert code_of(refused) == "conversation_locked"
        # Items of a client are taken meanwhile; the response's own come when it ends.
        client.conversations.items.create(made.id, items=[user("between")])
        client.containers.files.create(begun["container_id"], file=("go", b""))
        stream.rest()

    assert len(list(client.containers.list(limit=100))) == before + 1
    assert texts(client.conversations.items.list(made.id, order="asc"))[:2] == ["between", prompt]
    assert container_of(run(client, "true", conversation=made.id)) == begun["container_id"]


def test_ids_that_the_gateway_made_are_not_sent_to_a_provider(scripted_gateway: Gateway, provider: Provider) -> None:
    client = scripted_gateway.client()
    made = client.conversations.create(items=[user("hello")])
    sent_back: Any = [item.to_dict() for item in client.conversations.items.list(made.id)]
    provider.play("Fine.")
    client.responses.create(model=MODEL, input=[*sent_back, {**user("mine"), "id": "msg_of_the_client"}])
    assert [item.get("id") for item in provider.asked[0]["input"]] == [None, "msg_of_the_client"]


def test_a_response_that_failed_before_its_first_item_adds_nothing(
    scripted_gateway: Gateway, provider: Provider
) -> None:
    client = scripted_gateway.client()
    made = client.conversations.create()

    provider.play(Refuse(400))
    with pytest.raises(openai.BadRequestError):
        client.responses.create(model=MODEL, input="once", conversation=made.id)
    assert client.conversations.items.list(made.id).data == []

    provider.play("Half.", reply("Cut.", ends="max_output_tokens"), reply("No.", ends="failed"))
    client.responses.create(model=MODEL, input="one", conversation=made.id)
    cut = client.responses.create(model=MODEL, input="two", conversation=made.id)
    failed = client.responses.create(model=MODEL, input="three", conversation=made.id)

    assert (cut.status, failed.status) == ("incomplete", "failed")
    told = texts(client.conversations.items.list(made.id, order="asc"))
    assert told == ["one", "Half.", "two", "Cut.", "three", "No."]


def test_what_is_deleted_is_not_told_and_what_belonged_to_it_stays(
    scripted_gateway: Gateway, provider: Provider
) -> None:
    client = scripted_gateway.client()
    made = client.conversations.create(items=[user("early"), user("secret")])
    provider.play("One.", "Two.", "Three.", "Four.")
    secret = client.conversations.items.list(made.id).data[0]
    client.conversations.items.delete(str(secret.id), conversation_id=made.id)
    first = client.responses.create(model=MODEL, input="one", conversation=made.id)
    client.responses.create(model=MODEL, input="two", conversation=made.id)

    # A chain goes on from what its response was given, not from what the conversation became.
    client.responses.create(model=MODEL, input="aside", previous_response_id=first.id)
    asked = [[item["content"] for item in turn["input"] if item["role"] == "user"] for turn in provider.asked]
    assert asked == [["early", "one"], ["early", "one", "two"], ["early", "one", "aside"]]

    # A response that is deleted leaves its items in the conversation; a conversation its responses.
    client.responses.delete(first.id)
    assert "One." in texts(client.conversations.items.list(made.id))
    second = client.responses.create(model=MODEL, input="three", conversation=made.id)
    client.conversations.delete(made.id)
    assert client.responses.retrieve(second.id).status == "completed"
    assert texts(client.responses.input_items.list(second.id)) == ["three"]
    with pytest.raises(openai.NotFoundError) as refused:
        client.responses.create(model=MODEL, input="x", previous_response_id=second.id)
    assert code_of(refused) == "conversation_not_found"


def test_a_conversation_whose_container_is_gone_gets_a_new_one_and_the_model_is_told(
    scripted_gateway: Gateway, provider: Provider
) -> None:
    client = scripted_gateway.client()
    made = client.conversations.create()
    provider.play(ShellCall(("touch file",)), "One.", ShellCall(("ls",)), "Two.")
    first = client.responses.create(model=MODEL, input="one", tools=SHELL, conversation=made.id)
    client.containers.delete(container_of(first))

    second = client.responses.create(model=MODEL, input="two", tools=SHELL, conversation=made.id)

    assert container_of(second) != container_of(first)
    assert printed(second) == ""
    assert "has expired or was deleted" in provider.asked[2]["instructions"]


def test_items_of_a_conversation_can_be_named(scripted_gateway: Gateway, provider: Provider) -> None:
    client = scripted_gateway.client()
    made = client.conversations.create(items=[user("named")])
    (item,) = client.conversations.items.list(made.id).data
    named: Any = [{"type": "item_reference", "id": item.id}, user("go")]
    provider.play("Here.", "There.")

    client.responses.create(model=MODEL, input=named, conversation=made.id)
    client.responses.create(model=MODEL, input=named)
    copied = client.conversations.create(items=named)

    told = [[each["content"] for each in turn["input"]] for turn in provider.asked]
    assert told == [["named", "go"], ["named", "go"]]
    assert texts(client.conversations.items.list(copied.id, order="asc")) == ["named", "go"]


def test_another_tenant_has_no_such_conversation(tmp_path: Path) -> None:
    with running(tmp_path, runtime="memory", config='[auth]\nmode = "keys"\n') as gateway:
        env = {"PATH": os.environ["PATH"], "LIMPET_HOME": str(gateway.home)}
        keys = [ran(["keys", "create", name, "--tenant", name], env=env).stdout.strip() for name in ("ann", "bob")]
        ann, bob = (gateway.client(api_key=key) for key in keys)
        hers = ann.conversations.create(items=[user("hers")])
        (item,) = ann.conversations.items.list(hers.id).data
        answered = ann.responses.create(model="limpet/script", input="x", conversation=hers.id)
        his = bob.conversations.create(items=[user("his")])

        for ask in (
            lambda: bob.conversations.retrieve(hers.id),
            lambda: bob.conversations.delete(hers.id),
            lambda: bob.conversations.items.list(hers.id),
            lambda: bob.conversations.items.delete(str(item.id), conversation_id=hers.id),
            lambda: bob.responses.create(model="limpet/script", input="x", conversation=hers.id),
            lambda: bob.responses.input_items.list(answered.id),
        ):
            with pytest.raises(openai.NotFoundError):
                ask()
        for named in (
            lambda: bob.conversations.items.list(his.id, after=item.id),
            lambda: bob.conversations.create(items=[{"type": "item_reference", "id": str(item.id)}]),
        ):
            with pytest.raises(openai.BadRequestError):
                named()


@pytest.mark.skipif(RUNTIME == "local", reason="a local box ends with its gateway")
def test_a_response_that_outlives_its_gateway_is_added_to_its_conversation_once(tmp_path: Path) -> None:
    with lasting(tmp_path, runtime=RUNTIME) as gateway:
        client = gateway.client()
        made = client.conversations.create(items=[user("early")])
        prompt = shell_blocks(WAITS)
        with asking(gateway, model="limpet/script", input=prompt, tools=SHELL, conversation=made.id) as stream:
            begun = stream.until("response.created")["response"]
            stream.until_printed("begun")
            client.conversations.items.create(made.id, items=[user("between")])
            gateway.kill()
        client = gateway.start().client()
        with pytest.raises(openai.BadRequestError) as refused:
            client.responses.create(model="limpet/script", input="x", conversation=made.id)
        assert code_of(refused) == "conversation_locked"
        client.containers.files.create(begun["container_id"], file=("go", b""))
        with replaying(gateway, begun["id"]) as stream:
            stream.rest()

        ended = client.responses.retrieve(begun["id"])
        assert ended.status == "completed"
        kept = client.conversations.items.list(made.id, order="asc").data
        assert texts(kept)[:3] == ["early", "between", prompt]
        assert [item.type for item in kept] == ["message"] * 3 + [item.type for item in ended.output]
