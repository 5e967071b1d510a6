"""The sandbox's files, seen from the host and from inside."""

import secrets
from collections.abc import AsyncIterator

from limpet.core.errors import FileError, FileMissing, FileTooLarge, NotADirectory, NotAFile, PathOutside
from limpet.testing.lab import Lab, expect, raises, same
from limpet.testing.suite import Cases

FILES = Cases()
case = FILES.case

EVERY_BYTE = bytes(range(256)) * 3_000


@case()
async def a_file_is_read_back_as_it_was_written(lab: Lab) -> None:
    found = await lab.box.files.write("/mnt/data/every", EVERY_BYTE)
    same((found.path, found.kind, found.size), ("/mnt/data/every", "file", len(EVERY_BYTE)), "what was written")
    same(await lab.box.files.read("every"), EVERY_BYTE, "the content")


@case()
async def a_file_can_be_written_in_pieces(lab: Lab) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(EVERY_BYTE), 100_000):
            yield EVERY_BYTE[start : start + 100_000]

    await lab.box.files.write("every", pieces())
    same(b"".join([piece async for piece in lab.box.files.stream("every")]), EVERY_BYTE, "the content")


@case()
async def ranges_are_exact_at_both_ends(lab: Lab) -> None:
    files = lab.box.files
    await files.write("digits", b"0123456789")
    found = [await files.read("digits", start=start, length=length) for start, length in ((0, 3), (7, 9), (10, 1))]
    same(found, [b"012", b"789", b""], "three ranges")
    same(await files.read("digits", start=4), b"456789", "from the fifth byte on")
    same(b"".join([piece async for piece in files.stream("digits", start=2, length=3)]), b"234", "a streamed range")


@case()
async def more_than_the_limit_is_refused(lab: Lab) -> None:
    await lab.box.files.write("digits", b"0123456789")
    same(await lab.box.files.read("digits", limit=10), b"0123456789", "at the limit")
    async with raises(FileTooLarge, naming="digits"):
        await lab.box.files.read("digits", limit=9)


@case()
async def writing_again_replaces_the_whole_file(lab: Lab) -> None:
    await lab.box.files.write("file", b"a long first content")
    await lab.box.files.write("file", b"short")
    same(await lab.box.files.read("file"), b"short", "the content")


@case()
async def a_command_sees_a_file_that_was_written(lab: Lab) -> None:
    await lab.box.files.write("deep/er/file", b"from outside", mode=0o755)
    await lab.box.files.write("/home/agent/own", b" and at home")
    same((await lab.run("cat deep/er/file ~/own")).stdout, b"from outside and at home", "what the command reads")


@case()
async def temporary_files_are_the_same_inside_and_outside(lab: Lab) -> None:
    path = f"/tmp/limpet-case-{secrets.token_hex(8)}"
    await lab.box.files.write(f"{path}/in", b"from outside")
    try:
        same(
            (await lab.run(f"cat {path}/in; printf inside > {path}/out")).stdout, b"from outside", "what is read inside"
        )
        same(await lab.box.files.read(f"{path}/out"), b"inside", "what is read outside")
    finally:
        await lab.box.files.delete(path)


@case()
async def a_file_that_a_command_wrote_is_seen_outside_and_by_the_next(lab: Lab) -> None:
    await lab.run("mkdir made; printf inside > made/file")
    same(await lab.box.files.read("/mnt/data/made/file"), b"inside", "what is read outside")
    same((await lab.run("cat made/file")).stdout, b"inside", "what the next command reads")


@case()
async def a_command_may_change_a_file_that_was_written(lab: Lab) -> None:
    await lab.box.files.write("log", b"first\n")
    await lab.run("echo second >> log")
    same(await lab.box.files.read("log"), b"first\nsecond\n", "the content")


@case()
async def odd_names_are_names(lab: Lab) -> None:
    names = ("a b", "-x", ".hidden", "é", "$(id)", "quote'", 'double"', "*", "line\nbreak")
    for name in names:
        await lab.box.files.write(name, name.encode())
    found = [one.path.removeprefix("/mnt/data/") for one in await lab.box.files.list()]
    same(sorted(found), sorted(names), "the names")
    same((await lab.run("cat './-x' 'a b'")).stdout, b"-xa b", "two of them, read by a command")


@case()
async def a_missing_file_is_named(lab: Lab) -> None:
    for ask in (lab.box.files.read, lab.box.files.stat, lab.box.files.list, lab.box.files.delete):
        async with raises(FileMissing, naming="nowhere/file"):
            await ask("nowhere/file")


@case()
async def a_directory_is_not_a_file_nor_a_file_a_directory(lab: Lab) -> None:
    await lab.run("mkdir directory; echo > file")
    async with raises(NotAFile, naming="directory"):
        await lab.box.files.read("directory")
    async with raises(NotAFile, naming="directory"):
        await lab.box.files.write("directory", b"")
    async with raises(NotADirectory, naming="file"):
        await lab.box.files.list("file")


@case()
async def a_list_names_entries_with_kind_and_size(lab: Lab) -> None:
    await lab.run("mkdir -p a/b; printf 123 > a/b/file; printf 1 > top; ln -s top link")
    found = [(one.path, one.kind) for one in await lab.box.files.list()]
    top = [("/mnt/data/a", "directory"), ("/mnt/data/link", "link"), ("/mnt/data/top", "file")]
    same(found, top, "the top level")
    deep = {one.path: one.size for one in await lab.box.files.list(recursive=True) if one.kind == "file"}
    same(deep, {"/mnt/data/a/b/file": 3, "/mnt/data/top": 1}, "all files")


@case()
async def a_directory_is_made_with_its_parents_and_belongs_to_the_commands(lab: Lab) -> None:
    made = await lab.box.files.mkdir("deep/er/place")
    same((made.path, made.kind), ("/mnt/data/deep/er/place", "directory"), "what was made")
    same((await lab.box.files.mkdir("deep/er/place")).kind, "directory", "making it again")
    same(
        (await lab.run("echo inside > deep/er/place/file; cat deep/er/place/file")).stdout, b"inside\n", "a file in it"
    )


@case()
async def a_directory_is_not_made_over_a_file_nor_through_a_link(lab: Lab) -> None:
    await lab.run("echo > file; mkdir -p ~/aim; ln -s ~/aim link")
    async with raises(NotADirectory, naming="file"):
        await lab.box.files.mkdir("file")
    async with raises(PathOutside, naming="link/new"):
        await lab.box.files.mkdir("link/new")
    same((await lab.run("ls ~/aim")).stdout, b"", "where the link leads")


@case()
async def deleting_takes_files_links_and_whole_directories(lab: Lab) -> None:
    await lab.run("mkdir -p tree/b; echo x > tree/b/file; echo kept > kept; ln -s ../kept tree/link; ln -s kept link")
    await lab.box.files.delete("tree")
    await lab.box.files.delete("link")
    same([one.path for one in await lab.box.files.list()], ["/mnt/data/kept"], "what is left")


@case()
async def a_path_that_no_file_can_have_is_refused(lab: Lab) -> None:
    for path in ("a\0b", "\ud800"):
        for ask in (lab.box.files.read, lab.box.files.stat, lab.box.files.mkdir, lab.box.files.delete):
            async with raises(FileError, naming="A path cannot hold"):
                await ask(path)


@case()
async def a_path_outside_the_roots_is_refused(lab: Lab) -> None:
    for path in ("/etc/passwd", "../../etc/passwd", "/mnt/data/../../etc/passwd", "/mnt/database"):
        async with raises(PathOutside, naming=path):
            await lab.box.files.read(path)


@case()
async def a_link_out_of_the_root_is_not_read_through(lab: Lab) -> None:
    await lab.run("ln -s /etc/passwd link; ln -s /etc directory")
    for path in ("link", "directory/passwd"):
        async with raises(PathOutside, naming=path):
            await lab.box.files.read(path)
    async with raises(PathOutside, naming="directory"):
        await lab.box.files.list("directory")


@case()
async def a_link_out_of_the_root_is_not_written_through(lab: Lab) -> None:
    await lab.run("mkdir -p ~/aim; echo untouched > ~/aim/file; ln -s ~/aim aim")
    async with raises(PathOutside, naming="aim/file"):
        await lab.box.files.write("aim/file", b"changed")
    async with raises(PathOutside, naming="aim/file"):
        await lab.box.files.delete("aim/file")
    same((await lab.run("cat ~/aim/file")).stdout, b"untouched\n", "the file that the link leads to")


@case()
async def a_links_own_facts_are_told(lab: Lab) -> None:
    await lab.run("ln -s /etc/passwd link")
    found = await lab.box.files.stat("link")
    same((found.kind, found.target), ("link", "/etc/passwd"), "the kind and where it points")
    expect(all(one.kind == "link" for one in await lab.box.files.list()), "the list should say that it is a link")
