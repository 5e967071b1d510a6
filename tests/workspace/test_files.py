"""A workspace's files, on every runtime: whole operations, bounds, searches, and what a policy refuses."""

from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from limpet.core.errors import (
    EditFailed,
    FileDenied,
    FileMissing,
    FileTooLarge,
    NotADirectory,
    PathOutside,
    PatternInvalid,
)
from limpet.guard.policy.policy import Policy
from limpet.workspace.files import WorkspaceFiles
from limpet.workspace.opening import WorkspaceOptions, open_in
from limpet.workspace.search import Match, SearchBounds
from limpet.workspace.workspace import Workspace
from tests.support.runtimes import NAMES, opened, workspace_on

pytestmark = pytest.mark.anyio

MOST = 5.0


@pytest.fixture(params=NAMES)
async def box(request: pytest.FixtureRequest, home: Path) -> AsyncIterator[Workspace]:
    async with workspace_on(request.param, home) as workspace:
        yield workspace


@pytest.fixture
def files(box: Workspace) -> WorkspaceFiles:
    return box.files


async def paths(files: WorkspaceFiles, pattern: str, root: str = "/mnt/data") -> list[str]:
    return [one.path.removeprefix("/mnt/data/") for one in (await files.glob(pattern, root=root)).paths]


# --- whole operations ----------------------------------------------------------------------------------------------


async def test_ranges_are_read_and_too_much_is_refused(files: WorkspaceFiles) -> None:
    await files.write("digits", b"0123456789")

    assert await files.read("digits", start=2, length=3) == b"234"
    with pytest.raises(FileTooLarge, match="10 bytes"):
        await files.read("digits", limit=9)


async def test_a_read_is_bounded_unless_somebody_means_it(home: Path) -> None:
    async with opened("local", home) as runtime, open_in(runtime) as box:
        await box.files.write("big", bytes(11 << 20))

        with pytest.raises(FileTooLarge):
            await box.files.read("big")
        assert len(await box.files.read("big", limit=None)) == 11 << 20


@pytest.mark.parametrize("length", [None, 2 << 30])
async def test_of_a_sparse_file_no_more_comes_back_than_a_bound_also_without_a_limit(
    home: Path, length: int | None
) -> None:
    async with opened("local", home) as runtime, open_in(runtime) as box:
        assert (await box.run("printf begun > sparse; truncate -s 8T sparse")).exit_code == 0

        with pytest.raises(FileTooLarge, match=r"the limit is 1073741824\. Read a range"):
            await box.files.read("sparse", limit=None, length=length)
        with pytest.raises(FileTooLarge, match="the limit is 1073741824"):
            await box.files.append("sparse", b"x", limit=None)
        assert await box.files.read("sparse", limit=None, length=6) == b"begun\0"
        assert await box.files.read("sparse", limit=None, start=(8 << 40) - 1) == b"\0"


async def test_too_much_to_write_changes_nothing(files: WorkspaceFiles) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        yield b"12345"
        yield b"67890"

    await files.write("file", b"before")
    for data in (b"1234567890", pieces()):
        with pytest.raises(FileTooLarge):
            await files.write("file", data, limit=9)

    assert await files.read("file") == b"before"
    assert [one.path for one in await files.list()] == ["/mnt/data/file"]


async def test_appending_makes_the_file_and_keeps_its_mode(files: WorkspaceFiles) -> None:
    await files.append("deep/log", b"one\n")
    await files.write("script", b"#!/bin/sh\n", mode=0o755)
    await files.append("script", b"echo hi\n")

    assert await files.read("script") == b"#!/bin/sh\necho hi\n"
    assert (await files.stat("script")).mode == 0o755
    assert await files.read("deep/log") == b"one\n"
    with pytest.raises(FileTooLarge):
        await files.append("script", b"x", limit=18)


async def test_appends_at_once_lose_none(files: WorkspaceFiles) -> None:
    async with anyio.create_task_group() as tasks:
        for number in range(10):
            tasks.start_soon(files.append, "log", b"%d\n" % number)

    assert sorted((await files.read("log")).split()) == [b"%d" % number for number in range(10)]


async def test_an_edit_replaces_what_stands_there_once(files: WorkspaceFiles) -> None:
    await files.write("code", "x = 1\ny = 1\nä = 2\n".encode(), mode=0o755)

    await files.edit("code", "x = 1", "x = 3")
    await files.edit("code", "ä", "z")

    assert await files.read("code") == b"x = 3\ny = 1\nz = 2\n"
    assert (await files.stat("code")).mode == 0o755


@pytest.mark.parametrize(
    "old, problem", [("nowhere", "is not in it"), ("= 1", "stands in it 2 times"), ("", "nothing to look for")]
)
async def test_an_edit_that_is_not_clear_changes_nothing(files: WorkspaceFiles, old: str, problem: str) -> None:
    await files.write("code", b"x = 1\ny = 1\n")

    with pytest.raises(EditFailed, match=problem):
        await files.edit("code", old, "new")

    assert await files.read("code") == b"x = 1\ny = 1\n"


async def test_an_edit_everywhere_replaces_all(files: WorkspaceFiles) -> None:
    await files.write("code", b"x = 1\ny = 1\n")

    await files.edit("code", "= 1", "= 2", everywhere=True)

    assert await files.read("code") == b"x = 2\ny = 2\n"


async def test_directories_are_made_and_everything_is_removed(files: WorkspaceFiles) -> None:
    assert (await files.mkdir("a/b")).kind == "directory"
    await files.write("a/b/file", b"x")
    with pytest.raises(NotADirectory):
        await files.mkdir("a/b/file")

    await files.remove("a")

    assert await files.list() == []
    with pytest.raises(FileMissing):
        await files.remove("a")


async def test_a_list_may_be_bounded(files: WorkspaceFiles) -> None:
    for name in "cab":
        await files.write(f"d/{name}", b"")

    assert [one.path for one in await files.list("d", limit=2)] == ["/mnt/data/d/a", "/mnt/data/d/b"]
    assert len(await files.list(recursive=True)) == 4


# --- searches ------------------------------------------------------------------------------------------------------


async def plant(files: WorkspaceFiles) -> None:
    for path in ("top.py", "src/a.py", "src/b.txt", "src/deep/er/c.py", "src/.hidden.py", "docs/x[1].md"):
        await files.write(path, path.encode() + b"\nimport os\n")


@pytest.mark.parametrize(
    "pattern, found",
    [
        ("*.py", ["top.py"]),
        ("**/*.py", ["src/.hidden.py", "src/a.py", "src/deep/er/c.py", "top.py"]),
        ("src/*", ["src/.hidden.py", "src/a.py", "src/b.txt", "src/deep"]),
        ("src/**", ["src/.hidden.py", "src/a.py", "src/b.txt", "src/deep", "src/deep/er", "src/deep/er/c.py"]),
        ("src/[!a].txt", ["src/b.txt"]),
        ("{top,src/a}.py", ["src/a.py", "top.py"]),
        ("src/?.*", ["src/a.py", "src/b.txt"]),
        ("docs/x[[]1].md", ["docs/x[1].md"]),
        ("src/a.py", ["src/a.py"]),
        ("/mnt/data/src/deep/**/*.py", ["src/deep/er/c.py"]),
        ("nowhere/*", []),
        ("nowhere", []),
    ],
)
async def test_names_are_found(files: WorkspaceFiles, pattern: str, found: list[str]) -> None:
    await plant(files)

    assert await paths(files, pattern) == found


async def test_a_glob_says_when_there_is_more(files: WorkspaceFiles) -> None:
    await plant(files)

    found = await files.glob("**/*.py", bounds=SearchBounds(results=2))

    assert ([one.path for one in found.paths], found.complete) == (
        ["/mnt/data/src/.hidden.py", "/mnt/data/src/a.py"],
        False,
    )
    assert found.note == "These are the first 2; there are more. Ask for something narrower."


async def test_a_search_ends_when_its_time_is_over(files: WorkspaceFiles) -> None:
    for number in range(30):
        await files.write(f"d{number}/file", b"text\n")

    for found in (
        await files.glob("**", bounds=SearchBounds(seconds=0)),
        await files.grep("text", bounds=SearchBounds(seconds=0)),
    ):
        assert not found.complete
        assert "stopped after 0 s" in found.note


async def test_lines_are_found_with_their_numbers(files: WorkspaceFiles) -> None:
    await files.write("a.txt", b"one\r\nTwo words\n\nthree Two")
    await files.write("sub/b.md", b"two\n")

    found = await files.grep(r"\bTwo\b")
    either = await files.grep("^two", ignore_case=True)

    assert found.matches == (
        Match(path="/mnt/data/a.txt", line=2, text=b"Two words"),
        Match(path="/mnt/data/a.txt", line=4, text=b"three Two"),
    )
    assert [(one.path, one.line) for one in either.matches] == [("/mnt/data/a.txt", 2), ("/mnt/data/sub/b.md", 1)]
    assert found.complete


async def test_what_is_searched_can_be_narrowed(files: WorkspaceFiles) -> None:
    await plant(files)

    async def where(**options: str) -> list[str]:
        return [one.path.removeprefix("/mnt/data/") for one in (await files.grep("import", **options)).matches]  # type: ignore[arg-type]

    assert await where(include="*.txt") == ["src/b.txt"]
    assert await where(root="src", include="deep/**") == ["src/deep/er/c.py"]
    assert await where(root="src/a.py") == ["src/a.py"]
    with pytest.raises(FileMissing, match="nowhere"):
        await where(root="nowhere")


async def test_binary_files_are_left_out_and_large_ones_named(files: WorkspaceFiles) -> None:
    await files.write("binary", b"\0word\n")
    await files.write("large", b"word\n" * 100)
    await files.write("bytes", b"\xff\xfe word\n")

    found = await files.grep("word", bounds=SearchBounds(file_size=100))

    assert [(one.path, one.text) for one in found.matches] == [("/mnt/data/bytes", b"\xff\xfe word")]
    assert found.skipped == ("/mnt/data/large",)


async def test_a_grep_says_when_there_is_more(files: WorkspaceFiles) -> None:
    await files.write("many", b"word\n" * 5)

    found = await files.grep("word", bounds=SearchBounds(results=3))

    assert ([one.line for one in found.matches], found.complete) == ([1, 2, 3], False)


@pytest.mark.parametrize("pattern", ["(open", r"(a)\1", "(?=look)", "\ud800"])
async def test_a_pattern_that_re2_does_not_know_is_told(files: WorkspaceFiles, pattern: str) -> None:
    with pytest.raises(PatternInvalid, match=r"RE2's: no look-around and no back-references"):
        await files.grep(pattern)


async def test_a_pattern_that_makes_others_stand_still_takes_no_time(files: WorkspaceFiles) -> None:
    await files.write("a", b"a" * 5_000 + b"!\n")

    with anyio.fail_after(MOST):
        assert (await files.grep("(a+)+$")).matches == ()
        assert await paths(files, "a*" * 30 + "b") == []


async def test_no_search_follows_a_link_out(box: Workspace) -> None:
    await box.run("mkdir sub; echo inside > sub/file; ln -s /etc out; ln -s /etc/passwd passwd; ln -s /etc sub/etc")

    assert await paths(box.files, "**/passwd") == ["passwd"]
    assert (await box.files.grep("root")).matches == ()
    assert await paths(box.files, "out/*") == []
    with pytest.raises(PathOutside):
        await box.files.grep("root", root="out")


# --- what a policy refuses -----------------------------------------------------------------------------------------


async def test_a_readonly_policy_refuses_every_change(home: Path) -> None:
    async with (
        opened("memory", home) as runtime,
        open_in(runtime, rules=WorkspaceOptions(policy=Policy(readonly=True))) as box,
    ):
        files = box.files
        for change in (
            lambda: files.write("a", b""),
            lambda: files.append("a", b""),
            lambda: files.edit("a", "a", "b"),
            lambda: files.mkdir("a"),
            lambda: files.remove("a"),
        ):
            with pytest.raises(FileDenied, match=r"a cannot be changed.*rule: readonly"):
                await change()
        assert await files.list() == []


async def test_a_view_sees_only_its_own_roots(home: Path) -> None:
    async with opened("memory", home) as runtime, open_in(runtime) as box:
        await plant(box.files)
        view = box.guarded(policy=Policy(allowed_paths=()), roots=("/mnt/data/src",)).files

        with pytest.raises(FileDenied, match=r"top.py is outside /mnt/data/src.*allowed_paths"):
            await view.read("top.py")
        with pytest.raises(FileDenied):
            await view.read("src/../top.py")
        assert await view.read("src/b.txt") == b"src/b.txt\nimport os\n"
        assert len((await view.glob("**", root="src")).paths) == 6


async def test_places_for_credentials_are_closed_unless_they_are_configured(home: Path) -> None:
    async with opened("memory", home) as runtime, open_in(runtime) as box:
        await box.files.write("/home/agent/.ssh/id", b"key\n")
        await box.files.write("/home/agent/.config/gh/hosts.yml", b"key\n")
        confined = box.guarded(policy=Policy(allowed_paths=())).files
        opened_up = box.guarded(policy=Policy(allowed_paths=(), credential_paths_too=True)).files

        for path in ("/home/agent/.ssh/id", "/home/agent/.config/gh/hosts.yml"):
            with pytest.raises(FileDenied, match="place for credentials"):
                await confined.read(path)
            assert await opened_up.read(path) == b"key\n"
        assert (await confined.grep("key", root="/home/agent")).matches == ()
        assert await confined.list("/home/agent") == [
            one for one in await box.files.list("/home/agent") if not one.path.endswith(".ssh")
        ]


async def test_files_in_which_commands_find_orders_are_left_alone_where_commands_are_held_to_a_list(home: Path) -> None:
    async with opened("memory", home) as runtime, open_in(runtime) as box:
        strict = box.guarded(policy=Policy(allowed_commands=frozenset({"git"}))).files
        await box.files.write("repo/.git/config", b"")

        for path in ("repo/.git/config", "/home/agent/.bashrc", ".gitconfig"):
            with pytest.raises(FileDenied, match=r"find orders there.*allowed_commands"):
                await strict.write(path, b"[alias]\nst = !id\n")
        assert await strict.read("repo/.git/config") == b""
        await strict.write("repo/file", b"")
        await box.guarded(policy=Policy()).files.write(".bashrc", b"")
