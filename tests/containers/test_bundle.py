"""Skills unpacked into a directory: from every archive that a stranger can make, within bounds that hold over all of a request."""

import io
import os
import stat
import struct
import tracemalloc
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from limpet.containers.skill_bundle import MANIFEST, Part, SkillBundle, from_markdown, from_parts, from_zip
from limpet.containers.unpack_budget import MIB, UnpackBudget, UnpackLimits
from limpet.core.errors import RequestInvalid, RequestTooLarge

FRONT = b"---\nname: tables\ndescription: Makes tables.\n---\nUse it.\n"


def zipped(files: dict[str, bytes], *, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", method) as archive:
        for path, data in files.items():
            archive.writestr(zipfile.ZipInfo(path), data, compress_type=method)
    return packed.getvalue()


def sound(**files: bytes) -> dict[str, bytes]:
    return {"tables/SKILL.md": FRONT, **{f"tables/{path}": data for path, data in files.items()}}


def unpack(directory: Path, data: bytes, *, budget: UnpackBudget | None = None) -> SkillBundle:
    directory.mkdir(parents=True)
    return from_zip(io.BytesIO(data), directory, budget=budget or UnpackBudget())


def test_what_is_unpacked_is_packed_again_the_same_each_time(tmp_path: Path) -> None:
    bundle = unpack(tmp_path / "a", zipped(sound(**{"deep/er/x": b"data", "y": b""})))
    assert [(file.path, file.bytes) for file in bundle.files] == [(MANIFEST, len(FRONT)), ("deep/er/x", 4), ("y", 0)]
    first, second = io.BytesIO(), io.BytesIO()
    bundle.pack(first)
    unpack(tmp_path / "b", first.getvalue()).pack(second)
    assert first.getvalue() == second.getvalue()


def test_boxes_may_read_it_whatever_the_mask_of_the_process_is(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        unpack(tmp_path / "a", zipped(sound(**{"deep/x": b""})))
    finally:
        os.umask(before)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "a").rglob("*")}
    assert modes == {"SKILL.md": 0o644, "deep": 0o755, "x": 0o644}


class Zip:
    """A zip by hand: what zipfile would not write."""

    def __init__(self) -> None:
        self.data = b""
        self.directory = b""
        self.count = 0

    def local(self, name: bytes, content: bytes, *, size: int | None = None) -> int:
        """A local header with its content, deflated; where it begins."""
        packed = deflated(content)
        at = len(self.data)
        self.data += struct.pack(
            "<4s5H3L2H", b"PK\x03\x04", 20, 0, 8, 0, 33, zlib.crc32(content), len(packed), size or len(content), len(name), 0
        )  # fmt: skip
        self.data += name + packed
        return at

    def listed(self, name: bytes, content: bytes, at: int, *, packed: int | None = None, flags: int = 0) -> None:
        length = len(deflated(content)) if packed is None else packed
        self.directory += struct.pack(
            "<4s6H3L5H2L", b"PK\x01\x02", 20, 20, flags, 8, 0, 33, zlib.crc32(content), length, len(content), len(name),
            0, 0, 0, 0, 0, at,
        )  # fmt: skip
        self.directory += name
        self.count += 1

    def end(self, *, count: int | None = None, directory: int | None = None, before: bytes = b"") -> bytes:
        count = self.count if count is None else count
        size = len(self.directory) if directory is None else directory
        record = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, count, count, size, len(self.data), 0)
        return self.data + self.directory + before + record


def deflated(content: bytes) -> bytes:
    compress = zlib.compressobj(9, zlib.DEFLATED, -15)
    return compress.compress(content) + compress.flush()


def with_manifest() -> Zip:
    made = Zip()
    made.listed(b"tables/SKILL.md", FRONT, made.local(b"tables/SKILL.md", FRONT))
    return made


def same_block() -> bytes:
    """One compressed block, listed many times (overlapping entries)."""
    made = with_manifest()
    at = made.local(b"tables/0", bytes(MIB))
    for number in range(100):
        made.listed(b"tables/%d" % number, bytes(MIB), at)
    return made.end()


def quoted() -> bytes:
    """Each entry's content covers the local headers behind it (Fifield's quoted overlap)."""
    made = with_manifest()
    begins = [made.local(b"tables/%d" % number, bytes(MIB)) for number in range(50)]
    end = len(made.data)
    for number, at in enumerate(begins):
        made.listed(b"tables/%d" % number, bytes(MIB), at, packed=end - at - 30 - len(b"tables/%d" % number))
    return made.end()


def zip64() -> bytes:
    made = with_manifest()
    end = struct.pack("<4sQ2H2L4Q", b"PK\x06\x06", 44, 45, 45, 0, 0, 1, 1, len(made.directory), len(made.data))
    locator = struct.pack("<4sLQL", b"PK\x06\x07", 0, len(made.data) + len(made.directory), 1)
    return made.end(before=end + locator)


def lying_size() -> bytes:
    made = with_manifest()
    at = made.local(b"tables/x", b"a" * 100)
    made.listed(b"tables/x", b"b" * 10, at, packed=len(deflated(b"a" * 100)))
    return made.end()


def named(*names: bytes, flags: int = 0) -> bytes:
    made = with_manifest()
    for name in names:
        made.listed(name, b"x", made.local(name, b"x"), flags=flags)
    return made.end()


def split() -> bytes:
    data = bytearray(with_manifest().end())
    data[-18] = 1  # the number of this disk
    return bytes(data)


@pytest.mark.parametrize(
    "data, problem",
    [
        (same_block(), "overlap"),
        (quoted(), "overlap"),
        (zip64(), "zip64"),
        (with_manifest().end(count=0xFFFF), "zip64"),
        (with_manifest().end(directory=0xFFFFFFFF), "zip64"),
        (split(), "several parts"),
        (lying_size(), "cannot be read"),
        (named(b"tables/a", flags=1), "encrypted"),
        (named(b"tables/a", flags=0x40), "encrypted"),
        (named(b"tables/a\0.sh"), "cannot be a path"),
        (named(b"tables/a", b"tables/a"), "same path"),
        (named(b"tables/A", b"tables/a"), "same path"),
        (named("tables/é".encode(), "tables/e\u0301".encode(), flags=0x800), "same path"),
        (named("tables/straße".encode(), b"tables/STRASSE", flags=0x800), "same path"),
        (named(b"tables/a", b"tables/a/b"), "same path"),
        (named("tables/\u202eexe.sh".encode(), flags=0x800), "cannot be a path"),
        (named(b"tables/\xff", flags=0x800), "cannot be read"),
        (named(b"tables/skill.MD"), "2 files named|same path"),
        (with_manifest().end()[:-1], "cannot be read|no end"),
        (b"PK\x05\x06", "no end"),
        (b"", "no end"),
    ],
)  # fmt: skip
def test_an_archive_that_lies_is_refused(tmp_path: Path, data: bytes, problem: str) -> None:
    with pytest.raises(RequestInvalid, match=problem) as refused:
        unpack(tmp_path / "a", data)
    assert refused.value.code == "invalid_skill"


def test_a_large_directory_is_refused_before_it_is_read(tmp_path: Path) -> None:
    one = struct.pack("<4s6H3L5H2L", b"PK\x01\x02", 20, 20, 0, 8, 0, 33, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0) + b"a"
    directory = one * ((49 * MIB) // len(one))
    archives = {}
    for count in (1, 1000):  # the number of entries is a claim like any other
        archives[count] = directory + struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, count, count, len(directory), 0, 0)
    tracemalloc.start()
    try:
        for count, data in archives.items():
            with pytest.raises(RequestTooLarge, match="allowed"):
                unpack(tmp_path / str(count), data)
        assert tracemalloc.get_traced_memory()[1] < 60 * MIB  # the copy of 49 MiB in BytesIO, and next to nothing
    finally:
        tracemalloc.stop()


def test_all_archives_of_a_request_share_one_bound_and_nothing_is_held_in_memory(tmp_path: Path) -> None:
    data = zipped(sound(zeros=bytes(20 * MIB)))
    assert len(data) < 100_000
    budget = UnpackBudget()
    tracemalloc.start()
    try:
        with pytest.raises(RequestTooLarge, match="209715200 bytes"):
            for number in range(200):
                unpack(tmp_path / str(number), data, budget=budget)
        assert tracemalloc.get_traced_memory()[1] < 8 * MIB
    finally:
        tracemalloc.stop()
    assert sum(file.stat().st_size for file in tmp_path.rglob("*") if file.is_file()) <= 201 * MIB


def test_files_directories_and_time_have_bounds_too(tmp_path: Path) -> None:
    many = zipped(sound(**{f"{number}/x": b"" for number in range(100)}))
    with pytest.raises(RequestTooLarge, match="150 files"):
        unpack(tmp_path / "a", many, budget=UnpackBudget(UnpackLimits(max_files=150)))
    ticks: Iterator[int] = iter(range(10_000))
    slow = UnpackBudget(UnpackLimits(seconds=50), monotonic=lambda: next(ticks))
    with pytest.raises(RequestTooLarge, match="50 s"):
        unpack(tmp_path / "b", many, budget=slow)


@pytest.mark.parametrize("name", ["12:30:45", "yes", "!!timestamp x", "0x" + "f" * 6000, "[a]", "{a: b}", "&a b", "~"])
@pytest.mark.parametrize("field", ["name", "description"])
def test_a_field_that_is_not_text_is_refused_in_words(tmp_path: Path, field: str, name: str) -> None:
    other = "description: d" if field == "name" else "name: tables"
    manifest = f"---\n{field}: {name}\n{other}\n---\n".encode()
    with pytest.raises(RequestInvalid) as refused:
        unpack(tmp_path / "a", zipped({"tables/SKILL.md": manifest}))
    assert refused.value.code == "invalid_skill"
    assert len(str(refused.value)) < 300


def test_parts_are_moved_and_held_to_the_same(tmp_path: Path) -> None:
    def part(path: str, data: bytes) -> Part:
        file = tmp_path / str(len(list(tmp_path.iterdir())))
        file.write_bytes(data)
        return Part(path=path, file=file)

    into = tmp_path / "into"
    into.mkdir()
    bundle = from_parts(
        [part("tables/SKILL.md", FRONT), part("tables/bin/run", b"#!/bin/sh\n")], into, budget=UnpackBudget()
    )
    assert [(file.path, file.is_program) for file in bundle.files] == [(MANIFEST, False), ("bin/run", True)]
    for paths in (["tables/../x"], ["/tables/x"], ["tables/x", "tables/X"], ["other/x"], ["x"], ["tables/a\0"]):
        with pytest.raises(RequestInvalid):
            from_parts(
                [part("tables/SKILL.md", FRONT), *(part(path, b"") for path in paths)], into, budget=UnpackBudget()
            )


def test_markdown_is_one_file_and_its_own_front_matter_does_not_count(tmp_path: Path) -> None:
    bundle = from_markdown(
        b"---\nname: &a [*a, !!x]\n---\n# Use\n",
        tmp_path,
        name="n",
        description="yes: it's",
        budget=UnpackBudget(),
        param="skills",
    )
    assert (bundle.directory / MANIFEST).read_text() == "---\nname: n\ndescription: 'yes: it''s'\n---\n# Use\n"
    with pytest.raises(RequestInvalid, match="control characters"):
        from_markdown(b"x", tmp_path, name="n", description="a\0b", budget=UnpackBudget(), param="skills")
