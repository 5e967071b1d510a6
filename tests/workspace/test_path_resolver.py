"""Where paths lead, asked in the box."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from limpet.core.errors import CommandDenied
from limpet.guard.policy.policy import Policy
from limpet.workspace.opening import open_in
from limpet.workspace.path_resolver import PathResolver
from limpet.workspace.workspace import Workspace
from tests.support.homes import short_home
from tests.support.runtimes import opened

pytestmark = pytest.mark.anyio

# Outside the box's own places, and where commands run on the host another's too: one for each process of tests.
APART = f"/tmp/limpet-places-{os.getpid()}"
LINKS = f"""
mkdir -p sub/deep {APART}; echo > sub/file
ln -s sub inner; ln -s sub/deep/../file hops; ln -s /etc out; ln -s out/passwd twice; ln -s loop loop
ln -s ../../../.. up; ln -s nowhere/at/all dangling; ln -s "$PWD/sub" absolute
ln -sfn /etc {APART}/etc; ln -s file sub/link
"""


@pytest.fixture(scope="module", params=["local", "bubblewrap"])
async def box(request: pytest.FixtureRequest, anyio_backend: str) -> AsyncIterator[Workspace]:
    with short_home() as home:
        async with opened(request.param, home) as runtime, open_in(runtime) as workspace:
            try:
                made = await workspace.run(LINKS)
                assert made.exit_code == 0, made.stderr
                yield workspace
            finally:
                await workspace.run(f"rm -r {APART}")


@pytest.mark.parametrize(
    "path, leads",
    [
        ("sub/file", "{data}/sub/file"),
        ("sub/../sub/./file", "{data}/sub/file"),
        ("new/file", "{data}/new/file"),
        ("inner/file", "{data}/sub/file"),
        ("inner/new/file", "{data}/sub/new/file"),
        ("inner/deep/../file", "{data}/sub/file"),
        ("absolute/file", "{data}/sub/file"),
        ("hops", "{data}/sub/file"),
        ("dangling", "{data}/nowhere/at/all"),
        ("dangling/../x", "{data}/nowhere/at/x"),
        ("out", "/etc"),
        ("out/passwd", "/etc/passwd"),
        ("twice", "/etc/passwd"),
        ("out/../x", "/x"),
        ("../../../../../etc/passwd", "/etc/passwd"),
        ("/etc/../etc//passwd", "/etc/passwd"),
        ("{apart}/etc/passwd", "/etc/passwd"),
        ("{apart}/new/file", "{apart}/new/file"),
        ("sub/file/below", "{data}/sub/file/below"),
        ("{home}/x", "{home}/x"),
        ("{data}", "{data}"),
        ("/", "/"),
        ("loop", None),
        ("loop/x", None),
    ],
)
async def test_links_are_seen_and_what_is_missing_keeps_its_name(box: Workspace, path: str, leads: str | None) -> None:
    places = box.places
    names = {"data": places.data, "home": places.home, "apart": APART}

    found = await PathResolver(box._shell.sandbox, places)(path.format(**names))

    assert found == (None if leads is None else leads.format(**names))


async def test_the_kernel_agrees(box: Workspace) -> None:
    paths = ["sub/file", "inner/deep/../file", "twice", "out/../x", "dangling", "up", f"{APART}/etc/passwd"]
    said = await box.run(["realpath", "-m", "--", *paths])

    assert [
        await PathResolver(box._shell.sandbox, box.places)(path) for path in paths
    ] == said.stdout.decode().splitlines()


async def test_the_links_in_a_directory_are_named(box: Workspace) -> None:
    resolver = PathResolver(box._shell.sandbox, box.places)

    assert set(await resolver.links("sub") or ()) == {"link"}
    assert await resolver.links("nowhere") == ()
    assert await resolver.links("sub/file") == ()
    assert set(await resolver.links(APART) or ()) == {"etc"}


async def test_a_pattern_does_not_follow_a_planted_link_out(box: Workspace) -> None:
    await box.run("mkdir -p plain planted; echo in > plain/a.txt; ln -sf /etc/passwd planted/p.txt")
    confined = box.guarded(policy=Policy(allowed_paths=()))

    assert (await confined.run("cat plain/*.txt")).stdout == b"in\n"
    if box.ref.runtime == "bubblewrap":  # the kernel confines it: the pattern leads to the box's own file
        shown = (await confined.run("cat planted/*.txt")).stdout
        assert shown == (await box.run("cat /etc/passwd")).stdout != Path("/etc/passwd").read_bytes()
        return
    with pytest.raises(CommandDenied, match="outside"):
        await confined.run("cat planted/*.txt")
