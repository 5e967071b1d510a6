"""Files of an image that say more than any program needs are read up to a bound."""

import struct
from pathlib import Path

from limpet.runtimes.elf import Tree, needs_of


def test_one_dynamic_section_is_read_and_not_all_of_a_long_one(tmp_path: Path) -> None:
    head = b"\x7fELF\2\1\1" + bytes(9) + struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, 0, 0, 64, 56, 3, 0, 0, 0)
    names, first, more = 64 + 3 * 56, 512, 512 + 16 * 3
    segments = [(1, 0, 0, 1 << 20), (2, first, first, 1 << 18), (2, more, more, 16)]
    table = b"".join(
        struct.pack("<IIQQQQQQ", kind, 4, at, begin, 0, size, size, 1) for kind, at, begin, size in segments
    )
    said = struct.pack("<qQqQqQ", 5, names, 1, 1, 0, 0)
    late = struct.pack("<qQ", 1, 7)
    content = (head + table + b"\0one.so\0").ljust(first, b"\0") + said
    content = content.ljust(first + 5000 * 16, b"\0") + late
    (tmp_path / "x").write_bytes(content.ljust(1 << 20, b"\0"))

    assert needs_of(tmp_path / "x").libraries == ("one.so",)


def test_what_tells_of_libraries_is_read_up_to_its_bound(tmp_path: Path) -> None:
    for name in ("etc", "near", "far"):
        (tmp_path / name).mkdir()
    (tmp_path / "etc/ld.so.conf").write_text("/near\n" + "# and more\n" * 10_000 + "/far\n")

    assert Tree(tmp_path).libraries == ("/near",)
