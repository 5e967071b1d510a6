"""What a process chooses (its name, its files' names) never breaks the reading of /proc."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from limpet.runtimes import procfs

_MAPS = """
import mmap, os, sys
name = sys.argv[1].encode("utf-8", "surrogateescape")
with open(name, "w+b") as file:
    file.truncate(4096)
    kept = mmap.mmap(file.fileno(), 4096)
os.unlink(name)
print("ready", flush=True)
sys.stdin.read()
"""
_CALLED = """
import sys
open("/proc/self/comm", "wb").write(sys.argv[1].encode("utf-8", "surrogateescape"))
print("ready", flush=True)
sys.stdin.read()
"""
NAMES = {
    **{f"{ord(letter):#x}": f"a{letter}b" for letter in "\r\n\t\v\f\x1b\x1c\x1d\x1e\x85\u2028\u2029 \\\x01"},
    "no UTF-8": "a\udcff\udc80b",
    "deleted": "a (deleted)",
    "deleted, and more": "a (deleted)\rb (deleted)",
    "another line": "a\r7f0-7f1 rw-s 00000000 zz:zz 1 x (deleted)",
    "255 bytes": "\r" * 255,
    "brackets": ") R 1 1 (",
}


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_a_mapped_file_is_found_whatever_it_was_called(name: str, tmp_path: Path) -> None:
    with _running(_MAPS, name, tmp_path) as running:
        found = procfs.mapped_without_a_name(running.pid)
        running.communicate()

    assert [device for device, _ in found].count(tmp_path.stat().st_dev) == 1


def test_a_mapped_file_is_found_at_the_end_of_the_longest_path(tmp_path: Path) -> None:
    deep = tmp_path
    before = os.open(".", os.O_RDONLY)
    try:
        for _ in range(30):  # beyond PATH_MAX, which /proc shows as it likes
            os.chdir(deep)
            deep = Path("\r" * 200)
            deep.mkdir()
        with _running(_MAPS, "x", Path(".")) as running:
            found = procfs.mapped_without_a_name(running.pid)
            running.communicate()
    finally:
        os.chdir(before)
        os.close(before)

    assert len(found) <= 1  # a path that is too long has no end in the list; nothing was raised


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_a_process_is_known_whatever_it_calls_itself(name: str, tmp_path: Path) -> None:
    if not name.isprintable() and "\n" in name:
        name = name.replace("\n", "\r")  # the kernel takes a name up to its first newline
    with _running(_CALLED, name, tmp_path) as running:
        stat, called = procfs.stat_of(running.pid), procfs.name_of(running.pid)
        running.communicate()

    assert stat is not None
    assert (stat.parent, stat.is_dead) == (os.getpid(), False)
    assert called == os.fsencode(name)[:15]


def test_what_is_gone_or_not_as_documented_is_nothing(tmp_path: Path) -> None:
    (tmp_path / "odd").write_bytes(b"\xff: 1\nscm_fds:\t7\r\nx: 99999999999999999999999\nwchar: a\n: 3\n")

    assert (procfs.stat_of(0), procfs.name_of(0), procfs.mapped_without_a_name(0)) == (None, b"", [])
    assert procfs.values(str(tmp_path / "odd")) == {b"\xff": 1, b"scm_fds": 7, b"": 3}
    assert list(procfs.numbers(b"1 x \xff 2\n-3 99999999999999999999999")) == [1, 2]


def _running(program: str, name: str, directory: Path) -> "subprocess.Popen[bytes]":
    running = subprocess.Popen(
        [sys.executable, "-c", program, name], cwd=directory, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert running.stdout is not None
    assert running.stdout.readline() == b"ready\n"
    return running
