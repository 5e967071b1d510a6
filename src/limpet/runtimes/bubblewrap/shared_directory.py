"""Directories that every box of a home is shown and none can write, such as its /etc: made once, not again for each box.

To make a file takes a file system longer the more were removed lately (ext4 does not give out an inode again for a minute), so boxes
that come and go would boot more slowly with each one.
"""

import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_MAKING = "making-"
_ABANDONED = 60.0  # seconds after which what was not finished belongs to a process that has ended


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryContents:
    """What such a directory holds, each by its path in it: `texts`, `programs` (scripts), `copies` of files, `links` with their targets,
    empty `directories`."""

    texts: Mapping[str, str] = field(default_factory=dict)
    programs: Mapping[str, str] = field(default_factory=dict)
    copies: Mapping[str, Path] = field(default_factory=dict)
    links: Mapping[str, str] = field(default_factory=dict)
    directories: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        """The same for the same contents; another one once a file that is copied has changed."""
        copies = {path: (source, _identity(source)) for path, source in self.copies.items()}
        known = [*(sorted(part.items()) for part in (self.texts, self.programs, copies, self.links)), self.directories]
        return hashlib.sha256(repr(known).encode()).hexdigest()[:16]

    def write(self, directory: Path) -> None:
        """Write all of it, readable for all users whatever the umask says. The directory exists and is empty."""
        for path in self.directories:
            (directory / path).mkdir(parents=True, exist_ok=True)
        for path in (*self.texts, *self.programs, *self.copies, *self.links):
            (directory / path).parent.mkdir(parents=True, exist_ok=True)
        for path, text in {**self.texts, **self.programs}.items():
            (directory / path).write_text(text)
        for path, source in self.copies.items():
            shutil.copyfile(source, directory / path)
        for path, target in self.links.items():
            (directory / path).symlink_to(target)
        for above, _, files in os.walk(directory):
            os.chmod(above, 0o755)
            for file in files:
                path = os.path.join(above, file)
                if not os.path.islink(path):
                    os.chmod(path, 0o755 if self._is_program(os.path.relpath(path, directory)) else 0o644)

    def _is_program(self, path: str) -> bool:
        return path in self.programs or (path in self.copies and os.access(self.copies[path], os.X_OK))


def shared_directory(above: Path, contents: DirectoryContents) -> Path:
    """The directory below `above` that holds these contents, made now where it is not there. Blocking.

    One that was made before the host last started is not used: its files may never have reached the disk. It is removed, since no
    box outlives that. Several processes may call this at once.
    """
    found = above / f"{host_boot()}-{contents.digest}"
    if found.is_dir():
        return found
    above.mkdir(exist_ok=True)
    above.chmod(0o711)
    _clear(above)
    made = Path(tempfile.mkdtemp(prefix=f"{host_boot()}-{_MAKING}", dir=above))
    try:
        contents.write(made)
        made.rename(found)
    except OSError:
        shutil.rmtree(made, ignore_errors=True)
        if not found.is_dir():  # else another process was first
            raise
    return found


def _clear(above: Path) -> None:
    """Remove what is of an earlier start of the host, and what was left unfinished."""
    for entry in above.iterdir():
        with suppress(FileNotFoundError):
            is_abandoned = _MAKING in entry.name and time.time() - entry.stat().st_mtime > _ABANDONED
            if is_abandoned or not entry.name.startswith(f"{host_boot()}-"):
                shutil.rmtree(entry, ignore_errors=True)


def _identity(path: Path) -> tuple[int, int, int, int, int]:
    status = path.stat()
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


@cache
def host_boot(source: Path = _BOOT) -> str:
    """This start of the host's kernel; "unknown" where /proc does not tell, as in some containers."""
    try:
        return source.read_text().strip().replace("-", "")[:16]
    except OSError:
        return "unknown"
