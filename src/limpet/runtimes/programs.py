"""Which files of a root file system are the programs that walls speak of. Reads files only; remembers what it found."""

import os
import re
import stat
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from limpet.runtimes.elf import Tree, closure

SHELL = "/bin/bash"
_SHELLS = (
    SHELL,
    "/bin/sh",
)  # the second for the programs that start others by it, such as tar; it can nothing that bash cannot
AGENT = "/usr/bin/python3"
_AGENTS_MODULES = re.compile(r"_ctypes\.|_struct\.|fcntl\.|resource\.|select\.|_socket\.|array\.")
_LOADED_BY_ALL = ("gconv",)  # below the directories of libraries: what the C library loads when it must
# What programs load, or run as parts of themselves, without naming it in their files: by the name of the file that is run, directories
# in which everything is theirs. `*` stands for one name.
_PARTS = (
    (r"python3(\.\d+)?", ("/usr/lib/python3*", "/usr/local/lib/python3*")),
    (r"perl([\d.]+)?", ("/usr/lib/*/perl*", "/usr/local/lib/*/perl*", "/usr/lib/perl*")),
    (r"git", ("/usr/lib/git-core", "/usr/libexec/git-core")),
    (r".*-?(gcc|g\+\+|cc|c\+\+|cpp|clang)(-[\d.]+)?", ("/usr/lib/gcc", "/usr/libexec/gcc")),
    (r"ruby([\d.]+)?", ("/usr/lib/ruby", "/usr/lib/*/ruby")),
    (r"php([\d.]+)?", ("/usr/lib/php",)),
    (r"lua(jit)?([\d.-]+)?", ("/usr/lib/*/lua", "/usr/local/lib/lua")),
    (r"(java|javac|jar|jshell)", ("/usr/lib/jvm",)),
    (r"gawk", ("/usr/lib/*/gawk",)),
    (r"openssl", ("/usr/lib/*/engines-*", "/usr/lib/*/ossl-modules")),
    (r"(convert|magick|identify|mogrify|composite|montage).*", ("/usr/lib/*/ImageMagick*",)),
)
_BOXES = frozenset({"busybox", "toybox", "coreutils", "sbase-box", "ubase-box"})  # programs that hold others


@lru_cache(maxsize=64)
def _executable(root: Path, names: frozenset[str], search: tuple[str, ...], seen: object) -> tuple[str, ...]:
    tree = Tree(root)
    programs = [file for name in (*_SHELLS, *names) for file in _called(tree, name, search)]
    modules = [
        path for place in _matching(tree, "/usr/lib/python3*/lib-dynload") for path in agents_modules(tree, place)
    ]
    files = closure(tree, programs, search)
    parts = {place for path in files for place in _parts(tree, path)}
    agent = set(_called(tree, AGENT, search))
    files |= closure(tree, {*agent, *modules}, None) - (agent - files)
    parts |= {found for place in tree.libraries for part in _LOADED_BY_ALL if (found := tree.real(f"{place}/{part}"))}
    files |= closure(tree, [path for place in parts for path in _files(tree, place) if _may_load(tree, path)], None)
    outside = {path for path in files if not any(path.startswith(f"{place}/") for place in parts)}
    return tuple(sorted(parts)) + tuple(sorted(outside))


def agents_modules(tree: Tree, place: str) -> list[str]:
    """The modules in this directory that are libraries and that the agent imports."""
    return [f"{place}/{name}" for name in tree.names(place) if _AGENTS_MODULES.match(name)]


def is_box_of_programs(tree: Tree, path: str) -> bool:
    """Whether that file is many programs in one, by its name or because others lead to it (busybox)."""
    if os.path.basename(path) in _BOXES:
        return True
    return any(os.path.basename(path) == "sh" and _is_same_file(tree, path, f"/bin/{name}") for name in _BOXES)


def _is_same_file(tree: Tree, path: str, other: str) -> bool:
    found = tree.file(other)
    return found is not None and _is_same(tree.on_host(path), tree.on_host(found))


def _may_load(tree: Tree, path: str) -> bool:
    """Whether it looks like a library or a program: only these are read."""
    return ".so" in path or os.access(tree.on_host(path), os.X_OK)


def executable(tree: Tree, names: frozenset[str], search: tuple[str, ...]) -> tuple[str, ...]:
    """Files and directories that must let themselves be executed so that the shell and the programs of these names run; the agent's
    own libraries are among them, its Python is not."""
    return _executable(tree.root, names, search, _seen(tree, search))


@lru_cache(maxsize=64)
def _masked(root: Path, names: frozenset[str], search: tuple[str, ...], seen: object) -> tuple[str, ...]:
    tree = Tree(root)
    spared = closure(tree, [file for path in (SHELL,) if (file := tree.file(path)) is not None], search)
    bases = {os.path.basename(name) for name in names}
    found = {file for name in names for file in _called(tree, name, search)}
    found |= {file for name in _BOXES for file in _called(tree, name, search) if _holds(tree.on_host(file), bases)}
    copied = {_identity(tree.on_host(path)): tree.on_host(path) for path in found - spared}
    sizes = {size for _, _, size in copied}
    linked = {identity for identity, path in copied.items() if path.stat().st_nlink > 1}
    for place in _tops(tree):
        for path in _files(tree, place):
            if os.path.basename(path) in bases and (file := tree.file(path)) is not None:
                found.add(file)
            elif linked and _identity(tree.on_host(path)) in linked:
                found.add(path)
    for place in search:
        for path in _files(tree, tree.real(place) or place):
            size = _identity(tree.on_host(path))[2]
            if size in sizes and any(_is_same(tree.on_host(path), one) for one in copied.values()):
                found.add(path)
    return tuple(sorted(found - spared))


def masked(tree: Tree, names: frozenset[str], search: tuple[str, ...]) -> tuple[str, ...]:
    """The files that are these programs, under whatever name they lie there: what the names lead to, files of the same name
    elsewhere, hard links, copies on the search path, and programs that hold one of them (busybox). The shell is spared."""
    return _masked(tree.root, names, search, _seen(tree, search)) if names else ()


def _seen(tree: Tree, search: tuple[str, ...]) -> object:
    """Something else as soon as a program is installed or removed."""
    places = ("/etc/alternatives", *search)
    return tuple(_changed(tree.on_host(place)) for place in places)


def _changed(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


def _called(tree: Tree, name: str, search: tuple[str, ...]) -> list[str]:
    """What a name finds: every file, not the first alone."""
    if "/" in name and not name.startswith("/"):
        return []
    places = (name,) if name.startswith("/") else tuple(f"{directory}/{name}" for directory in search)
    return list(dict.fromkeys(file for place in places if (file := tree.file(place)) is not None))


def _parts(tree: Tree, path: str) -> Iterator[str]:
    for pattern, places in _PARTS:
        if re.fullmatch(pattern, os.path.basename(path)):
            for place in places:
                yield from _matching(tree, place)


def _matching(tree: Tree, pattern: str) -> list[str]:
    """The directories that match; only whole names hold `*`."""
    found = [""]
    for part in pattern.strip("/").split("/"):
        if "*" not in part:
            found = [f"{place}/{part}" for place in found]
            continue
        shape = re.compile(re.escape(part).replace(r"\*", ".*"))
        found = [f"{place}/{name}" for place in found for name in tree.names(place or "/") if shape.fullmatch(name)]
    real = [place for path in found if (place := tree.real(path)) is not None and os.path.isdir(tree.on_host(place))]
    return list(dict.fromkeys(real))


def _tops(tree: Tree) -> list[str]:
    """The directories of a root that a box sees, without those that are its own."""
    if tree.root == Path("/"):
        tops = ["/usr", *(f"/{name}" for name in ("bin", "sbin", "lib", "lib32", "lib64", "libx32"))]
    else:
        tops = [f"/{name}" for name in tree.names("/")]
    return [top for top in tops if tree.on_host(top).is_dir() and not tree.on_host(top).is_symlink()]


def _files(tree: Tree, top: str) -> Iterator[str]:
    """All below a directory that is no directory, by path in the tree."""
    cut = len(str(tree.root).rstrip("/"))
    for place, _, names in os.walk(tree.on_host(top)):
        for name in names:
            yield f"{place[cut:]}/{name}"


def _identity(path: Path) -> tuple[int, int, int]:
    """Device, inode and size of a regular file; zeros for anything else."""
    try:
        status = os.lstat(path)
    except OSError:
        return 0, 0, 0
    return (status.st_dev, status.st_ino, status.st_size) if stat.S_ISREG(status.st_mode) else (0, 0, 0)


def _is_same(one: Path, other: Path) -> bool:
    try:
        return one.read_bytes() == other.read_bytes()
    except OSError:
        return False


def _holds(path: Path, names: set[str]) -> bool:
    """Whether a program of many has one of these names in it."""
    content = path.read_bytes()
    return any(b"\0" + name.encode() + b"\0" in content for name in names)
