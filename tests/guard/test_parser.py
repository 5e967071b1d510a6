"""Scripts become trees, within bounds; what is no bash says where."""

import os
from pathlib import Path

import anyio
import pytest

from limpet.guard.policy.bash.parser import LONGEST_SCRIPT, ParsedScript, Parser, Unreadable
from limpet.guard.policy.bash.tree import CallExpr


def children() -> int:
    """How many children of this process live."""
    return len(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())


@pytest.mark.anyio
async def test_a_script_becomes_a_tree_whose_positions_count_bytes(parser: Parser) -> None:
    tree = await parser.parse("echo é; ls -l")

    assert isinstance(tree, ParsedScript)
    second = tree.file.stmts[1].cmd
    assert isinstance(second, CallExpr)
    assert second.pos is not None
    assert tree.source[second.pos.offset :] == b"ls -l"


@pytest.mark.anyio
async def test_what_is_no_bash_names_the_line(parser: Parser) -> None:
    read = await parser.parse("ls\necho (")

    assert isinstance(read, Unreadable)
    assert read.line == 2
    assert read.reason.startswith("is not bash: line 2: ")


@pytest.mark.anyio
@pytest.mark.parametrize(
    "text",
    ["ls\0", "ls \ud800", "x" * (LONGEST_SCRIPT + 1), "echo hi\n" * 60_000, "$(" * 500 + ")" * 500],
    ids=["NUL", "lone surrogate", "too long", "too many commands", "too deep"],
)
async def test_what_is_beyond_the_bounds_is_unreadable(parser: Parser, text: str) -> None:
    assert isinstance(await parser.parse(text), Unreadable)


@pytest.mark.anyio
async def test_a_long_text_for_one_command_is_read(parser: Parser) -> None:
    text = "cat > f <<'E'\n" + "a line of text\n" * 60_000 + "E"

    assert isinstance(await parser.parse(text), ParsedScript)


@pytest.mark.anyio
async def test_an_empty_script_and_one_of_comments_are_trees(parser: Parser) -> None:
    for text in ("", "\n", "# nothing"):
        read = await parser.parse(text)
        assert isinstance(read, ParsedScript)
        assert read.file.stmts == []


@pytest.mark.anyio
async def test_many_callers_are_served_at_once(parser: Parser) -> None:
    found: dict[int, ParsedScript | Unreadable] = {}

    async def ask(number: int) -> None:
        found[number] = await parser.parse(f"echo {number}")

    async with anyio.create_task_group() as tasks:
        for number in range(20):
            tasks.start_soon(ask, number)

    assert {number: tree.source for number, tree in found.items() if isinstance(tree, ParsedScript)} == {
        number: f"echo {number}".encode() for number in range(20)
    }


@pytest.mark.anyio
async def test_nothing_is_left_when_it_closes() -> None:
    before = children()
    async with Parser() as parser:
        for number in range(5):
            await parser.parse(f"ls {number}")
        assert children() > before

    assert children() == before


@pytest.mark.anyio
async def test_a_caller_that_gives_up_leaves_a_parser_that_works() -> None:
    before = children()
    async with Parser() as parser:
        with anyio.move_on_after(0):
            await parser.parse("echo gone; " * 5000)
        assert isinstance(await parser.parse("ls"), ParsedScript)

    assert children() == before


@pytest.mark.anyio
async def test_a_closed_parser_reads_nothing() -> None:
    async with Parser() as parser:
        pass

    assert isinstance(await parser.parse("ls"), Unreadable)
