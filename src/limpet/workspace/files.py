"""The files of a workspace: what its policy lets through goes to the sandbox's own, with bounds on size, count and time.

Returns bytes as they are: the tools that show them to a model redact them. Follows no link, since the sandbox's files follow none.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

import anyio

from limpet.core.box_directories import DATA
from limpet.core.errors import EditFailed, FileDenied, FileMissing, FileTooLarge, NotAFile
from limpet.core.ports import MOST_READ, Files, FileStat, Sandbox
from limpet.workspace import search
from limpet.workspace.file_access import FileAccess, absolute
from limpet.workspace.search import GlobResult, GrepQuery, GrepResult, SearchBounds

READ_LIMIT = 10 << 20
EDIT_LIMIT = 64 << 20  # of a file after an edit: it is put together in memory
WRITE_LIMIT = 512 << 20
LIST_LIMIT = 200_000  # entries that a list looks at
BOUNDS = SearchBounds()


class WorkspaceFiles:
    """`core.ports.Files` with the policy's rules in front, and what can be built from it.

    Raises, in every method: FileDenied where the policy forbids it, and the errors of `core.ports.Files` (PathOutside, NotADirectory,
    FileForbidden, FileError). `changing` is a lock held from the read to the write of an edit, so that no edit of this process is lost.
    """

    def __init__(self, sandbox: Sandbox, *, confines: Sequence[FileAccess], changing: anyio.Lock) -> None:
        self._sandbox = sandbox
        self._confines = confines
        self._changing = changing

    async def read(
        self, path: str, *, start: int = 0, length: int | None = None, limit: int | None = READ_LIMIT
    ) -> bytes:
        """The bytes of a regular file from `start`, at most `length`.

        Raises: FileMissing; NotAFile; FileTooLarge if more than `limit` bytes would come back; None is MOST_READ, 1 GiB. `stream`
        reads files of any size."""
        return await self._may(path).read(path, start=start, length=length, limit=limit)

    async def stream(self, path: str, *, start: int = 0, length: int | None = None) -> AsyncIterator[bytes]:
        """The same in pieces of at most 1 MiB, of a file of any size. Raises: FileMissing; NotAFile; both at the first piece."""
        async for piece in self._may(path).stream(path, start=start, length=length):
            yield piece

    async def write(
        self, path: str, data: bytes | AsyncIterator[bytes], *, mode: int = 0o644, limit: int | None = WRITE_LIMIT
    ) -> FileStat:
        """Write a whole regular file, atomically; parents are made.

        Raises: FileTooLarge past `limit` bytes, and nothing is changed; NotAFile; SandboxFull where the disk or a quota is full."""
        files = self._may(path, writing=True)
        if isinstance(data, bytes):
            _refuse_over(path, len(data), limit)
            return await files.write(path, data, mode=mode)
        return await files.write(path, _bounded(path, data, limit), mode=mode)

    async def append(self, path: str, data: bytes, *, limit: int | None = WRITE_LIMIT) -> FileStat:
        """Add to the end of a file, which is made if it is missing: whole or not at all; its mode stays. What is there is copied, so
        that a `limit` of None is MOST_READ. Raises: as `write`."""
        files = self._may(path, writing=True)
        async with self._changing:
            try:
                before = await files.stat(path)
            except FileMissing:
                return await self.write(path, data, limit=limit)
            _refuse_over(path, before.size + len(data), MOST_READ if limit is None else limit)
            return await files.write(path, _joined(files, path, data), mode=before.mode)

    async def edit(self, path: str, old: str | bytes, new: str | bytes, *, everywhere: bool = False) -> FileStat:
        """Replace `old`, which must be in the file exactly once (or, with `everywhere`, at least once); the file's mode stays.

        Raises: EditFailed where it is not; FileTooLarge past READ_LIMIT bytes before, or EDIT_LIMIT after; FileMissing; NotAFile.
        """
        files = self._may(path, writing=True)
        wanted, instead = _as_bytes(old), _as_bytes(new)
        if not wanted:
            raise EditFailed(path, "there is nothing to look for. Give the text to replace, as it stands in the file.")
        async with self._changing:
            before = await files.stat(path)
            data = await files.read(path, limit=READ_LIMIT)
            count = data.count(wanted)
            if count == 0:
                raise EditFailed(path, "the text to replace is not in it. Read the file and copy the text exactly.")
            if count > 1 and not everywhere:
                problem = (
                    f"the text to replace stands in it {count} times. Add lines around it, or replace it everywhere."
                )
                raise EditFailed(path, problem)
            _refuse_over(path, len(data) + count * (len(instead) - len(wanted)), EDIT_LIMIT)
            return await files.write(path, data.replace(wanted, instead), mode=before.mode)

    async def rewrite(self, path: str, change: Callable[[bytes | None], Awaitable[bytes | None]]) -> None:
        """Put in a file's place what `change` makes of its bytes; None is a file that is not there, before and after. What `change` raises
        leaves all as it was; the file's mode stays.

        Raises: FileTooLarge past READ_LIMIT bytes before, or EDIT_LIMIT after; NotAFile for a directory or a link; SandboxFull."""
        files = self._may(path, writing=True)
        async with self._changing:
            try:
                before = await files.stat(path)
            except FileMissing:
                before = None
            if before is not None and before.kind != "file":
                raise NotAFile(path, before.kind)
            data = None if before is None else await files.read(path, limit=READ_LIMIT)
            instead = await change(data)
            if instead is not None:
                _refuse_over(path, len(instead), EDIT_LIMIT)
                await files.write(path, instead, mode=0o644 if before is None else before.mode)
            elif before is not None:
                await files.delete(path)

    async def list(self, path: str = DATA, *, recursive: bool = False, limit: int | None = None) -> list[FileStat]:
        """The entries of a directory, by path, and with `recursive` of those below it; the first `limit` of them. At most LIST_LIMIT
        are looked at: where that many come back there may be others, before and between them. Raises: FileMissing; NotADirectory."""
        found = await self._may(path).list(path, recursive=recursive, limit=LIST_LIMIT)
        return [entry for entry in found if self._sees(entry.path)][:limit]

    async def stat(self, path: str) -> FileStat:
        """One entry; a link is described, not followed. Raises: FileMissing."""
        return await self._may(path).stat(path)

    async def delete(self, path: str) -> None:
        """Remove a file, a link or a whole directory. Raises: FileMissing; FileForbidden for a root itself."""
        await self._may(path, writing=True).delete(path)

    remove = delete

    async def mkdir(self, path: str) -> FileStat:
        """Make a directory and its parents; quiet if it exists. Raises: NotADirectory where anything else is in its place; SandboxFull."""
        return await self._may(path, writing=True).mkdir(path)

    async def glob(self, pattern: str, *, root: str = DATA, bounds: SearchBounds = BOUNDS) -> GlobResult:
        """The entries whose path below `root` matches: `*` and `?` within a name, `**` across directories, `[a-z]`, `{a,b}`.

        Names that begin with a dot are names like others. Raises: PatternInvalid; FileMissing and NotADirectory for `root`.
        """
        files = self._may(root)
        return await search.glob(files, pattern, root=absolute(root), bounds=bounds, sees=self._sees)

    async def grep(
        self,
        pattern: str,
        *,
        root: str = DATA,
        include: str | None = None,
        ignore_case: bool = False,
        bounds: SearchBounds = BOUNDS,
    ) -> GrepResult:
        """The lines that match a regular expression (RE2's syntax) in the text files below `root`, or in that one file.

        `include` is a glob of the names to look in. Raises: PatternInvalid; FileMissing for `root`.
        """
        wanted = GrepQuery(pattern=pattern, include=include, ignore_case=ignore_case)
        return await search.grep(self._may(root), wanted, root=absolute(root), bounds=bounds, sees=self._sees)

    def _may(self, path: str, *, writing: bool = False) -> Files:
        for confines in self._confines:
            confines.refuse(path, writing=writing)
        return self._sandbox.files

    def _sees(self, path: str) -> bool:
        try:
            for confines in self._confines:
                confines.refuse(path)
        except FileDenied:
            return False
        return True


def _refuse_over(path: str, size: int, limit: int | None) -> None:
    if limit is not None and size > limit:
        raise FileTooLarge(path, size, limit)


async def _bounded(path: str, data: AsyncIterator[bytes], limit: int | None) -> AsyncIterator[bytes]:
    size = 0
    async for piece in data:
        size += len(piece)
        _refuse_over(path, size, limit)
        yield piece


async def _joined(files: Files, path: str, data: bytes) -> AsyncIterator[bytes]:
    async for piece in files.stream(path):
        yield piece
    yield data


def _as_bytes(text: str | bytes) -> bytes:
    return text.encode(errors="surrogateescape") if isinstance(text, str) else text
