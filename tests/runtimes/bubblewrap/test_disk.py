"""How much a box's files take up, and what becomes of commands that fill the disk."""

import mmap
import os
import socket
from pathlib import Path

from limpet.runtimes.bubblewrap.disk import used_by

_MIB = 1 << 20


def _use(*directories: Path) -> int:
    return used_by(directories).bytes


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
        held = used_by([tmp_path], [os.getpid()]).bytes

    assert held - used_by([tmp_path], [os.getpid()]).bytes >= _MIB


def test_descriptors_that_are_under_way_through_a_socket_are_noticed(tmp_path: Path) -> None:
    sender, receiver = socket.socketpair(socket.AF_UNIX)
    with sender, receiver, (tmp_path / "sent").open("wb") as file:
        before = used_by([tmp_path], [os.getpid()]).hidden
        socket.send_fds(sender, [b"x"], [file.fileno()] * 3)
        waiting = used_by([tmp_path], [os.getpid()]).hidden
        for descriptor in socket.recv_fds(receiver, 1, 3)[1]:
            os.close(descriptor)
        after = used_by([tmp_path], [os.getpid()]).hidden

    assert (before, waiting, after) == (0, 3, 0)


def test_what_is_mapped_without_a_name_is_noticed(tmp_path: Path) -> None:
    before = used_by([tmp_path], [os.getpid()]).hidden
    with (tmp_path / "gone").open("wb+") as file:
        file.truncate(_MIB)
        mapped = mmap.mmap(file.fileno(), _MIB)
    named = used_by([tmp_path], [os.getpid()]).hidden
    os.unlink(tmp_path / "gone")
    held = used_by([tmp_path], [os.getpid()]).hidden
    mapped.close()

    assert (before, named, held, used_by([tmp_path], [os.getpid()]).hidden) == (0, 0, 1, 0)


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
