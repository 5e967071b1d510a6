"""Where the paths of commands lead, links and working directories included, under a policy that confines them."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from limpet.core.errors import CommandDenied
from limpet.guard.policy.policy import Policy
from limpet.workspace.opening import SandboxOptions, open_in
from limpet.workspace.workspace import Workspace
from tests.support.runtimes import opened, workspace_on

pytestmark = pytest.mark.anyio

CONFINED = Policy(allowed_paths=())


@pytest.fixture(params=["local", "bubblewrap"])
async def box(request: pytest.FixtureRequest, home: Path) -> AsyncIterator[Workspace]:
    async with workspace_on(request.param, home) as workspace:
        yield workspace


async def test_a_link_out_of_the_roots_is_seen_however_it_is_reached(box: Workspace) -> None:
    await box.run("mkdir sub; echo fine > sub/file; ln -s /etc out; ln -s sub inner; ln -s ../out sub/again")
    view = box.guarded(policy=CONFINED)

    assert (await view.run("cat sub/file inner/file ./sub/../sub/file")).stdout == b"fine\n" * 3
    for command in ("cat out/passwd", "cat sub/again/passwd", "cat inner/again/passwd", "echo x > out/new"):
        with pytest.raises(CommandDenied, match="allowed_paths"):
            await view.run(command)
    with pytest.raises(CommandDenied, match="allowed_paths"):
        await view.run("cat passwd", cwd="out")


async def test_a_link_that_is_made_later_is_seen_by_a_command_that_was_judged_before(box: Workspace) -> None:
    await box.run("mkdir here; echo fine > here/passwd")
    view = box.guarded(policy=CONFINED)
    assert (await view.run("cat here/passwd")).stdout == b"fine\n"

    await box.run("rm -r here; ln -s /etc here")

    with pytest.raises(CommandDenied, match="allowed_paths"):
        await view.run("cat here/passwd")


async def test_a_view_with_roots_of_its_own_judges_from_where_the_command_really_begins(box: Workspace) -> None:
    await box.run("mkdir mine; echo inside > mine/file; echo outside > file")
    mine = box.places.begins("mine")
    view = box.guarded(policy=CONFINED, roots=(mine,))

    assert (await view.run("cat file", cwd="mine")).stdout == b"inside\n"
    assert (await view.run("cat file", cwd=mine)).stdout == b"inside\n"
    for command, cwd in (("cat file", None), ("cat ../file", "mine"), ("cat file", "."), ("cat file", "/tmp")):
        with pytest.raises(CommandDenied, match="allowed_paths"):
            await view.run(command, cwd=cwd)


async def test_relative_paths_count_from_the_real_directory_where_a_runtime_has_no_walls(home: Path) -> None:
    place = home / "deep" / "er" / "kept"
    async with opened("local", home) as runtime, open_in(runtime, "box", SandboxOptions(directory=place)) as box:
        view = box.guarded(policy=CONFINED, roots=(box.places.data, box.places.home))
        assert box.directory == str(place / "data")
        assert (await view.run(f"echo fine > file; cat {place}/data/file")).stdout == b"fine\n"
        for command in ("cat ../../home/agent/x", "cat /mnt/data/file", "ls ../..", f"ls {place}", "ls /tmp"):
            with pytest.raises(CommandDenied, match="allowed_paths"):
                await view.run(command)
        assert await view.files.read("file") == b"fine\n"
