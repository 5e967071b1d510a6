"""A small disk of its own, that can be filled and made read-only."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

SIZE = 2 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Disk:
    """A file system of 2 MiB, mounted at `path`."""

    path: Path

    def fill(self, *, leaving: int = 0) -> None:
        """Use it up but for so many bytes."""
        free = os.statvfs(self.path)
        with self._filler.open("wb") as file:
            file.write(b"\0" * max(free.f_bavail * free.f_bsize - leaving, 0))

    def empty(self) -> None:
        self._filler.unlink()

    def make_read_only(self) -> None:
        _run("mount", "-o", "remount,ro", str(self.path))

    @property
    def _filler(self) -> Path:
        return self.path / "filler"


@contextmanager
def small_disk(directory: Path) -> Iterator[Disk]:
    """One in this directory, for the time of the block; skips, in words, where there can be none."""
    path = directory / "disk"
    path.mkdir()
    if reason := mount(path):
        pytest.skip(reason)
    try:
        yield Disk(path)
    finally:
        unmount(path)


def mount(path: Path, size: int = SIZE) -> str | None:
    """Mount it there, or one of another size. None, or in words why that is not possible here."""
    if os.geteuid() != 0:
        return "needs root, to mount a small disk"
    error = _run("mount", "-t", "tmpfs", "-o", f"size={size}", "limpet-test", str(path))
    return f"a small disk cannot be mounted here: {error}" if error else None


def unmount(path: Path) -> None:
    _run("umount", "-l", str(path))


def _run(*argv: str) -> str:
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stderr.strip()
