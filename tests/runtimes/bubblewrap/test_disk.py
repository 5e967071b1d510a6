"""How much a box's files take up, and what becomes of commands that fill the disk."""

import mmap
import os
import shutil
import socket
from pathlib import Path

import pytest

from limpet.runtimes.bubblewrap.limits.disk_usage import counting, used_by

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
    """Root can look through the mapping; others only see that there is one."""

    def found() -> tuple[int, int]:
        usage = used_by([tmp_path], [os.getpid()])
        return usage.hidden, round(usage.bytes / _MIB)

    before = found()
    with (tmp_path / "gone").open("wb+") as file:
        file.write(bytes(_MIB))
        file.flush()
        mapped = mmap.mmap(file.fileno(), _MIB)
        named = found()
        os.unlink(tmp_path / "gone")
        opened = found()
    held = found()
    mapped.close()

    hidden, seen = (0, 1) if os.access("/proc/self/map_files", os.X_OK) and os.geteuid() == 0 else (1, 0)
    assert (before, named, opened, held, found()) == ((0, 0), (0, 1), (hidden, 1), (hidden, seen), (0, 0))


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


def test_what_is_empty_counts_all_the_same(tmp_path: Path) -> None:
    empty = _use(tmp_path)
    for number in range(200):
        (tmp_path / f"file-{number}").touch()
        (tmp_path / f"link-{number}").symlink_to("x")
        (tmp_path / f"directory-{number}").mkdir()

    assert _use(tmp_path) - empty >= 600 * 4096


def test_a_directory_that_goes_while_it_is_looked_at_takes_nothing_beside_it_along(tmp_path: Path) -> None:
    """Wherever the look is by then, what lies beside is found."""
    for removed_at in range(8):
        top = tmp_path / str(removed_at)
        for name in "abcdef":
            (top / name / "deep/er").mkdir(parents=True)
            (top / name / "file").write_bytes(bytes(_MIB))
        count = counting([top])
        for _ in range(removed_at):
            next(count)
        shutil.rmtree(top / "c/deep")
        shutil.rmtree(top / "f/deep")
        shutil.rmtree(top / "a")
        with pytest.raises(StopIteration) as done:
            while True:
                next(count)

        assert done.value.value.bytes >= 5 * _MIB


def test_a_look_that_is_given_up_leaves_nothing_open(tmp_path: Path) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    before = os.listdir("/proc/self/fd")
    for steps in range(4):
        count = counting([tmp_path])
        for _ in range(steps):
            next(count)
        count.close()

    assert os.listdir("/proc/self/fd") == before
