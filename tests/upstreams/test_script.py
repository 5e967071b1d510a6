from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from limpet.upstreams.script import EXAMPLE, NO_SHELL, ScriptUpstream, shell_blocks
from limpet.upstreams.upstream import (
    CallBegun,
    CallMade,
    CommandText,
    Emit,
    ShellArguments,
    ShellOffer,
    Turn,
    TurnEnded,
    TurnEvent,
)
from limpet.upstreams.usage import Usage

pytestmark = pytest.mark.anyio
SHELL = ShellOffer(description="a shell")


def user(text: str) -> dict[str, Any]:
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}


def call(call_id: str, *commands: str) -> dict[str, Any]:
    return {"type": "shell_call", "call_id": call_id, "action": {"commands": list(commands)}}


def output(call_id: str, *outputs: Mapping[str, Any], files: Sequence[Mapping[str, Any]] = ()) -> dict[str, Any]:
    return {"type": "shell_call_output", "call_id": call_id, "output": list(outputs), "output_files": list(files)}


def exited(code: int, stdout: str = "", stderr: str = "") -> dict[str, Any]:
    return {"stdout": stdout, "stderr": stderr, "outcome": {"type": "exit", "exit_code": code}}


async def turn(*items: dict[str, Any], shell: ShellOffer | None = SHELL, **options: Any) -> list[TurnEvent]:
    asked = Turn(model="script", input=items, shell=shell, options=options)
    return [event async for event in ScriptUpstream().stream(asked)]


def said(events: Sequence[TurnEvent]) -> str:
    return "".join(
        event.data["delta"]
        for event in events
        if isinstance(event, Emit) and event.type == "response.output_text.delta"
    )


def calls(events: Sequence[TurnEvent]) -> list[ShellArguments]:
    made = [event.arguments for event in events if isinstance(event, CallMade)]
    return [arguments for arguments in made if isinstance(arguments, ShellArguments)]


async def test_the_first_block_becomes_a_call_that_streams_its_text_and_ends_the_turn() -> None:
    events = await turn(user("Please:\n```sh\necho one\necho two\n```\nthanks"))
    begun, *texts, made, ended = events
    assert isinstance(begun, CallBegun)
    assert isinstance(made, CallMade)
    assert (begun.index, made.index, made.call_id) == (0, 0, begun.call_id)
    assert made.arguments == ShellArguments(commands=("echo one\necho two",))
    assert len(texts) > 1
    assert "".join(text.text for text in texts if isinstance(text, CommandText)) == "echo one\necho two"
    assert isinstance(ended, TurnEnded)
    assert ended.status == "completed"


async def test_each_block_is_one_turn_and_then_comes_the_text() -> None:
    question = user("```sh\nfirst\n```\n```bash\nsecond\n```\n```shell\nthird\n```")
    history = [user("```sh\nold\n```"), call("c0", "old"), output("c0", exited(0)), question]
    asked: list[str] = []
    for at in range(3):
        (made,) = calls(await turn(*history))
        asked += made.commands
        history += [call(f"c{at}", *made.commands), output(f"c{at}", exited(at))]
    assert asked == ["first", "second", "third"]
    events = await turn(*history)
    assert calls(events) == []
    assert said(events).startswith("I ran 3 commands.")


async def test_the_answer_names_exit_codes_the_outputs_end_and_the_files() -> None:
    long = "\n".join(f"line {n}" for n in range(100)) + "\n"
    files = [{"path": "/mnt/data/a.txt", "bytes": 12}, {"path": "/mnt/data/b.txt", "bytes": 3}]
    events = await turn(
        user("```sh\nseq\n```\n```sh\nfalse\n```\n```sh\nsleep 9\n```"),
        call("c1", "seq"),
        output("c1", exited(0, stdout=long), files=[{"path": "/mnt/data/a.txt", "bytes": 1}]),
        call("c2", "false"),
        output("c2", exited(3, stderr="no ``` luck"), files=files),
        call("c3", "sleep 9"),
        output("c3", {"stdout": "", "stderr": "", "outcome": {"type": "timeout"}}),
    )
    tail = "\n".join(f"line {n}" for n in range(80, 100))
    assert said(events) == (
        "I ran 3 commands.\n\n"
        f"1. `seq` ended with exit code 0. The end of its output:\n\n```\n{tail}\n```\n\n"
        "2. `false` ended with exit code 3 and printed:\n\n````\nno ``` luck\n````\n\n"
        "3. `sleep 9` timed out and printed nothing.\n\n"
        "Files written:\n- /mnt/data/a.txt (12 bytes)\n- /mnt/data/b.txt (3 bytes)\n"
    )


async def test_a_message_has_every_event_of_the_api_in_its_order() -> None:
    *events, ended = await turn(user("hello"))
    types = [event.type for event in events if isinstance(event, Emit)]
    assert types[:2] == ["response.output_item.added", "response.content_part.added"]
    assert set(types[2:-3]) == {"response.output_text.delta"}
    assert len(types[2:-3]) > 1
    assert types[-3:] == ["response.output_text.done", "response.content_part.done", "response.output_item.done"]
    last = events[-1]
    assert isinstance(last, Emit)
    item = last.data["item"]
    assert item["content"] == [{"type": "output_text", "annotations": [], "logprobs": [], "text": said(events)}]
    assert item["status"] == "completed"
    assert isinstance(ended, TurnEnded)
    assert ended.usage is not None
    assert ended.usage.input_tokens == 4  # message, user, input_text, hello
    assert ended.usage == Usage.counted(given=4, answered=ended.usage.output_tokens)


async def test_without_a_block_it_says_what_it_does_with_an_example_that_it_would_run() -> None:
    text = said(await turn(user("hello")))
    assert EXAMPLE in text
    assert shell_blocks(text) == ["uname -a"]


async def test_without_the_shell_it_says_that_it_is_not_offered() -> None:
    assert said(await turn(user("```sh\nid\n```"), shell=None)) == NO_SHELL
    assert said(await turn(user("```sh\nid\n```"), tool_choice="none")) == NO_SHELL


async def test_the_same_turn_gives_the_same_words() -> None:
    asked = [user("```sh\nid\n```"), call("c", "id"), output("c", exited(0, "root"))]
    assert said(await turn(*asked)) == said(await turn(*asked))


async def test_a_plain_string_is_a_user_message_too() -> None:
    events = await turn({"role": "user", "content": "```sh\nid\n```"})
    assert calls(events) == [ShellArguments(commands=("id",))]


@pytest.mark.parametrize(
    "text, blocks",
    [
        ("```python\nprint()\n```", []),
        ("```\nid\n```", []),
        ("```SH\nid\n```", ["id"]),
        ("```sh title=x\nid\n```", ["id"]),
        ("~~~bash\nid\n~~~", ["id"]),
        ("````sh\ncat <<E\n```\nE\n````", ["cat <<E\n```\nE"]),
        ("````md\n```sh\nid\n```\n````", []),
        ("```sh\nid", ["id"]),
        ("```sh\n\n  \n```", []),
        ("  ```sh\n  if x\n    y\n  ```", ["if x\n  y"]),
        ("```sh\r\nid\r\n```\r\n", ["id"]),
        ("```shx\nid\n```", []),
        ("inline ```sh id``` text", []),
    ],
)
async def test_only_fenced_blocks_marked_as_shell_count(text: str, blocks: list[str]) -> None:
    assert shell_blocks(text) == blocks
