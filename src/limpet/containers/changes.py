"""What changed among a container's files, and which names files may have. Pure."""

import mimetypes
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from limpet.core.ports import FileStat
from limpet.store.files import ContainerFileRecord

MAX_NAME_BYTES = 200
UNNAMED = "upload"
_UNSAFE = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What a listing shows against what was known: regular files that may have a new content, and paths without a file."""

    touched: tuple[FileStat, ...]
    gone: tuple[str, ...]


def compare(known: Mapping[str, ContainerFileRecord], found: Iterable[FileStat], *, most: int) -> Changes:
    """The differences, by path. At most `most` touched files; the next comparison finds the others.

    Links, sockets, devices and directories are no files here.
    """
    files = {stat.path: stat for stat in found if stat.kind == "file"}
    touched = sorted(path for path, stat in files.items() if not is_known(known.get(path), stat))
    return Changes(
        touched=tuple(files[path] for path in touched[:most]), gone=tuple(sorted(known.keys() - files.keys()))
    )


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
