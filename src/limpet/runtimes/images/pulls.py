"""Where an image arrives before it is taken into the store: a directory per pull, with a lock that ends with its process."""

import fcntl
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class PullRoom:
    """A directory below `images/pulls`. What a process that was killed has left is removed by the next pull."""

    directory: Path
    lock: int

    @classmethod
    def make(cls, images: Path) -> "PullRoom":
        above = images / "pulls"
        above.mkdir(parents=True, exist_ok=True)
        above.chmod(0o700)
        all_rooms = os.open(above, _DIRECTORY)
        try:
            fcntl.flock(all_rooms, fcntl.LOCK_EX)  # none is between its making and its lock meanwhile
            for path in above.iterdir():
                _remove_if_left(path)
            directory = Path(tempfile.mkdtemp(dir=above))
            room = cls(directory, os.open(directory, _DIRECTORY))
            fcntl.flock(room.lock, fcntl.LOCK_EX)
        finally:
            os.close(all_rooms)
        return room

    @property
    def image(self) -> Path:
        return self.directory / "image"

    def remove(self) -> None:
        shutil.rmtree(self.directory, ignore_errors=True)
        os.close(self.lock)


def _remove_if_left(path: Path) -> None:
    try:
        descriptor = os.open(path, _DIRECTORY)
    except OSError:
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return
    else:
        shutil.rmtree(path, ignore_errors=True)
    finally:
        os.close(descriptor)
