"""What changed among a container's files, and which names files may have. Pure."""

import heapq
import mimetypes
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from limpet.containers.file_index import FileIndex
from limpet.core.ports import FileStat
from limpet.store.files import ContainerFileRecord

MAX_NAME_BYTES = 200
UNNAMED = "upload"
_UNSAFE = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """What a look at a container's files found. `files` are the regular files of the directories that were read, by path in the box;
    `directories` says for each of these which directories are in it, by name, and is None where all were read. `is_over`: there are
    more entries than are looked at."""

    files: tuple[FileStat, ...]
    directories: Mapping[str, frozenset[str]] | None
    is_over: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What a look shows against what was known, by path: regular files that may have a new content; more of them, which are recorded
    without their hashes; paths without a file; new files for which there is no room."""

    touched: tuple[FileStat, ...]
    more: tuple[FileStat, ...]
    gone: tuple[str, ...]
    refused: tuple[FileStat, ...] = ()


def compare(known: FileIndex, look: Scan, *, most: int, most_known: int | None = None) -> Changes:
    """The differences: at most `most` touched files, and `most_known` that are recorded in all. Those come last that only may have
    changed within the moment of their record. For a thread: it takes time in proportion to the look."""
    files = {stat.path: stat for stat in look.files}
    changed: list[FileStat] = []
    doubtful: list[FileStat] = []
    for path, stat in files.items():
        record = known.get(path)
        if not is_known(record, stat):
            (doubtful if is_doubtful(record, stat) else changed).append(stat)
    gone = tuple(_expected(known, look) - files.keys())
    refused: list[FileStat] = []
    if most_known is not None:
        fresh = [stat for stat in changed if stat.path not in known]
        room = max(0, most_known - (len(known) - len(gone)))
        if len(fresh) > room:
            # Not `sorted`, which would hold the interpreter for as long as it takes.
            kept = {stat.path for stat in heapq.nsmallest(room, fresh, key=_path)}
            refused = [stat for stat in fresh if stat.path not in kept]
            beyond = {stat.path for stat in refused}
            changed = [stat for stat in changed if stat.path not in beyond]
    touched = heapq.nsmallest(most, changed, key=_path)
    first = {stat.path for stat in touched}
    return Changes(
        touched=(*touched, *heapq.nsmallest(most - len(touched), doubtful, key=_path)),
        more=tuple(stat for stat in changed if stat.path not in first) if len(changed) > most else (),
        gone=gone,
        refused=tuple(refused),
    )


def _path(stat: FileStat) -> str:
    return stat.path


def is_doubtful(record: ContainerFileRecord | None, stat: FileStat) -> bool:
    """Whether all is the same but that the record does not trust its own moment (see `captures`)."""
    return record is not None and record.changed == 0 and is_known(replace(record, changed=stat.changed), stat)


def _expected(known: FileIndex, look: Scan) -> set[str]:
    """The recorded files that must be among those found, or are gone."""
    if look.directories is None:
        return set(known)
    expected: set[str] = set()
    for directory, names in look.directories.items():
        expected |= known.inside(directory)
        for inner in known.directories(directory):
            if inner.rpartition("/")[2] not in names:
                expected |= known.below(inner)
    return expected


def is_known(record: ContainerFileRecord | None, stat: FileStat) -> bool:
    """Whether the file is as it was when it was recorded: same size, times and inode. A write always moves one of them."""
    return record is not None and (record.bytes, record.modified, record.identity, record.changed) == (
        stat.size,
        stat.modified,
        stat.identity,
        stat.changed,
    )


def safe_name(name: str) -> str:
    """A file name from a client's: its last part, without control characters, 200 bytes at most with its extension kept."""
    last = _UNSAFE.sub("", re.split(r"[/\\]", name)[-1]).strip()
    if last in ("", ".", ".."):
        return UNNAMED
    stem, dot, extension = last.rpartition(".")
    if not dot or not stem or len(extension.encode()) > 32:
        return _cut(last, MAX_NAME_BYTES)
    return f"{_cut(stem, MAX_NAME_BYTES - 1 - len(extension.encode()))}.{extension}"


def content_type(path: str) -> str | None:
    """The media type that the name suggests."""
    return mimetypes.guess_type(path)[0]


def _cut(text: str, most: int) -> str:
    return text.encode()[:most].decode(errors="ignore")
