"""The items of a shell call: their keys and order on the wire, and that a journal has their text once."""

import msgspec
import pytest

from limpet.core.command import Aborted, Exited, Lost, TimedOut
from limpet.responses.shell_items import (
    CommandEntry,
    FileCitation,
    OutputFile,
    ShellAction,
    ShellCallItem,
    ShellCallOutputItem,
    citation,
    output_file,
    wire_outcome,
)
from limpet.responses.turn_forwarder import TurnForwarder
from limpet.responses.writer import Writer
from limpet.upstreams.upstream import CallMade, ShellArguments
from tests.responses.test_command_output import ListLog
from tests.store.samples import a_file

encode = msgspec.json.encode
FILE = a_file("cntr_1", "/mnt/data/d/a.csv", id="cfile_1")


def test_a_call_on_the_wire() -> None:
    item = ShellCallItem(id="sh_1", call_id="c", action=ShellAction(commands=["ls"]), environment={"type": "local"})

    assert encode(item) == (
        b'{"id":"sh_1","type":"shell_call","call_id":"c","status":"in_progress",'
        b'"action":{"commands":["ls"],"timeout_ms":null,"max_output_length":null},"environment":{"type":"local"}}'
    )


def test_an_output_on_the_wire() -> None:
    begun = ShellCallOutputItem(id="sho_1", call_id="c", max_output_length=None)
    entry = CommandEntry(stdout="a", stderr="", outcome=wire_outcome(Exited(3)))
    done = msgspec.structs.replace(begun, status="completed", output=[entry], output_files=[output_file(FILE)])
    head = b'{"id":"sho_1","type":"shell_call_output","call_id":"c","status":"%b","max_output_length":null,'

    assert encode(begun) == head % b"in_progress" + b'"output":[]}'
    assert encode(done) == head % b"completed" + (
        b'"output":[{"stdout":"a","stderr":"","outcome":{"type":"exit","exit_code":3}}],"output_files":[{"container_id":"cntr_1",'
        b'"file_id":"cfile_1","filename":"a.csv","path":"/mnt/data/d/a.csv","bytes":3,"content_type":null,"source":"assistant"}]}'
    )


def test_outcomes_are_those_that_strict_clients_know() -> None:
    outcomes = [encode(wire_outcome(outcome)) for outcome in (Exited(7), TimedOut(), Aborted(), Lost("x"))]

    assert outcomes == [
        b'{"type":"exit","exit_code":7}',
        b'{"type":"timeout"}',
        b'{"type":"exit","exit_code":130}',
        b'{"type":"exit","exit_code":125}',
    ]


def test_a_file_that_is_too_large_says_so() -> None:
    large = msgspec.structs.asdict(output_file(FILE)) | {"too_large": True}

    assert encode(OutputFile(**large)).endswith(b'"source":"assistant","too_large":true}')


@pytest.mark.parametrize(
    "text, start, end",
    [("see a.csv", 4, 9), ("a.csv is /mnt/data/d/a.csv", 9, 26), ("nothing", 7, 7), ("", 0, 0)],
)
def test_a_file_is_cited_where_the_text_names_it_else_at_its_end(text: str, start: int, end: int) -> None:
    assert citation(FILE, text) == FileCitation(
        container_id="cntr_1", file_id="cfile_1", filename="a.csv", start_index=start, end_index=end
    )


@pytest.mark.anyio
async def test_a_journal_has_the_commands_of_a_call_once() -> None:
    log = ListLog()
    forwarder = TurnForwarder(Writer(log), {"type": "local"}, provider="p")

    await forwarder.take(CallMade(index=0, call_id="c", arguments=ShellArguments(commands=("ls", "pwd"))))

    stored = [(entry.type, msgspec.json.decode(entry.data)) for entry in log.entries]
    assert [data.get("delta") for kind, data in stored if kind.endswith("command.delta")] == ["ls", "pwd"]
    assert stored[-1][0] == "response.output_item.done"
    assert "action" not in stored[-1][1]["item"]
    assert forwarder.items[0]["action"] == {"commands": ["ls", "pwd"], "timeout_ms": None, "max_output_length": None}
