"""How much a box's files take up, and what becomes of commands that fill the disk."""

import os
from pathlib import Path

from limpet.runtimes.bubblewrap.disk import used_by

_MIB = 1 << 20


def _use(*directories: Path) -> int:
    return used_by(directories)


def test_allocated_blocks_count_not_sizes_and_each_file_once(tmp_path: Path) -> None:
    empty = _use(tmp_path)
    (tmp_path / "full").write_bytes(b"x" * _MIB)
    os.link(tmp_path / "full", tmp_path / "again")
    (tmp_path / "link").symlink_to("/usr")
    with (tmp_path / "holes").open("wb") as file:
        file.truncate(1 << 30)

    assert _MIB <= _use(tmp_path) - empty < _MIB + (64 << 10)


def test_a_file_that_two_directories_share_counts_once(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    (tmp_path / "a/f").write_bytes(b"x" * _MIB)
    os.link(tmp_path / "a/f", tmp_path / "b/f")

    assert _use(tmp_path / "a", tmp_path / "b") < 2 * _MIB


def test_a_file_without_a_name_counts_while_a_process_holds_it(tmp_path: Path) -> None:
    with (tmp_path / "gone").open("wb", buffering=0) as file:
        file.write(b"x" * _MIB)
        os.unlink(tmp_path / "gone")
        held = used_by([tmp_path], [os.getpid()])

    assert held - used_by([tmp_path], [os.getpid()]) >= _MIB


def test_no_depth_hides_anything(tmp_path: Path) -> None:
    directory = os.open(tmp_path, os.O_RDONLY)
    name = "d" * 200
    for _ in range(200):
        os.mkdir(name, dir_fd=directory)
        below = os.open(name, os.O_RDONLY, dir_fd=directory)
        os.close(directory)
        directory = below
    file = os.open("f", os.O_WRONLY | os.O_CREAT, dir_fd=directory)
    os.write(file, b"x" * _MIB)
    os.close(file)
    os.close(directory)
    (tmp_path / "beside").write_bytes(b"x" * _MIB)

    assert _use(tmp_path) >= 2 * _MIB


def test_a_directory_that_is_not_there_counts_nothing(tmp_path: Path) -> None:
    assert _use(tmp_path / "none") == 0
