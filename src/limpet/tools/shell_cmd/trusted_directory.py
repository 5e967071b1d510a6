"""Whether a path stays inside the trusted directory, links included. Asks the sandbox's files, changes nothing.

A check before a use, so a guard rail: a command that plants a link meanwhile is held by the box, not by this.
"""

import posixpath
from dataclasses import dataclass
from typing import Protocol

from limpet.core.errors import FileDenied, FileError, FileForbidden
from limpet.core.ports import FileStat
from limpet.tools.shell_cmd.tokens import looks_like_path, of_another_system

_MOST_LINKS = 40  # as Linux follows at most (path_resolution(7))


class StatsFiles(Protocol):
    """What of a sandbox's files is asked."""

    async def stat(self, path: str) -> FileStat: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustedDirectory:
    """The trusted directory, and other directories that paths may lead into. All absolute in the sandbox."""

    trusted: str
    also: tuple[str, ...]
    files: StatsFiles

    async def inside(self, word: str, *, base: str) -> str | None:
        """Where `word` leads, seen from directory `base`: an absolute path without links, or None where that is outside.

        What does not exist is taken from its nearest ancestor that does. Raises FileDenied and FileForbidden
        where it may not be seen.
        """
        if of_another_system(word) or word.startswith("~") or "\0" in word:
            return None
        path = posixpath.join(base, word)
        if not self._holds(posixpath.normpath(path)):
            return None
        resolved = await self._resolved(path)
        return resolved if resolved is not None and self._holds(resolved) else None

    async def escapes(self, word: str, *, base: str) -> bool:
        """Whether this parameter is a path that leaves: written as one, or the name of a link that does."""
        if await self.inside(word, base=base) is not None:
            return False
        return looks_like_path(word) or of_another_system(word) or await self._is_link(posixpath.join(base, word))

    def shown(self, path: str) -> str:
        """The path relative to the trusted directory, where it is inside."""
        return posixpath.relpath(path, self.trusted) if _below(path, self.trusted) else path

    def _holds(self, path: str) -> bool:
        return any(_below(path, root) for root in (self.trusted, *self.also))

    async def _resolved(self, path: str) -> str | None:
        """`path` with every link on its way replaced by where it points, as the kernel would go; None as soon as it leaves, or where
        it never ends. From the first part on that does not exist it stays as written."""
        links = 0
        done = "/"
        left = path.split("/")
        while left:
            part = left.pop(0)
            if part in ("", "."):
                continue
            if part == "..":
                done = posixpath.dirname(done)
                continue
            here = posixpath.join(done, part)
            if self._is_on_the_way(here):
                done = here
                continue
            if not self._holds(here):
                return None
            found = await self._look(here)
            if found is None or found.kind != "link":
                done = here
                continue
            links += 1
            if links > _MOST_LINKS or not found.target:
                return None
            done = "/" if found.target.startswith("/") else done
            left = found.target.split("/") + left
        return done

    async def _look(self, path: str) -> FileStat | None:
        try:
            return await self.files.stat(path)
        except (FileDenied, FileForbidden):
            raise
        except FileError:
            return None  # nothing is there, or by a name that nothing can have, or out of reach of the sandbox's files

    async def _is_link(self, path: str) -> bool:
        path = posixpath.normpath(path)
        found = await self._look(path) if self._holds(path) else None
        return found is not None and found.kind == "link"

    def _is_on_the_way(self, path: str) -> bool:
        """Whether it is a trusted directory or above one: those are taken as they are."""
        return any(_below(root, path) for root in (self.trusted, *self.also))


def _below(path: str, root: str) -> bool:
    return path == root or path.startswith(root.rstrip("/") + "/")
