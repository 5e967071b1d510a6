"""Looks for files by name and in files for text, through the port alone, so that every runtime can. Follows no link.

Patterns of others go through RE2 only: whatever they hold, a search takes time in proportion to what is searched.
"""

import posixpath
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import anyio
from anyio import to_thread

from limpet.core.errors import FileError, PathOutside
from limpet.core.ports import Files, FileStat
from limpet.workspace.search_patterns import compile_glob, compile_pattern, literal_head

MOST_VISITED = 200_000
LINE_LIMIT = 2_000
LOOKS_BINARY = 8_192

Sees = Callable[[str], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class GlobResult:
    """What was found, by path. Unless `complete`, `note` is a sentence on why there may be more."""

    paths: tuple[FileStat, ...]
    complete: bool = True
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """One line that matches, counted from 1; its text without the line's end, cut at LINE_LIMIT bytes."""

    path: str
    line: int
    text: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class GrepResult:
    """The lines that match, by path and line. `skipped` are the files that were not searched: too large or unreadable, not the binary
    ones. Unless `complete`, `note` is a sentence on why there may be more."""

    matches: tuple[Match, ...]
    complete: bool = True
    note: str = ""
    skipped: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchBounds:
    """How far a search goes: so many results, so many seconds, files up to `file_size` bytes, `bytes` of all files together."""

    results: int = 1_000
    seconds: float = 10.0
    file_size: int = 10 << 20
    bytes: int = 1 << 30


@dataclass(slots=True)
class _Walk:
    """What is still to be looked at, and what came of it."""

    files: Files
    sees: Sees
    visited: int = 0
    skipped: list[str] = field(default_factory=list)

    async def below(self, root: str, found: Callable[[FileStat], None], *, depth: int | None) -> bool:
        """Tell `found` of every entry below `root`, by path; false once too many were visited. Errors of `root` itself are raised."""
        waiting = [(root, 1)]
        while waiting:
            directory, level = waiting.pop()
            self.visited += 1
            entries = await self._entries(directory, itself=level == 1)
            inner = []
            for entry in entries:
                if not self.sees(entry.path):
                    continue
                self.visited += 1
                found(entry)
                if entry.kind == "directory" and (depth is None or level < depth):
                    inner.append((entry.path, level + 1))
            if self.visited > MOST_VISITED:
                return False
            waiting.extend(reversed(inner))
        return True

    async def _entries(self, directory: str, *, itself: bool) -> list[FileStat]:
        await anyio.lowlevel.checkpoint()
        try:
            return await self.files.list(directory, limit=MOST_VISITED + 1 - self.visited)
        except FileError:
            if itself:
                raise
            self.skipped.append(directory)  # gone meanwhile, or forbidden: the rest can still be searched
            return []


async def glob(files: Files, pattern: str, *, root: str, bounds: SearchBounds, sees: Sees) -> GlobResult:
    """The entries below `root` whose path matches: `*` and `?` within a name, `**` across directories, `[a-z]`, `{a,b}`."""
    base, rest = literal_head(posixpath.join(root, pattern))
    if not rest:
        return GlobResult(paths=await _alone(files, base, sees))
    matches = compile_glob(root, rest, shown=pattern)
    paths: list[FileStat] = []

    def found(entry: FileStat) -> None:
        if matches(entry.path[len(base) + 1 :]):
            paths.append(entry)

    depth = None if "**" in rest else rest.count("/") + 1
    walk, whole = _Walk(files, sees), False
    with anyio.move_on_after(bounds.seconds) as time:
        try:
            whole = await walk.below(base, found, depth=depth)
        except FileError as error:
            if isinstance(error, PathOutside) and not f"{base}/".startswith(f"{root.rstrip('/')}/"):
                raise  # the pattern itself leads out; of a link that does nothing is said
            return GlobResult(paths=())  # where nothing is, nothing matches
    paths.sort(key=lambda entry: entry.path)
    note = _note(late=time.cancelled_caught, many=len(paths) > bounds.results, whole=whole, bounds=bounds)
    return GlobResult(paths=tuple(paths[: bounds.results]), complete=not note, note=note)


async def _alone(files: Files, path: str, sees: Sees) -> tuple[FileStat, ...]:
    if not sees(path):
        return ()
    try:
        return (await files.stat(path),)
    except FileError:
        return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GrepQuery:
    """What to search for: a regular expression in RE2's syntax, in files whose name (or, with a slash, path below the root) matches
    the glob `include`."""

    pattern: str
    include: str | None = None
    ignore_case: bool = False


async def grep(files: Files, wanted: GrepQuery, *, root: str, bounds: SearchBounds, sees: Sees) -> GrepResult:
    """The lines of text files below `root` (or of that one file) that match. A file with a NUL byte near its start is binary."""
    matches_line = compile_pattern(root, wanted.pattern, ignore_case=wanted.ignore_case)
    may_match = compile_pattern(root, f"(?m){wanted.pattern}", ignore_case=wanted.ignore_case, shown=wanted.pattern)
    anchored = "\\A" in wanted.pattern or "\\z" in wanted.pattern
    included = _includes(root, wanted.include)
    walk = _Walk(files, sees)
    queue: list[FileStat] = []
    matches: list[Match] = []
    whole, left = True, bounds.bytes
    with anyio.move_on_after(bounds.seconds) as time:
        start = await files.stat(root)
        if start.kind == "directory":
            whole = await walk.below(root, queue.append, depth=None)
            queue.sort(key=lambda entry: entry.path)
        else:
            await files.read(root, length=0)  # raises for what is no regular file
            queue.append(start)
        for entry in queue:
            if len(matches) > bounds.results:
                break
            if entry.kind != "file" or not included(entry.path):
                continue
            await anyio.lowlevel.checkpoint()
            if left <= 0:
                whole = False
                break
            data = await _text_of(files, entry, bounds, walk.skipped)
            left -= max(len(data), LOOKS_BINARY)
            if data and (anchored or await to_thread.run_sync(may_match, data)):
                matches += await to_thread.run_sync(_in_lines, entry.path, data, matches_line, bounds.results + 1)
    note = _note(late=time.cancelled_caught, many=len(matches) > bounds.results, whole=whole, bounds=bounds)
    return GrepResult(
        matches=tuple(matches[: bounds.results]), complete=not note, note=note, skipped=tuple(sorted(walk.skipped))
    )


async def _text_of(files: Files, entry: FileStat, bounds: SearchBounds, skipped: list[str]) -> bytes:
    try:
        if b"\0" in await files.read(entry.path, length=LOOKS_BINARY):
            return b""
        return await files.read(entry.path, limit=bounds.file_size)
    except FileError:
        skipped.append(entry.path)  # too large, gone meanwhile, or forbidden: the rest can still be searched
        return b""


def _in_lines(path: str, data: bytes, matches: Callable[[bytes], bool], most: int) -> list[Match]:
    found = []
    for number, line in enumerate(_lines(data), start=1):
        if matches(line):
            found.append(Match(path=path, line=number, text=line[:LINE_LIMIT]))
            if len(found) >= most:
                break
    return found


def _lines(data: bytes) -> Iterator[bytes]:
    start = 0
    while start < len(data):
        end = data.find(b"\n", start)
        end = len(data) if end < 0 else end
        yield data[start:end].removesuffix(b"\r")
        start = end + 1


def _includes(root: str, include: str | None) -> Callable[[str], bool]:
    if include is None:
        return lambda path: True
    matches = compile_glob(root, include, shown=include)
    if "/" in include:
        return lambda path: matches(posixpath.relpath(path, root))
    return lambda path: matches(posixpath.basename(path))


def _note(*, late: bool, many: bool, whole: bool, bounds: SearchBounds) -> str:
    if late:
        return f"The search was stopped after {bounds.seconds:g} s. Begin in a directory further down."
    if many:
        return f"These are the first {bounds.results}; there are more. Ask for something narrower."
    if not whole:
        return f"The search was stopped after {MOST_VISITED} entries or {bounds.bytes >> 20} MiB. Begin in a directory further down."
    return ""
