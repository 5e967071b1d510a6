"""What a program needs before its first instruction: its loader, its libraries, its interpreter. Reads files only.

Everything is looked up as the box will see it: paths are those inside, links are followed below the box's own root.
"""

import mmap
import os
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

_MAGIC = b"\x7fELF"
_LOAD, _DYNAMIC, _INTERPRETER = 1, 2, 3
_NEEDED, _STRINGS, _RPATH, _RUNPATH = 1, 5, 15, 29
_MOST_LINKS = 40  # as the kernel
_LIBRARIES = ("/lib", "/usr/lib", "/lib64", "/usr/lib64", "/lib32", "/usr/lib32", "/usr/local/lib")
_MOST_CONFIGURED = 1 << 16  # characters of each file that names directories of libraries
_MOST_DYNAMIC = 4096  # entries that are read of a file's dynamic section
_CPUS = "glibc-hwcaps"
_SHEBANG = 256  # bytes that the kernel reads of a script's first line (execve(2))


@dataclass(frozen=True)
class Tree:
    """A root file system on the host: `/` itself, or an image."""

    root: Path

    def on_host(self, path: str) -> Path:
        return self.root / path.lstrip("/")

    def real(self, path: str) -> str | None:
        """The path without links of what is there; None where nothing is."""
        waiting, current, links = path.split("/")[::-1], "", 0
        while waiting:
            part = waiting.pop()
            if part in ("", "."):
                continue
            if part == "..":
                current = os.path.dirname(current).rstrip("/")
                continue
            step = f"{current}/{part}"
            try:
                target = os.readlink(self.on_host(step))
            except FileNotFoundError:
                return None
            except OSError:
                current = step
                continue
            links += 1
            if links > _MOST_LINKS:
                return None
            waiting += target.split("/")[::-1]
            current = "" if target.startswith("/") else current
        return (current or "/") if os.path.lexists(self.on_host(current)) else None

    def file(self, path: str) -> str | None:
        """The same for a regular file."""
        found = self.real(path)
        return found if found is not None and os.path.isfile(self.on_host(found)) else None

    def names(self, directory: str) -> list[str]:
        try:
            return sorted(os.listdir(self.on_host(directory)))
        except OSError:
            return []

    @cached_property
    def libraries(self) -> tuple[str, ...]:
        """The directories in which the loader looks without being told, the machine's own names (multiarch) included."""
        found = [*self._configured(), *_LIBRARIES]
        for directory in _LIBRARIES:
            found += [f"{directory}/{name}" for name in self.names(directory) if name.count("-linux-")]
        places = [place for directory in found if (place := self.real(directory)) is not None]
        return tuple(dict.fromkeys(places))

    def _configured(self) -> Iterator[str]:
        for name in ("/etc/ld.so.conf", *(f"/etc/ld.so.conf.d/{name}" for name in self.names("/etc/ld.so.conf.d"))):
            if (file := self.file(name)) is not None:
                with open(self.on_host(file), errors="replace") as lines:
                    said = lines.read(_MOST_CONFIGURED)
                for line in said.splitlines():
                    if line.startswith("/"):
                        yield line.strip()


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """What a file names: its loader by path, libraries by name, where it wants these looked for; a script its interpreters."""

    interpreters: tuple[str, ...] = ()
    loaders: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()
    places: tuple[str, ...] = ()
    kind: bytes = b""  # class and machine: libraries of another kind are passed over


def needs_of(path: Path) -> Needs:
    """Of a program, a library or a script; nothing for anything else, or where it cannot be read."""
    head = b""
    try:
        with open(path, "rb") as file:
            head = file.read(_SHEBANG)
            if head.startswith(_MAGIC):
                with mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as content:
                    return _of_elf(content)
    except (OSError, ValueError, struct.error):
        return Needs()  # a file that lies about itself does not start either
    if not head.startswith(b"#!"):
        return Needs()
    words = head[2:].partition(b"\n")[0].decode(errors="replace").split()
    if words and os.path.basename(words[0]) == "env":
        named = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
        return Needs(interpreters=(words[0], *named[:1]))
    return Needs(interpreters=tuple(words[:1]))


def _of_elf(content: mmap.mmap) -> Needs:
    """elf(5). ValueError or struct.error where it is not what it says."""
    wide, order = content[4] == 2, "<" if content[5] == 1 else ">"
    segments = list(_segments(content, wide=wide, order=order))
    dynamic = list(_dynamic(content, segments, wide=wide, order=order))
    strings = next((_offset(segments, value) for tag, value in dynamic if tag == _STRINGS), None)

    def text(at: int) -> str:
        return content[at : content.find(b"\0", at)].decode(errors="replace")

    loaders = tuple(text(offset) for kind, offset, _, _ in segments if kind == _INTERPRETER)
    named: dict[int, list[str]] = {}
    if strings is not None:
        for tag, value in dynamic:
            if tag in (_NEEDED, _RPATH, _RUNPATH):
                named.setdefault(tag, []).append(text(strings + value))
    places = ":".join(named.get(_RPATH, []) + named.get(_RUNPATH, []))
    return Needs(
        loaders=loaders,
        libraries=tuple(named.get(_NEEDED, ())),
        places=tuple(place for place in places.split(":") if place),
        kind=content[4:6] + content[18:20],
    )


def _segments(content: mmap.mmap, *, wide: bool, order: str) -> Iterator[tuple[int, int, int, int]]:
    """Kind, offset, address and size of each."""
    begin = struct.unpack_from(order + ("Q" if wide else "I"), content, 32 if wide else 28)[0]
    size, count = struct.unpack_from(order + "HH", content, 54 if wide else 42)
    for at in range(begin, begin + size * count, size or 1):
        if wide:
            kind, _, offset, address, _, length = struct.unpack_from(order + "IIQQQQ", content, at)
        else:
            kind, offset, address, _, length = struct.unpack_from(order + "IIIII", content, at)
        yield kind, offset, address, length


def _dynamic(
    content: mmap.mmap, segments: list[tuple[int, int, int, int]], *, wide: bool, order: str
) -> Iterator[tuple[int, int]]:
    pair = struct.Struct(order + ("qQ" if wide else "iI"))
    for kind, offset, _, length in segments:
        if kind == _DYNAMIC:
            for at in range(offset, offset + min(length, _MOST_DYNAMIC * pair.size), pair.size):
                yield pair.unpack_from(content, at)
            return  # the loader knows one


def _offset(segments: list[tuple[int, int, int, int]], address: int) -> int | None:
    for kind, offset, begin, length in segments:
        if kind == _LOAD and begin <= address < begin + length:
            return offset + address - begin
    return None


def closure(tree: Tree, files: Iterable[str], search: tuple[str, ...] | None) -> set[str]:
    """These files and all that they need, and what that needs. Interpreters of scripts are among it, and `search` is where those
    that `env` starts are looked for; with None they are not: such scripts run only where another file needs their interpreters."""
    found: set[str] = set()
    waiting = list(files)
    while waiting:
        path = waiting.pop()
        if path in found:
            continue
        found.add(path)
        needs = needs_of(tree.on_host(path))
        for name in (*needs.loaders, *(needs.interpreters if search is not None else ())):
            places = (name,) if "/" in name else tuple(f"{directory}/{name}" for directory in search or ())
            waiting += [file for place in places if (file := tree.file(place)) is not None]
        beside = os.path.dirname(path)
        own = [place.replace("$ORIGIN", beside).replace("${ORIGIN}", beside) for place in needs.places]
        for name in needs.libraries:
            waiting += _library(tree, name, (*own, *tree.libraries), needs.kind)
    return found


def _library(tree: Tree, name: str, places: tuple[str, ...], kind: bytes) -> list[str]:
    """Where the loader may find it: the first of its kind, and those beside it that are for newer processors."""
    for place in () if "/" in name else places:
        file = tree.file(f"{place}/{name}")
        if file is None or needs_of(tree.on_host(file)).kind != kind:
            continue
        newer = [tree.file(f"{place}/{_CPUS}/{cpu}/{name}") for cpu in tree.names(f"{place}/{_CPUS}")]
        return [file, *(one for one in newer if one is not None)]
    return []
