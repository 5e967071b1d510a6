"""Reads an untrusted zip: its directory is checked first, then entries are read up to our own bounds. Writes nothing.

What an archive says of itself is a claim. `zipfile` builds an object for each entry of a directory of any size, believes offsets that
overlap (one compressed block as the content of thousands of files: https://www.bamsoftware.com/hacks/zipbomb/), and takes zip64's
counts over the others. Format: APPNOTE.TXT of PKWARE, sections 4.3.7 to 4.3.16.
"""

import os
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO

_END = struct.Struct("<4s4H2LH")  # the end of central directory record, without its comment
_END_SIGNATURE, _ZIP64_LOCATOR = b"PK\x05\x06", b"PK\x06\x07"
_LOCATOR_SIZE, _LONGEST_COMMENT = 20, 1 << 16
_LOCAL_HEADER = 30
_ENCRYPTED = 0x1 | 0x40
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
MOST_ENTRIES = 2000  # files and directories
MOST_DIRECTORY = 1 << 20  # bytes: 500 bytes an entry
BLOCK = 256 << 10


class ZipInvalid(Exception):
    """Why the archive is not taken: a sentence and what to do instead."""


class ZipTooLarge(ZipInvalid):
    """It has more entries, or a larger directory, than any skill needs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ZipEntry:
    """A regular file of an archive. `path` is as the archive has it, unchecked."""

    path: str
    is_program: bool
    info: zipfile.ZipInfo


class ZipArchive:
    """An archive whose directory was read and found plausible."""

    def __init__(self, archive: zipfile.ZipFile, entries: tuple[ZipEntry, ...]) -> None:
        self._archive = archive
        self.entries = entries

    def blocks(self, entry: ZipEntry) -> Iterator[bytes]:
        """The content of an entry in blocks of at most BLOCK bytes; the caller stops when it has had enough. Raises ZipInvalid."""
        with _translated(), self._archive.open(entry.info) as packed:
            while block := packed.read(BLOCK):
                yield block


@contextmanager
def opened_zip(file: IO[bytes]) -> Iterator[ZipArchive]:
    """The archive in a seekable file. Reads at most MOST_DIRECTORY bytes of its directory. Raises ZipInvalid, ZipTooLarge."""
    with _translated():
        _check_end(file)
        archive = zipfile.ZipFile(file)
    with archive:
        infos = archive.infolist()
        if len(infos) > MOST_ENTRIES:
            raise ZipTooLarge(f"The archive has {len(infos)} entries; {MOST_ENTRIES} are allowed.")
        _check_overlap(infos, archive.start_dir)
        yield ZipArchive(archive, tuple(_entry(info) for info in infos if not info.is_dir()))


def _check_end(file: IO[bytes]) -> None:
    """Look at the last record as zipfile does, before zipfile does."""
    size = file.seek(0, os.SEEK_END)
    start = max(0, size - _END.size - _LONGEST_COMMENT - _LOCATOR_SIZE)
    file.seek(start)
    tail = file.read()
    file.seek(0)
    at = len(tail) - _END.size
    if at < 0 or tail[at : at + 4] != _END_SIGNATURE or tail[-2:] != b"\0\0":
        at = tail.rfind(_END_SIGNATURE)
    if at < 0 or at + _END.size > len(tail):
        raise ZipInvalid("The archive cannot be read: it has no end. Send a zip of one folder.")
    _, disk, first, here, count, directory, offset, _ = _END.unpack_from(tail, at)
    is_zip64 = tail[max(0, at - _LOCATOR_SIZE) : at].startswith(_ZIP64_LOCATOR)
    if is_zip64 or count == 0xFFFF or 0xFFFFFFFF in (directory, offset):
        raise ZipInvalid("The archive is in the zip64 form, which no skill needs. Pack it without.")
    if disk or first or here != count:
        raise ZipInvalid("The archive cannot be read: it is one of several parts. Send a zip of one folder.")
    if count > MOST_ENTRIES or directory > MOST_DIRECTORY:
        raise ZipTooLarge(
            f"The archive has {count} entries in a directory of {directory} bytes; {MOST_ENTRIES} in {MOST_DIRECTORY} are allowed."
        )


def _check_overlap(infos: list[zipfile.ZipInfo], directory: int) -> None:
    """Each entry's bytes are its own: none begins before the one in front of it has ended."""
    in_order = sorted(infos, key=lambda info: info.header_offset)
    begins = [*(info.header_offset for info in in_order), directory][1:]
    for info, limit in zip(in_order, begins, strict=True):
        name = len(info.orig_filename.encode("utf-8" if info.flag_bits & 0x800 else "cp437", errors="replace"))
        if info.header_offset < 0 or info.header_offset + _LOCAL_HEADER + name + info.compress_size > limit:
            raise ZipInvalid("Entries of the archive overlap. Send a zip of one folder.")


def _entry(info: zipfile.ZipInfo) -> ZipEntry:
    shown = f"{info.orig_filename[:100]!r}"
    mode = info.external_attr >> 16
    if info.flag_bits & _ENCRYPTED or info.compress_type not in _METHODS:
        raise ZipInvalid(f"{shown} is encrypted or packed in a rare way. Use deflate.")
    if stat.S_IFMT(mode) not in (0, stat.S_IFREG):
        raise ZipInvalid(f"{shown} is not a regular file. Links and devices are not taken.")
    # zipfile ends a name at NUL; the whole one is what gets checked as a path.
    return ZipEntry(path=info.orig_filename, is_program=bool(mode & 0o111), info=info)


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except (
        zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError, struct.error, OverflowError
    ) as error:  # fmt: skip
        raise ZipInvalid(f"The archive cannot be read: {str(error)[:200]}. Send a zip of one folder.") from error
