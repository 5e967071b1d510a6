"""Where paths of a command lead: links are resolved in the box, as far as the nearest ancestor that exists.

Asks the sandbox's files, and where those do not reach (/tmp, directories of the host on `local`) `realpath` in the box.
"""

import posixpath
from dataclasses import dataclass

from limpet.core.box_directories import DATA, HOME, TEMPORARY
from limpet.core.command import Argv, Command, Exited, Script
from limpet.core.errors import FileError, FileMissing, NotADirectory, PathOutside, SandboxError
from limpet.core.ids import new_id
from limpet.core.ports import Offer, Sandbox
from limpet.workspace.file_access import is_below

_LOOK = 5.0  # seconds for a look in the box
_MOST_LINKS = 40  # as the kernel
_MOST_ENTRIES = 20_000  # of a directory whose links are asked for


@dataclass(frozen=True, slots=True, kw_only=True)
class BoxDirectories:
    """The box's own directories, as its commands know them."""

    data: str = DATA
    home: str = HOME

    @property
    def roots(self) -> tuple[str, ...]:
        return (self.data, self.home, TEMPORARY)

    def outside(self, path: str) -> str:
        """The path by which the sandbox's files know what commands know as `path`."""
        for inside, known in ((self.data, DATA), (self.home, HOME)):
            if is_below(path, inside):
                return known + path[len(inside) :]
        return path

    def inside(self, path: str) -> str:
        """The other way round: the path by which commands know it."""
        for inside, known in ((self.data, DATA), (self.home, HOME)):
            if is_below(path, known):
                return inside + path[len(known) :]
        return path

    def begins(self, cwd: str | None) -> str:
        """Where a command runs whose `cwd` is this, as it knows the place itself."""
        return self.inside(posixpath.normpath(posixpath.join(DATA, cwd or "")))


async def find_directories(sandbox: Sandbox, offers: frozenset[Offer]) -> BoxDirectories:
    """Where the box's directories are. Only a runtime without walls of its own has them elsewhere; there a command is asked."""
    if Offer.ISOLATION in offers:
        return BoxDirectories()
    said = await _ask(sandbox, Script('printf "%s\\0%s" "$LIMPET_DATA" "$HOME"'))
    data, _, home = (said or "").partition("\0")
    return BoxDirectories(data=data or DATA, home=home or HOME)


class PathResolver:
    """Where a path of a command leads, from the outside."""

    def __init__(self, sandbox: Sandbox, places: BoxDirectories) -> None:
        self._sandbox = sandbox
        self._places = places

    async def __call__(self, path: str) -> str | None:
        """The absolute path without links and dots that `path` (relative: from /mnt/data) means; what does not exist yet keeps its
        name behind the nearest ancestor that does. None where that cannot be told: then it must be taken as anywhere."""
        if path == TEMPORARY:
            return path  # no command can put a link in its place, and it is asked for with every path
        path = posixpath.join(self._places.data, path)
        if ".." not in path.split("/") and (plain := await self._plain(path)) is not None:
            return plain
        return await self._followed(path)

    async def _plain(self, path: str) -> str | None:
        """The path itself, where no part of it is a link."""
        path = posixpath.normpath(path)
        try:
            found = await self._sandbox.files.stat(self._places.outside(path))
        except (FileMissing, NotADirectory):
            return path
        except FileError:
            return None
        return None if found.kind == "link" else path

    async def _followed(self, path: str) -> str | None:
        waiting, current = path.split("/")[::-1], "/"
        links = 0
        while waiting:
            part = waiting.pop()
            if part in ("", "."):
                continue
            if part == "..":
                current = posixpath.dirname(current)
                continue
            step = posixpath.join(current, part)
            try:
                found = await self._sandbox.files.stat(self._places.outside(step))
            except (FileMissing, NotADirectory):
                return posixpath.normpath(posixpath.join(step, *waiting[::-1]))
            except PathOutside:
                if self._leads_to_files(step):
                    current = step
                    continue
                return await self._asked(posixpath.join(step, *waiting[::-1]))
            except FileError:
                return None
            if found.kind != "link":
                current = step
                continue
            links += 1
            if links > _MOST_LINKS:
                return None
            waiting += found.target.split("/")[::-1]
            current = "/" if found.target.startswith("/") else current
        return current

    def _leads_to_files(self, path: str) -> bool:
        """Whether one of the directories that the sandbox's files know lies below `path`: then it is no link of a command's."""
        return any(is_below(root, path) for root in (self._places.data, self._places.home))

    async def _asked(self, path: str) -> str | None:
        said = await _ask(self._sandbox, Argv(("realpath", "--canonicalize-missing", "--zero", "--", path)))
        return said.removesuffix("\0") if said is not None and said.startswith("/") else None

    async def links(self, directory: str) -> tuple[str, ...] | None:
        """The names of the links in a directory; none where there is no such directory, None where that cannot be told."""
        path = posixpath.normpath(posixpath.join(self._places.data, directory))
        try:
            found = await self._sandbox.files.list(self._places.outside(path), limit=_MOST_ENTRIES)
            if len(found) == _MOST_ENTRIES:
                return None  # not all of them were looked at
            return tuple(posixpath.basename(stat.path) for stat in found if stat.kind == "link")
        except (FileMissing, NotADirectory):
            return ()
        except PathOutside:
            find = ("find", path, "-mindepth", "1", "-maxdepth", "1", "-type", "l", "-printf", "%f\\0")
            said = await _ask(self._sandbox, Argv(find))
            return None if said is None else tuple(filter(None, said.split("\0")))
        except FileError:
            return None


async def _ask(sandbox: Sandbox, what: Script | Argv) -> str | None:
    """What a look in the box prints; None where it fails."""
    try:
        process = await sandbox.start(Command(what=what, timeout=_LOOK), new_id("look"))
        data = b"".join([chunk.data async for chunk in process.output() if chunk.stream == "stdout"])
        outcome = await process.wait()
        await process.forget()
    except SandboxError:
        return None  # the call that needs the directory meets the same error, and reports it
    return data.decode(errors="surrogateescape") if outcome == Exited(0) else None
