"""Opening, making and removing entries below a directory descriptor, without ever following a symbolic link.

For directories that another process may change at any moment: a path that was checked may lead elsewhere when it is used (a TOCTOU
race). So nothing is checked and then opened by path: every step starts from an open descriptor, which stays the same directory
wherever it is moved. Only a few descriptors are held at once, however deep the tree is.
"""

import ctypes
import errno
import os
import secrets
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

_OPENAT2 = 437
_NO_MAGIC_LINKS = 0x02
_NO_SYMLINKS = 0x04
_BENEATH = 0x08


class LinkInTheWay(Exception):
    """A part of the path is a link."""


class _OpenHow(ctypes.Structure):
    """`struct open_how` of openat2(2)."""

    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


@cache
def _has_openat2() -> bool:
    """Whether the kernel (5.6 and newer) has the call and no filter hides it."""
    root = os.open("/", DIRECTORY)
    try:
        os.close(_openat2(root, "."))
    except OSError:
        return False
    finally:
        os.close(root)
    return True


def _openat2(base: int, path: str) -> int:
    # The kernel resolves the whole path in one call and refuses links (ELOOP) and ways out of `base` (EXDEV), also those that appear
    # through a concurrent rename. Without O_NOFOLLOW: with it a link in the last place would be reported as "not a directory".
    how = _OpenHow(flags=DIRECTORY & ~os.O_NOFOLLOW, mode=0, resolve=_BENEATH | _NO_SYMLINKS | _NO_MAGIC_LINKS)
    result: int = _libc().syscall(_OPENAT2, base, os.fsencode(path), ctypes.byref(how), ctypes.sizeof(how))
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), path)
    return result


def open_beneath(base: int, parts: tuple[str, ...]) -> int:
    """A new descriptor of the directory that `parts` names below `base`.

    Raises LinkInTheWay when one of them is a link, else what open(2) raises: FileNotFoundError, NotADirectoryError,
    PermissionError, OSError (a path that is too long).
    """
    if not parts:
        return os.open(".", DIRECTORY, dir_fd=base)
    if not _has_openat2():
        return walk(base, parts)
    try:
        return _openat2(base, "/".join(parts))
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EXDEV):
            raise LinkInTheWay from error
        raise


def walk(base: int, parts: tuple[str, ...]) -> int:
    """`open_beneath` part by part, for kernels without openat2."""
    current = os.dup(base)
    for part in parts:
        try:
            following = _enter(current, part)
        finally:
            os.close(current)
        current = following
    return current


def _enter(parent: int, name: str) -> int:
    try:
        return os.open(name, DIRECTORY, dir_fd=parent)
    except OSError as error:
        # A link opened with O_DIRECTORY and O_NOFOLLOW is "not a directory".
        if error.errno in (errno.ENOTDIR, errno.ELOOP) and _is_link(parent, name):
            raise LinkInTheWay from error
        raise


def _is_link(parent: int, name: str) -> bool:
    return stat.S_ISLNK(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode)


def make_directories(base: int, parts: tuple[str, ...], *, owner: int | None = None) -> int:
    """Like `open_beneath`, but makes what is missing (mode 0755, belonging to `owner`)."""
    current = os.dup(base)
    for part in parts:
        try:
            made = True
            try:
                os.mkdir(part, 0o755, dir_fd=current)
            except FileExistsError:
                made = False
            following = _enter(current, part)
        finally:
            os.close(current)
        if made and owner is not None:
            os.fchown(following, owner, owner)
        current = following
    return current


def entries(base: int, parts: tuple[str, ...]) -> Iterator[tuple[str, os.stat_result]]:
    """Names and status (links described, not followed) of what lies in the directory that `parts` names below `base`.

    A directory below `base` that cannot be opened (gone meanwhile, forbidden, too deep) has no entries; `base` itself must
    be readable.
    """
    try:
        descriptor = open_beneath(base, parts)
    except (OSError, LinkInTheWay):
        if not parts:
            raise
        return
    try:
        with os.scandir(descriptor) as found:
            for entry in found:
                with suppress(FileNotFoundError):
                    yield entry.name, entry.stat(follow_symlinks=False)
    finally:
        os.close(descriptor)


def remove_entry(parent: int, name: str, *, is_wanted: Callable[[], bool] = lambda: True) -> None:
    """Remove a file, a link or a whole directory, of any depth. Raises FileNotFoundError, PermissionError and, once `is_wanted` says no,
    InterruptedError."""
    if not stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
        os.unlink(name, dir_fd=parent)
        return
    descriptor = _enter_to_empty(parent, name)
    try:
        _empty(descriptor, is_wanted)
    finally:
        os.close(descriptor)
    os.rmdir(name, dir_fd=parent)


def remove_tree(path: Path, *, is_wanted: Callable[[], bool] = lambda: True) -> None:
    """Remove a directory of the host and all in it, of any depth; quiet if it is not there. Very many entries take minutes: raises
    InterruptedError, with some of them left, once `is_wanted` says no."""
    with suppress(FileNotFoundError):
        parent = os.open(path.parent, DIRECTORY & ~os.O_NOFOLLOW)
        try:
            remove_entry(parent, path.name, is_wanted=is_wanted)
        finally:
            os.close(parent)


def _enter_to_empty(parent: int, name: str) -> int:
    """Open a directory even if its mode forbids it to its own owner."""
    try:
        return os.open(name, DIRECTORY, dir_fd=parent)
    except PermissionError:
        # O_PATH needs no permission on the directory itself; chmod through /proc then reaches this directory and no other.
        handle = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
        try:
            os.chmod(f"/proc/self/fd/{handle}", 0o700)
        finally:
            os.close(handle)
        return os.open(name, DIRECTORY, dir_fd=parent)


def _empty(top: int, is_wanted: Callable[[], bool]) -> None:
    """Remove all that lies in `top`. What lies deeper is moved up first, so that no depth needs recursion or a long path, and no
    directory's names are held all at once."""
    is_empty = False
    while not is_empty:
        is_empty = True
        with os.scandir(top) as found:
            for entry in found:
                is_empty = False
                _require(is_wanted)
                try:
                    if not entry.is_dir(follow_symlinks=False):
                        os.unlink(entry.name, dir_fd=top)
                    elif not _is_removed(top, entry.name):
                        _flatten(top, entry.name, is_wanted)
                        os.rmdir(entry.name, dir_fd=top)
                except FileNotFoundError:
                    continue
                except OSError as error:
                    # Another process has added an entry to it or replaced it; the next round sees that.
                    if error.errno not in (errno.ENOTEMPTY, errno.EISDIR, errno.ENOTDIR):
                        raise


def _require(is_wanted: Callable[[], bool]) -> None:
    if not is_wanted():
        raise InterruptedError("It was stopped before everything was removed.")


def _is_removed(parent: int, name: str) -> bool:
    """Remove a directory that is empty, as most of very many are: one call instead of six."""
    try:
        os.rmdir(name, dir_fd=parent)
    except OSError:
        return False
    return True


def _flatten(top: int, name: str, is_wanted: Callable[[], bool]) -> None:
    """Remove the files of a directory and move its directories up beside it."""
    descriptor = _enter_to_empty(top, name)
    try:
        os.fchmod(descriptor, 0o700)
        with os.scandir(descriptor) as found:
            for entry in found:
                _require(is_wanted)
                if not entry.is_dir(follow_symlinks=False):
                    os.unlink(entry.name, dir_fd=descriptor)
                elif not _is_removed(descriptor, entry.name):
                    _make_movable(descriptor, entry.name)
                    os.rename(entry.name, f".gone-{secrets.token_hex(8)}", src_dir_fd=descriptor, dst_dir_fd=top)
    finally:
        os.close(descriptor)


def _make_movable(parent: int, name: str) -> None:
    """Give its owner write permission: renaming a directory to another parent changes its `..`, which needs that (rename(2))."""
    descriptor = _enter_to_empty(parent, name)
    try:
        os.fchmod(descriptor, 0o700)
    finally:
        os.close(descriptor)
