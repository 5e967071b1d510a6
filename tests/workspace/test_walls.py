"""A policy that is built into the box: what the guard would have to see is not there, and a wall that cannot be had is refused."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from limpet.core.command import Command, Exited, Script
from limpet.core.errors import CommandDenied, OfferMissing
from limpet.core.ports import Offer, Runtime, Walls
from limpet.guard.policy.policy import Policy
from limpet.runtimes.local.runtime import LocalRuntime
from limpet.workspace.opening import SandboxOptions, WorkspaceOptions, open_in
from limpet.workspace.walls import walls_of
from limpet.workspace.workspace import Workspace
from tests.support.runtimes import boxes_with

pytestmark = pytest.mark.anyio

_STRICT = Policy(
    allowed_commands=frozenset({"cat", "ls", "echo"}),
    blocked_commands=frozenset({"rm"}),
    readonly=True,
    allowed_paths=(),
    enforce="wall",
)


@pytest.fixture
async def boxes(home: Path) -> AsyncIterator[Runtime]:
    async with boxes_with(Offer.WALL_ALLOWED_COMMANDS, home) as runtime:
        yield runtime


async def behind_the_guard(boxes: Runtime, box: Workspace, script: str) -> tuple[object, str]:
    """What a script does that no guard has seen."""
    sandbox = await boxes.attach(box.ref)
    process = await sandbox.start(Command(what=Script(script)), "unseen")
    output = b"".join([chunk.data async for chunk in process.output()])
    return await process.wait(), output.decode()


def test_each_rule_becomes_its_wall() -> None:
    assert walls_of(_STRICT) == Walls(
        programs=frozenset({"cat", "ls", "echo", "realpath"}), hidden=frozenset({"rm"}), is_read_only=True, paths=()
    )
    assert walls_of(Policy(blocked_commands=frozenset({"git push", "kill"}))).hidden == {"kill"}
    assert walls_of(Policy(confirm_destructive=True)) == walls_of(None) == Walls()


async def test_what_the_guard_would_refuse_does_not_run_without_it_either(boxes: Runtime) -> None:
    async with open_in(boxes, rules=WorkspaceOptions(policy=_STRICT)) as box:
        assert (await box.run("echo seen; ls")).stdout == b"seen\n"
        with pytest.raises(CommandDenied, match="allowed_commands"):
            await box.run("python3 -c pass")

        assert await behind_the_guard(boxes, box, "python3 -c 'print(7)' 2> /dev/null") == (Exited(126), "")


async def test_a_policy_that_only_guards_is_built_in_as_well(boxes: Runtime) -> None:
    async with open_in(boxes, rules=WorkspaceOptions(policy=replace(_STRICT, enforce="guard"))) as box:
        assert (await behind_the_guard(boxes, box, "echo > file"))[0] == Exited(1)


async def test_a_policy_without_a_rule_builds_nothing(boxes: Runtime) -> None:
    async with open_in(boxes, rules=WorkspaceOptions(policy=Policy(confirm_destructive=True))) as box:
        assert (await box.run("python3 -c 'print(7)' > file; cat file")).stdout == b"7\n"


@pytest.mark.parametrize("entry", ["git push", "kill", "bash", "/bin/bash"])
async def test_what_no_box_can_be_without_is_refused_as_a_wall(boxes: Runtime, entry: str) -> None:
    policy = Policy(blocked_commands=frozenset({entry}), enforce="wall")

    with pytest.raises(OfferMissing, match=f"blocked_commands where it says '{entry}'"):
        async with open_in(boxes, rules=WorkspaceOptions(policy=policy)):
            pytest.fail("It opened.")


async def test_a_box_that_was_made_without_walls_is_not_entered_as_one_that_has_them(boxes: Runtime) -> None:
    wall = WorkspaceOptions(policy=_STRICT)
    async with open_in(boxes, opening=SandboxOptions(lifetime="ttl")) as plain:
        with pytest.raises(OfferMissing, match="made without them"):
            async with open_in(boxes, opening=SandboxOptions(ref=plain.ref), rules=wall):
                pytest.fail("It opened.")
    async with open_in(boxes, opening=SandboxOptions(lifetime="ttl"), rules=wall) as walled:
        pass
    async with open_in(boxes, opening=SandboxOptions(ref=walled.ref), rules=wall) as again:
        assert (await again.run("echo same")).stdout == b"same\n"
    async with open_in(boxes, opening=SandboxOptions(ref=plain.ref)):
        pass


async def test_a_view_cannot_promise_walls_that_its_box_does_not_have(boxes: Runtime) -> None:
    async with open_in(boxes) as box:
        with pytest.raises(OfferMissing, match="made without them"):
            box.guarded(policy=_STRICT)
    async with open_in(boxes, rules=WorkspaceOptions(policy=_STRICT)) as box:
        assert (await box.guarded(policy=_STRICT).run("echo same")).stdout == b"same\n"


async def test_where_a_runtime_has_no_walls_a_guarding_policy_opens() -> None:
    async with (
        LocalRuntime() as runtime,
        open_in(runtime, rules=WorkspaceOptions(policy=replace(_STRICT, enforce="guard"))) as box,
    ):
        assert (await box.run("echo seen")).stdout == b"seen\n"
