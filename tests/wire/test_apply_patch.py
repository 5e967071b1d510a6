"""`apply_patch` beside a hosted shell: carried out in the shell's container, behind every provider; without one it is the client's."""

import json
from collections.abc import Iterator
from typing import Any

import openai
import pytest

from limpet.responses.failures import closed_item
from limpet.upstreams.patch_function import read_operation
from tests.support.gateway import Gateway, running
from tests.support.providers.turns import FunctionCall, Raw, Said, reply
from tests.wire.conftest import RUNTIME
from tests.wire.schema import check_event, check_response, problems_of
from tests.wire.voices import KEY, KEY_VARIABLE, Voice, section_of

TOOLS: Any = [{"type": "shell"}, {"type": "apply_patch"}]
CREATE = {"type": "create_file", "path": "src/greet.py", "diff": "+def greet():\n+    return 'Hi'"}
UPDATE = {
    "type": "update_file",
    "path": "src/greet.py",
    "diff": "@@ def greet():\n-    return 'Hi'\n+    return 'Hello'",
}
DELETE = {"type": "delete_file", "path": "src/greet.py"}


def patch_of(voice: Voice, operation: Any, call_id: str = "call_patch_1", index: int = 0) -> Said | tuple[Said, ...]:
    """A model's call of the tool, as its wire spells it."""
    if not voice.kind.has_native_shell:
        return FunctionCall("apply_patch", operation, call_id=call_id)
    item = {"id": f"apc_{call_id}", "type": "apply_patch_call", "call_id": call_id, "operation": operation}
    added = {"type": "response.output_item.added", "output_index": index, "item": {**item, "status": "in_progress"}}
    done = {"type": "response.output_item.done", "output_index": index, "item": {**item, "status": "completed"}}
    return Raw(added), Raw(done)


def turn(*said: Said | tuple[Said, ...]) -> Any:
    flat = [one for each in said for one in (each if isinstance(each, tuple) else (each,))]
    return reply(*flat)


def patches(response: Any) -> list[tuple[str, str]]:
    return [(item.status, item.output) for item in response.output if item.type == "apply_patch_call_output"]


@pytest.fixture(scope="module")
def one_gateway(voices: dict[str, Voice], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """Its operator leaves the tool to clients."""
    config = f'[features.shell]\ntype = "{RUNTIME}"\napply_patch = "local"\n' + "".join(
        map(section_of, voices.values())
    )
    with running(tmp_path_factory.mktemp("local"), runtime=RUNTIME, config=config, env={KEY_VARIABLE: KEY}) as gateway:
        yield gateway


def test_files_are_made_changed_and_deleted_in_the_shells_container(speaking_gateway: Gateway, voice: Voice) -> None:
    client = speaking_gateway.client()
    voice.play(
        turn(patch_of(voice, CREATE)),
        turn(patch_of(voice, UPDATE, "call_patch_2")),
        turn(voice.shell("cat src/greet.py")),
        "See src/greet.py.",
    )
    with client.responses.stream(model=voice.model, input="Go.", tools=TOOLS) as stream:
        id = stream.get_final_response().id
    response = client.responses.retrieve(id)
    check_response(response.to_dict())
    for event in client.responses.retrieve(response.id, stream=True):
        check_event(event.to_dict())
    kinds = [item.type for item in response.output]
    pair = ["apply_patch_call", "apply_patch_call_output"]
    assert kinds == [*pair, *pair, "shell_call", "shell_call_output", "message"]
    assert patches(response) == [("completed", "Created src/greet.py"), ("completed", "Updated src/greet.py")]
    assert response.output[5].output[0].stdout == "def greet():\n    return 'Hello'\n"  # type: ignore[union-attr]
    (note,) = response.output[-1].content[0].annotations  # type: ignore[union-attr]
    assert (note.type, note.filename) == ("container_file_citation", "greet.py")
    files = response.output[1].to_dict()["output_files"]
    assert [file["path"].rpartition("/src/")[2] for file in files] == ["greet.py"]
    # What the model was told, and that it could call again.
    told = voice.told[1]
    assert {"shell", "apply_patch"} <= set(told.tools)
    assert [call_id for call_id, _ in told.calls] == [call_id for call_id, _ in told.results] == ["call_patch_1"]
    result = told.results[0][1]
    assert result == ("Created src/greet.py" if voice.kind.has_native_shell else "completed: Created src/greet.py")

    delete = patch_of(voice, DELETE, "call_patch_3")
    voice.play(turn(delete), turn(voice.shell("ls src", call_id="call_shell_2")), "Gone.")
    more = client.responses.create(model=voice.model, input="Delete.", tools=TOOLS, previous_response_id=response.id)
    assert patches(more) == [("completed", "Deleted src/greet.py")]
    assert more.output[3].output[0].stdout == ""  # type: ignore[union-attr]


def test_a_patch_is_applied_before_a_command_of_the_same_turn(
    speaking_gateway: Gateway, voices: dict[str, Voice]
) -> None:
    voice = voices["chat"]
    voice.play(
        turn(
            patch_of(voice, CREATE),
            voice.shell("cat src/greet.py", call_id="call_2"),
            patch_of(voice, DELETE, "call_3"),
        ),
        "Done.",
    )
    response = speaking_gateway.client().responses.create(model=voice.model, input="Go.", tools=TOOLS)
    (ran,) = (item for item in response.output if item.type == "shell_call_output")
    assert "def greet" in ran.output[0].stdout
    assert sorted(call_id for call_id, _ in voice.told[1].results) == ["call_2", "call_3", "call_patch_1"]
    assert [status for status, _ in patches(response)] == ["completed", "completed"]
    assert response.output[-1].content[0].annotations == []  # type: ignore[union-attr]


BAD: list[tuple[Any, str]] = [
    ({**UPDATE, "path": "nobody.py"}, "nobody.py does not exist. Make it with create_file"),
    ({**UPDATE, "path": "there"}, "there was not changed. The hunk at line 2 of the diff was not found"),
    ({**CREATE, "path": "there"}, "there exists already"),
    ({**CREATE, "path": "/etc/x"}, "is outside"),
    ({**CREATE, "path": "../../etc/x"}, "is outside"),
    ({**CREATE, "path": "out/x"}, "out"),
    ({**UPDATE, "path": "link"}, "link"),
    ({**DELETE, "path": "dir"}, "is a directory, not a regular file"),
    ({**CREATE, "path": "new", "diff": "no plus"}, "every line begins with +"),
    ({"type": "delete_file", "path": "no\x00thing"}, "The call could not be read"),
    ({"type": "explode", "path": "there", "diff": ""}, "The call could not be read"),
    ("no JSON", "The call could not be read"),
]


def test_what_cannot_be_applied_is_a_failed_output_and_changes_nothing(
    speaking_gateway: Gateway, voices: dict[str, Voice]
) -> None:
    voice = voices["anthropic"]
    setup = "echo here > there; mkdir dir; ln -s /etc/passwd link; ln -s /etc out; md5sum there /etc/passwd > sums"
    bad = [({} if operation == "no JSON" else operation, said) for operation, said in BAD]
    voice.play(
        turn(voice.shell(setup)),
        turn(*(patch_of(voice, operation, f"call_{at}") for at, (operation, _) in enumerate(bad))),
        turn(voice.shell("md5sum -c sums; ls -A . dir")),
        "Done.",
    )
    response = speaking_gateway.client().responses.create(model=voice.model, input="Go.", tools=TOOLS)
    found = patches(response)
    assert [status for status, _ in found] == ["failed"] * len(BAD)
    for (_, output), (_, said) in zip(found, bad, strict=True):
        assert said in output
    results = dict(voice.told[2].results)
    assert results["call_1"].startswith("failed: there was not changed.")
    shown = response.output[-2].output[0].stdout  # type: ignore[union-attr]
    assert shown.startswith("there: OK\n/etc/passwd: OK\n")
    assert "new" not in shown


@pytest.mark.parametrize("name", ["chat", "anthropic"])
def test_half_of_a_surrogate_pair_is_a_failed_output(
    speaking_gateway: Gateway, voices: dict[str, Voice], name: str
) -> None:
    voice = voices[name]
    voice.play(turn(patch_of(voice, {**CREATE, "diff": "+\ud800"})), "Done.")
    response = speaking_gateway.client().responses.create(model=voice.model, input="Go.", tools=TOOLS)
    ((status, output),) = patches(response)
    assert (response.status, status) == ("completed", "failed")
    assert "The call could not be read" in output


def test_half_of_a_surrogate_pair_in_decoded_arguments_is_told_apart() -> None:
    said = json.dumps({**CREATE, "diff": "+\ud800"}, ensure_ascii=False)
    operation = read_operation(said)
    assert (operation["path"], operation["diff"]) == ("", said.replace("\ud800", "?"))


def test_a_diff_that_does_not_fit_says_what_differs(speaking_gateway: Gateway, voices: dict[str, Voice]) -> None:
    voice = voices["native"]
    wrong = {**UPDATE, "diff": "@@\n def greet():\n-    return 'Bye'\n+    return 'Hello'"}
    voice.play(turn(patch_of(voice, CREATE)), turn(patch_of(voice, wrong)), "Hm.")
    response = speaking_gateway.client().responses.create(model=voice.model, input="Go.", tools=TOOLS)
    status, output = patches(response)[1]
    assert status == "failed"
    assert "stand at line 1; then, at line 2, the file has \"    return 'Hi'\"" in output
    assert "the diff has \"    return 'Bye'\"" in output


def test_without_a_hosted_shell_the_call_is_the_clients(one_gateway: Gateway, voice: Voice) -> None:
    """As with OpenAI, whose models know it as a tool of the client's: with the operator's word beside a hosted shell too."""
    client = one_gateway.client()
    for tools in (TOOLS, [{"type": "apply_patch"}], [{"type": "shell", "environment": {"type": "local"}}, TOOLS[1]]):
        voice.play(turn(patch_of(voice, CREATE)), "Thanks.")
        first = client.responses.create(
            model=voice.model, input="Go.", tools=tools, tool_choice={"type": "apply_patch"}
        )
        (call,) = first.output
        assert (call.type, call.status, call.operation.to_dict()) == ("apply_patch_call", "completed", CREATE)  # type: ignore[union-attr]
        done: Any = {
            "type": "apply_patch_call_output",
            "call_id": "call_patch_1",
            "status": "completed",
            "output": "ok",
        }
        second = client.responses.create(model=voice.model, input=[done], tools=tools, previous_response_id=first.id)
        assert second.output_text == "Thanks."
        assert [call_id for call_id, _ in voice.told[-1].results] == ["call_patch_1"]
    done["call_id"] = "call_nobody"
    with pytest.raises(openai.BadRequestError, match="No tool call found for apply patch call output"):
        client.responses.create(model=voice.model, input=[done], tools=TOOLS)


def test_the_operators_rules_hold(voices: dict[str, Voice], tmp_path: Any) -> None:
    config = f"""[features.shell]
type = "{RUNTIME}"
[features.shell.policy]
allowed_paths = ["/mnt/data/open"]
[features.shell.redaction]
patterns = ["canary-[a-z]+"]
{section_of(voices["chat"])}"""
    with running(tmp_path, runtime=RUNTIME, config=config, env={KEY_VARIABLE: KEY}) as gateway:
        voice, client = voices["chat"], gateway.client()
        secret = {"type": "create_file", "path": "open/a", "diff": "+canary-bird\n+b"}
        wrong = {"type": "update_file", "path": "open/a", "diff": "@@\n-canary-bird\n-c"}
        voice.play(
            turn(patch_of(voice, secret)),
            turn(patch_of(voice, wrong, "call_2")),
            turn(patch_of(voice, {**CREATE, "path": "/home/agent/.bashrc"}, "call_3")),
            "Done.",
        )
        response = client.responses.create(model=voice.model, input="Go.", tools=TOOLS)
        assert [status for status, _ in patches(response)] == ["completed", "failed", "failed"]
        assert "canary" not in json.dumps(voice.told[-1].results)
        log = gateway.log.read_text()
        assert log.count("shell_audit") == 3
        assert log.count("denied") == 1


def test_a_call_that_broke_off_has_a_status_that_strict_clients_know() -> None:
    item = {"id": "apc_1", "type": "apply_patch_call", "status": "in_progress", "call_id": "c", "operation": DELETE}
    assert problems_of("OutputItem", closed_item(item)) == []
