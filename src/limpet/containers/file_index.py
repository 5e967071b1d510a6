"""The files of a container as they are recorded, by path and by directory, so that what one directory held is found without a search."""

import posixpath
from collections.abc import Iterable, Iterator, MutableMapping

from limpet.store.files import ContainerFileRecord


class FileIndex(MutableMapping[str, ContainerFileRecord]):
    """Rows by their paths. Pure."""

    def __init__(self, rows: Iterable[ContainerFileRecord] = ()) -> None:
        self._rows: dict[str, ContainerFileRecord] = {}
        self._files: dict[str, set[str]] = {}
        self._directories: dict[str, set[str]] = {}
        for row in rows:
            self[row.path] = row

    def __getitem__(self, path: str) -> ContainerFileRecord:
        return self._rows[path]

    def __setitem__(self, path: str, row: ContainerFileRecord) -> None:
        if path not in self._rows:
            directory = posixpath.dirname(path)
            self._files.setdefault(directory, set()).add(path)
            self._enter(directory)
        self._rows[path] = row

    def __delitem__(self, path: str) -> None:
        del self._rows[path]
        directory = posixpath.dirname(path)
        self._files[directory].discard(path)
        self._leave(directory)

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def inside(self, directory: str) -> frozenset[str]:
        """The paths of the files in a directory itself."""
        return frozenset(self._files.get(directory, ()))

    def directories(self, directory: str) -> frozenset[str]:
        """The paths of the directories in it that hold recorded files, at whatever depth."""
        return frozenset(self._directories.get(directory, ()))

    def below(self, directory: str) -> set[str]:
        """The paths of all files in it, at whatever depth."""
        found: set[str] = set()
        waiting = [directory]
        while waiting:
            here = waiting.pop()
            found |= self._files.get(here, set())
            waiting += self._directories.get(here, ())
        return found

    def _enter(self, directory: str) -> None:
        while (above := posixpath.dirname(directory)) != directory:
            inner = self._directories.setdefault(above, set())
            if directory in inner:
                return
            inner.add(directory)
            directory = above

    def _leave(self, directory: str) -> None:
        """Forget directories that hold nothing any more."""
        while not self._files.get(directory) and not self._directories.get(directory):
            self._files.pop(directory, None)
            self._directories.pop(directory, None)
            above = posixpath.dirname(directory)
            if above == directory:
                return
            self._directories.get(above, set()).discard(directory)
            directory = above
