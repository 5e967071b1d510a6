"""Outputs that a workspace keeps: in a file whatever its rules say of writing, whole, and where the caller can read it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from limpet.core.box_directories import HOME
from limpet.guard.policy.policy import Policy
from limpet.workspace.kept_outputs import KEPT
from limpet.workspace.opening import WorkspaceOptions, open_in
from limpet.workspace.workspace import Workspace
from tests.support.runtimes import NAMES, opened

pytestmark = pytest.mark.anyio

TEXT = b"".join(b"%d\n" % number for number in range(300_000))


async def text() -> AsyncIterator[bytes]:
    for start in range(0, len(TEXT), 1 << 20):
        yield TEXT[start : start + (1 << 20)]


async def shown(box: Workspace, path: str | None, *, cwd: str | None = None) -> bytes:
    """What a command of that workspace reads there."""
    assert path is not None
    return (await box.run(["cat", path], cwd=cwd)).stdout


@pytest.mark.parametrize("policy", [Policy(readonly=True), Policy(readonly=True, enforce="wall")])
async def test_a_readonly_box_keeps_what_it_is_given(home: Path, policy: Policy) -> None:
    async with opened("bubblewrap", home) as runtime, open_in(runtime, rules=WorkspaceOptions(policy=policy)) as box:
        path = await box.keep("all.txt", text, beside="/mnt/data/outputs")

        assert path == f"{HOME}/{KEPT}/all.txt"
        assert await shown(box, path) == TEXT
        assert await box.files.list() == []


@pytest.mark.parametrize("name", NAMES)
async def test_it_lies_beside_the_files_where_they_may_be_written(name: str, home: Path) -> None:
    async with opened(name, home) as runtime, open_in(runtime) as box:
        path = await box.keep("all.txt", text, beside="/mnt/data/outputs")

        assert path == f"{box.places.data}/outputs/all.txt"
        assert await shown(box, path) == TEXT


@pytest.mark.parametrize("name", ["local", "bubblewrap"])
async def test_where_the_boxs_files_take_none_its_temporary_directory_does(name: str, home: Path) -> None:
    async with opened(name, home) as runtime, open_in(runtime) as box:
        await box.run("echo mine > ~/.limpet; echo mine > outputs")
        path = await box.keep("all.txt", text, beside="/mnt/data/outputs")

        assert path is not None
        assert not path.startswith(box.places.home)
        assert await shown(box, path) == TEXT
        assert (await box.run("cat ~/.limpet outputs; rm -- " + path)).stdout == b"mine\nmine\n"


async def test_a_policy_that_leaves_no_program_in_the_box_loses_no_byte_of_it(home: Path) -> None:
    data = b"\\c\\0%\n" * 20_000 + bytes(range(256)) * 1_000 + b"\0"

    async def bytes_of_all_values() -> AsyncIterator[bytes]:
        yield data[:100_001]
        yield data[100_001:]

    only_tail = WorkspaceOptions(policy=Policy(allowed_commands=frozenset({"tail"})))
    async with opened("bubblewrap", home) as runtime, open_in(runtime, rules=only_tail) as box:
        await box.files.write(f"{HOME}/.limpet", b"mine")
        path = await box.keep("all.bin", bytes_of_all_values)

        assert path == "/tmp/all.bin"
        assert (await box.run(["tail", "-c", "+1", path])).stdout == data


async def test_a_link_that_waits_there_leads_it_nowhere(home: Path) -> None:
    async with opened("bubblewrap", home) as runtime, open_in(runtime) as box:
        await box.run("echo mine | tee ~/.limpet precious; ln -s /mnt/data/precious /tmp/all.txt")

        assert await box.keep("all.txt", text) is None
        assert (await box.run("cat precious")).stdout == b"mine\n"


async def test_a_view_that_is_held_to_another_directory_can_read_what_was_kept_for_it(home: Path) -> None:
    async with opened("bubblewrap", home) as runtime, open_in(runtime) as box:
        await box.files.write("project/note", b"")
        view = box.guarded(policy=Policy(allowed_paths=(), readonly=True), roots=("/mnt/data/project",))
        path = await view.keep("all.txt", text)

        assert await shown(view, path, cwd="project") == TEXT
        assert path is not None
        assert await view.files.read(path) == TEXT
