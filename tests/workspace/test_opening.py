"""What is settled when a workspace is opened: offers, walls, capabilities, and a box that another process enters."""

import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

import limpet
from limpet.core.errors import CommandDenied, ConfigInvalid, FileDenied, OfferMissing
from limpet.core.ports import Offer
from limpet.guard.policy.policy import Policy
from limpet.runtimes.local.runtime import LocalRuntime
from limpet.runtimes.memory import MemoryRuntime
from limpet.workspace.opening import SandboxOptions, WorkspaceOptions, open_in
from limpet.workspace.walls import asked_walls
from tests.support.runtimes import opened

pytestmark = pytest.mark.anyio

# Enters the box of a reference with rules of its own, and says what became of two commands.
SECOND = """
import asyncio, json, pathlib, sys
import limpet

async def main():
    home, ref = sys.argv[1], json.loads(sys.argv[2])
    place = {"ref": limpet.SandboxRef(**ref), "lifetime": "ttl", "home": pathlib.Path(home)}
    policy = limpet.Policy(blocked_commands=frozenset({"touch"}), max_duration=30)
    async with limpet.open_workspace("again", **place, policy=policy, redaction=limpet.Redaction()) as box:
        print((await box.run("cat file")).stdout.decode())
        try:
            await box.run("touch other")
        except limpet.CommandDenied as denied:
            print(denied.rule)
        print((await box.run("printf ghp_%s " + "a1B2" * 9)).stdout.decode())

asyncio.run(main())
"""


@pytest.mark.parametrize(
    "policy, rule, wall",
    [
        (Policy(allowed_commands=frozenset({"ls"})), "allowed_commands", Offer.WALL_ALLOWED_COMMANDS),
        (Policy(blocked_commands=frozenset({"ls"})), "blocked_commands", Offer.WALL_BLOCKED_COMMANDS),
        (Policy(readonly=True), "readonly", Offer.WALL_READONLY),
        (Policy(allowed_paths=()), "allowed_paths", Offer.WALL_ALLOWED_PATHS),
        (Policy(confirm_destructive=True), "confirm_destructive", None),
    ],
    ids=["allowed_commands", "blocked_commands", "readonly", "allowed_paths", "confirm_destructive"],
)
async def test_a_rule_that_must_be_a_wall_is_refused_by_a_runtime_that_only_advises(
    policy: Policy, rule: str, wall: Offer | None
) -> None:
    walled = Policy(**{**{name: getattr(policy, name) for name in Policy.__slots__}, "enforce": "wall"})

    assert asked_walls(walled) == {rule: wall}
    async with MemoryRuntime() as runtime:
        assert wall not in runtime.offers
        with pytest.raises(OfferMissing, match=f"memory does not offer a wall for the rule {rule}"):
            async with open_in(runtime, rules=WorkspaceOptions(policy=walled)):
                pytest.fail("It opened.")


async def test_a_wall_for_nothing_is_no_wall_to_want() -> None:
    async with (
        LocalRuntime() as runtime,
        open_in(runtime, rules=WorkspaceOptions(policy=Policy(enforce="wall"))) as box,
    ):
        assert box.policies == (Policy(enforce="wall"),)


async def test_what_is_needed_and_not_offered_fails_at_opening_also_when_a_box_is_entered_again(home: Path) -> None:
    async with opened("bubblewrap", home) as runtime:
        with pytest.raises(OfferMissing, match="secrets"):
            async with open_in(runtime, opening=SandboxOptions(needs=frozenset({Offer.SECRETS}))):
                pytest.fail("It opened.")
        async with open_in(runtime) as box:
            again = SandboxOptions(ref=box.ref, needs=frozenset({Offer.SECRETS}), lifetime="ttl")
            with pytest.raises(OfferMissing, match="secrets"):
                async with open_in(runtime, opening=again):
                    pytest.fail("It opened.")


async def test_another_process_enters_a_box_with_rules_of_its_own(home: Path) -> None:
    async with opened("bubblewrap", home):
        pass
    async with limpet.open_workspace("box", lifetime="ttl", ttl=60, home=home) as box:
        await box.run("echo kept > file")
        ref = json.dumps(asdict(box.ref))
    try:
        said = subprocess.run(
            [sys.executable, "-c", SECOND, str(home), ref], capture_output=True, text=True, timeout=30, check=False
        )
    finally:
        async with limpet.open_workspace("box", ref=limpet.SandboxRef(**json.loads(ref)), home=home) as box:
            assert [one.path for one in await box.files.list()] == ["/mnt/data/file"]

    assert (said.stdout.split(), said.stderr) == (["kept", "blocked_commands", "[REDACTED:github]"], "")


@pytest.mark.parametrize("runtime", ["bubblewrap", "local", "memory"])
async def test_a_workspace_without_a_shell_has_files_and_starts_no_process(tmp_path: Path, runtime: str) -> None:
    before = children()
    async with limpet.open_workspace("box", runtime=runtime, capabilities={"fs": True}, home=tmp_path) as box:
        await box.files.write("file", b"text\n")
        assert (await box.files.grep("te.t")).matches[0].text == b"text"
        for start in (box.run, box.spawn):
            with pytest.raises(
                CommandDenied, match=r"The workspace box has no shell.*capabilities=\{\"shell\": True\}"
            ):
                await start("true")
        assert not box.has_shell
        assert children() == before


async def test_files_without_a_shell_lie_where_a_shell_finds_them(tmp_path: Path) -> None:
    place = tmp_path / "kept"
    async with limpet.open_workspace("box", runtime="local", capabilities={"fs": True}, directory=place) as box:
        await box.files.write("file", b"text\n")
    async with limpet.open_workspace("box", runtime="local", directory=place) as box:
        assert (await box.run("cat file")).stdout == b"text\n"


async def test_without_a_shell_nothing_can_live_on() -> None:
    with pytest.raises(OfferMissing, match="attach"):
        async with limpet.open_workspace("box", runtime="local", capabilities={"fs": True}, lifetime="ttl"):
            pytest.fail("It opened.")


async def test_a_workspace_whose_files_are_not_a_capability_gives_none(tmp_path: Path) -> None:
    async with limpet.open_workspace("box", runtime="memory", capabilities={"shell": True}) as box:
        assert (await box.run("echo hi > file; cat file")).stdout == b"hi\n"
        with pytest.raises(FileDenied, match=r"capabilities=\{\"fs\": True\}"):
            await box.files.read("file")


@pytest.mark.statement(
    "s1-allowed-commands-bind",
    "s1-a-refused-command-starts-nothing",
    "s1-max-duration-is-default-and-ceiling",
    "s1-the-shell-capability-is-true-or-an-object",
)
async def test_the_settings_of_a_shell_bind_run_itself(tmp_path: Path) -> None:
    settings = {"shell": {"allowedCommands": ["echo", "sleep"], "maxDurationMs": 1000}}
    async with limpet.open_workspace("box", runtime="local", capabilities=settings) as box:
        assert (await box.run("echo fine")).stdout == b"fine\n"
        assert (await box.run("sleep 30")).outcome == limpet.TimedOut()
        for command in ("ls", "echo $(ls)", "echo a; ls", "ls | echo", "A=1 ls"):
            with pytest.raises(CommandDenied, match="ls"):
                await box.run(command)


async def test_an_unknown_capability_is_refused_before_anything_is_opened() -> None:
    with pytest.raises(ConfigInvalid, match="did you mean shell"):
        async with limpet.open_workspace("box", runtime="local", capabilities={"shel": True}):
            pytest.fail("It opened.")


def children() -> set[str]:
    return set(Path("/proc/self/task").joinpath(str(os.getpid()), "children").read_text().split())


def test_importing_the_library_takes_no_time() -> None:
    program = "import time, limpet; assert limpet.__doc__; print(time.process_time())"
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    nothing = subprocess.run(
        [sys.executable, "-c", "import time; print(time.process_time())"], capture_output=True, text=True, check=True
    )

    assert float(said.stdout) - float(nothing.stdout) < 0.15
