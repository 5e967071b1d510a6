"""A skill's files, unpacked from a zip, from uploaded parts or from one markdown text into a directory, and checked. Blocking.

The rules are agentskills.io's for SKILL.md and OpenAI's for the bundle. Content goes through in blocks: a skill of any size takes a
few hundred KiB of memory. Where a function raises, what it wrote so far stays, for the owner of the directory to remove.
"""

import os
import posixpath
import re
import shutil
import stat
import unicodedata
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

import yaml

from limpet.containers.front_matter import FrontMatterInvalid, OtherScalar, Value, read_front_matter
from limpet.containers.unpack_budget import MIB, UnpackBudget
from limpet.containers.zip_archive import ZipArchive, ZipInvalid, ZipTooLarge, opened_zip
from limpet.core.errors import RequestInvalid, RequestTooLarge

MOST_ZIP = 50 * MIB
MOST_FILE = 25 * MIB
MOST_UNPACKED = 200 * MIB
MOST_FILES = 500
MOST_PATH = 255
MOST_DEPTH = 16
MOST_HEAD = 64 << 10
MANIFEST = "SKILL.md"
_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_FRONT = re.compile(rb"\A(?:\xef\xbb\xbf)?---[ \t]*\r?\n(.*?)\r?\n---[ \t]*(?:\r?\n|\Z)", re.DOTALL)
_DIRECTORY_MODE, _FILE_MODE, _PROGRAM_MODE = 0o755, 0o644, 0o755


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleFile:
    """One file. `path` is relative to the skill's own folder, `is_program` whether it may be executed."""

    path: str
    bytes: int
    is_program: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillBundle:
    """A skill that may be stored and mounted: what SKILL.md says it is, the directory that holds its files, and these by path."""

    name: str
    description: str
    directory: Path
    files: tuple[BundleFile, ...]

    @property
    def size(self) -> int:
        """Bytes, unpacked."""
        return sum(file.bytes for file in self.files)

    def pack(self, into: IO[bytes]) -> None:
        """Write it as one archive with the skill's folder at its top; the same bytes for the same bundle."""
        with zipfile.ZipFile(into, "w", zipfile.ZIP_DEFLATED) as packed:
            for file in self.files:
                entry = zipfile.ZipInfo(f"{self.name}/{file.path}", date_time=(1980, 1, 1, 0, 0, 0))
                entry.external_attr = (stat.S_IFREG | (_PROGRAM_MODE if file.is_program else _FILE_MODE)) << 16
                entry.compress_type = zipfile.ZIP_DEFLATED
                entry.file_size = file.bytes
                with (self.directory / file.path).open("rb") as source, packed.open(entry, "w") as target:
                    shutil.copyfileobj(source, target)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """An uploaded file of a skill: its path with the skill's folder at the top, and the file that holds its bytes now."""

    path: str
    file: Path


def from_zip(file: IO[bytes], directory: Path, *, budget: UnpackBudget, param: str = "files") -> SkillBundle:
    """The bundle in an archive, unpacked below `directory`, which is empty. Raises RequestInvalid, RequestTooLarge."""
    size = file.seek(0, os.SEEK_END)
    if size > MOST_ZIP:
        raise _too_large(f"The archive has {size} bytes", f"{MOST_ZIP} are allowed", param)
    try:
        with opened_zip(file) as archive:
            if len(archive.entries) > MOST_FILES:
                raise _too_large(f"The archive has {len(archive.entries)} files", f"{MOST_FILES} are allowed", param)
            folder, paths = _checked_paths([entry.path for entry in archive.entries], param)
            return _bundle(_unpacked(archive, paths, directory, budget, param), folder, directory, param)
    except ZipTooLarge as error:
        raise RequestTooLarge(str(error), param=param, code="skill_too_large") from error
    except ZipInvalid as error:
        raise RequestInvalid(str(error), param=param, code="invalid_skill") from error


def from_parts(parts: Sequence[Part], directory: Path, *, budget: UnpackBudget, param: str = "files") -> SkillBundle:
    """The bundle of uploaded parts, whose files are moved below `directory`, which is empty. Raises as `from_zip`."""
    if len(parts) > MOST_FILES:
        raise _too_large(f"The upload has {len(parts)} files", f"{MOST_FILES} are allowed", param)
    folder, paths = _checked_paths([part.path for part in parts], param)
    files = []
    for part, path in zip(parts, paths, strict=True):
        size = part.file.stat().st_size
        _check_size(size, path, param)
        budget.take_file(param)
        budget.take_bytes(size, param)
        with part.file.open("rb") as head:
            file = BundleFile(path=path, bytes=size, is_program=head.read(2) == b"#!")
        target = _place(directory, path, budget, param)
        part.file.rename(target)
        _set_mode(target, file)
        files.append(file)
    return _bundle(files, folder, directory, param)


def from_markdown(
    data: bytes, directory: Path, *, name: str, description: str, budget: UnpackBudget, param: str
) -> SkillBundle:
    """The bundle of one text, which becomes SKILL.md below `directory` with the name and the description of the request.

    Front matter of its own is not needed, and does not count. Raises RequestInvalid, RequestTooLarge.
    """
    _check_size(len(data), MANIFEST, param)
    try:
        data.decode()
    except UnicodeDecodeError as error:
        raise _invalid("The markdown is not UTF-8.", "Encode it as UTF-8, then as base64.", param) from error
    checked_name(name, param)
    checked_description(description, param)
    match = _FRONT.match(data[:MOST_HEAD])
    front = yaml.safe_dump({"name": name, "description": description}, sort_keys=False, allow_unicode=True)
    content = f"---\n{front}---\n".encode() + data[match.end() if match else 0 :]
    budget.take_file(param)
    budget.take_bytes(len(content), param)
    manifest = BundleFile(path=MANIFEST, bytes=len(content))
    _write(_place(directory, MANIFEST, budget, param), manifest, [content])
    return SkillBundle(name=name, description=description, directory=directory, files=(manifest,))


def safe_path(path: str, param: str) -> str:
    """A path inside a bundle. Raises RequestInvalid for one that leads out of it, or that no file system of ours should hold."""
    parts = path.split("/")
    problem = (
        not path
        or len(path.encode(errors="replace")) > MOST_PATH
        or len(parts) > MOST_DEPTH
        or any(part in ("", ".", "..") for part in parts)
        or "\\" in path
        or not path.isprintable()
        or re.match(r"[A-Za-z]:", path) is not None
    )
    if problem:
        raise _invalid(
            f"{path[:100]!r} cannot be a path in a skill.",
            "Use relative paths with /, such as my-skill/SKILL.md, without .. and control characters.",
            param,
        )
    return path


def checked_name(name: object, param: str) -> str:
    """A skill's name, as agentskills.io has it. Raises RequestInvalid."""
    if not isinstance(name, str) or len(name) > 64 or _NAME.fullmatch(name) is None:
        raise _invalid(
            f"{_shown(name)} cannot be a skill's name.",
            "Use 1 to 64 lower-case letters, digits and single hyphens between them, such as extract-csv.",
            param,
        )
    return name


def checked_description(description: object, param: str) -> str:
    """A skill's description: 1 to 1024 characters that say something. Raises RequestInvalid."""
    if not isinstance(description, str) or not description.strip() or len(description) > 1024:
        given = f" ({_shown(description)} is none)" if isinstance(description, OtherScalar | list | dict) else ""
        raise _invalid(
            f"The skill has no description of 1 to 1024 characters{given}.",
            "Say what it does and when to use it.",
            param,
        )
    if any(ord(letter) < 32 and letter not in "\n\r\t" for letter in description):
        raise _invalid("The skill's description holds control characters.", "Use letters, spaces and line ends.", param)
    return description


def _checked_paths(paths: Sequence[str], param: str) -> tuple[str, list[str]]:
    """The one folder of all paths, and the paths inside of it. Raises RequestInvalid."""
    for path in paths:
        safe_path(path, param)
    folders = {path.partition("/")[0] for path in paths}
    if len(folders) != 1 or any("/" not in path for path in paths):
        raise _invalid(
            "A skill is exactly one folder with its files in it.", "Pack it as my-skill/SKILL.md and so on.", param
        )
    (folder,) = folders
    inside = [path[len(folder) + 1 :] for path in paths]
    _check_distinct(inside, param)
    manifests = [path for path in inside if posixpath.basename(path).lower() == MANIFEST.lower()]
    if len(manifests) != 1 or "/" in manifests[0]:
        raise _invalid(
            f"It has {len(manifests)} files named {MANIFEST}.", f"Exactly one is needed, as {folder}/{MANIFEST}.", param
        )
    return folder, [MANIFEST if path == manifests[0] else path for path in inside]


def _check_distinct(paths: Sequence[str], param: str) -> None:
    """No path twice, not even where capitals or the form of Unicode do not count, and no file where another needs a directory."""
    folded = [unicodedata.normalize("NFC", unicodedata.normalize("NFC", path).casefold()) for path in paths]
    directories = {"/".join(path.split("/")[:depth]) for path in folded for depth in range(1, path.count("/") + 1)}
    if len(set(folded)) != len(paths) or directories.intersection(folded):
        raise _invalid("Two of its files have the same path.", "Give each a path of its own.", param)


def _unpacked(
    archive: ZipArchive, paths: Sequence[str], directory: Path, budget: UnpackBudget, param: str
) -> list[BundleFile]:
    files = []
    for entry, path in zip(archive.entries, paths, strict=True):
        budget.take_file(param)
        file = BundleFile(path=path, bytes=0, is_program=entry.is_program)
        target = _place(directory, path, budget, param)
        files.append(_write(target, file, _counted(archive.blocks(entry), path, budget, param)))
    return files


def _counted(blocks: Iterator[bytes], path: str, budget: UnpackBudget, param: str) -> Iterator[bytes]:
    """The same blocks, broken off where there are too many: the size in the archive's directory is only a claim."""
    size = 0
    for block in blocks:
        size += len(block)
        _check_size(size, path, param)
        budget.take_bytes(len(block), param)
        yield block


def _check_size(size: int, path: str, param: str) -> None:
    if size > MOST_FILE:
        raise _too_large(f"{path[:100]!r} is too large unpacked", f"{MOST_FILE} bytes a file are allowed", param)


def _write(target: Path, file: BundleFile, blocks: Iterable[bytes]) -> BundleFile:
    size = 0
    with target.open("xb") as written:
        for block in blocks:
            size += written.write(block)
    _set_mode(target, file)
    return replace(file, bytes=size)


def _place(directory: Path, path: str, budget: UnpackBudget, param: str) -> Path:
    """Where a file goes, in directories that every user can pass, whatever this process's umask is. They count like files."""
    here = directory
    for name in path.split("/")[:-1]:
        here = here / name
        if not here.is_dir():
            budget.take_file(param)
            here.mkdir()
            here.chmod(_DIRECTORY_MODE)
    return directory / path


def _set_mode(target: Path, file: BundleFile) -> None:
    target.chmod(_PROGRAM_MODE if file.is_program else _FILE_MODE)


def _bundle(files: Sequence[BundleFile], folder: str, directory: Path, param: str) -> SkillBundle:
    with (directory / MANIFEST).open("rb") as manifest:
        front = _front_matter(manifest.read(MOST_HEAD + 16), param)
    name = checked_name(front.get("name"), param)
    if name != folder:
        raise _invalid(f"{MANIFEST} names the skill {name!r}, its folder is {folder!r}.", "Give both one name.", param)
    description = checked_description(front.get("description"), param)
    in_order = tuple(sorted(files, key=lambda file: file.path))
    return SkillBundle(name=name, description=description, directory=directory, files=in_order)


def _front_matter(data: bytes, param: str) -> Mapping[str, Value]:
    remedy = f"Begin {MANIFEST} with ---, name: …, description: … and --- again (agentskills.io/specification)."
    match = _FRONT.match(data)
    if match is None:
        raise _invalid(f"{MANIFEST} has no front matter.", remedy, param)
    try:
        front = read_front_matter(match[1])
    except FrontMatterInvalid as error:
        raise _invalid(f"The front matter of {MANIFEST} {error}.", remedy, param) from error
    compatibility = front.get("compatibility")
    if compatibility is not None and (not isinstance(compatibility, str) or not 0 < len(compatibility) <= 500):
        raise _invalid("`compatibility` is text of at most 500 characters.", remedy, param)
    if front.get("metadata") is not None and not isinstance(front["metadata"], dict):
        raise _invalid("`metadata` is a mapping.", remedy, param)
    for field in ("name", "description", "license"):
        if isinstance(value := front.get(field), OtherScalar):
            raise _invalid(f"`{field}` is {value.kind} in YAML, not text.", "Put it in quotes.", param)
    return front


def _shown(value: object) -> str:
    """A value of a stranger in an error: never formatted by its own rules, never long."""
    match value:
        case str():
            return repr(value[:80])
        case OtherScalar(kind):
            return kind
        case None:
            return "none"
        case _:
            return "a list" if isinstance(value, list) else "a mapping"


def _invalid(reason: str, remedy: str, param: str) -> RequestInvalid:
    return RequestInvalid(f"{reason} {remedy}", param=param, code="invalid_skill")


def _too_large(reason: str, allowed: str, param: str) -> RequestTooLarge:
    return RequestTooLarge(f"{reason}; {allowed}.", param=param, code="skill_too_large")
