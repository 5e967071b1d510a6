"""A skill's files, read from a zip, from uploaded parts or from one markdown text, and checked. Unpacks in memory; writes nothing.

The rules are agentskills.io's for SKILL.md and OpenAI's for the bundle (contract 1.6); what an archive says of itself is not believed.
"""

import posixpath
import re
import stat
import zipfile
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import yaml

from limpet.core.errors import RequestInvalid, RequestTooLarge

MIB = 1 << 20
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
_ENCRYPTED = 0x1
_PLAIN = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleFile:
    """One file. `path` is relative to the skill's own folder, `is_program` whether it may be executed."""

    path: str
    data: bytes
    is_program: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """A skill that may be stored and mounted: what SKILL.md says it is, and its files, by path."""

    name: str
    description: str
    files: tuple[BundleFile, ...]

    def zipped(self) -> bytes:
        """As one archive with the skill's folder at its top; the same bytes for the same bundle."""
        archive = BytesIO()
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
            for file in self.files:
                entry = zipfile.ZipInfo(f"{self.name}/{file.path}", date_time=(1980, 1, 1, 0, 0, 0))
                entry.external_attr = (stat.S_IFREG | (0o755 if file.is_program else 0o644)) << 16
                entry.compress_type = zipfile.ZIP_DEFLATED
                packed.writestr(entry, file.data)
        return archive.getvalue()


def from_zip(data: bytes, *, param: str = "files") -> Bundle:
    """The bundle in an archive. Raises RequestInvalid, RequestTooLarge; neither leaves anything behind."""
    if len(data) > MOST_ZIP:
        raise _too_large(f"The archive has {len(data)} bytes", f"{MOST_ZIP} are allowed", param)
    try:
        with zipfile.ZipFile(BytesIO(data)) as archive:
            entries = [entry for entry in archive.infolist() if not entry.is_dir()]
            if len(entries) > MOST_FILES:
                raise _too_large(f"The archive has {len(entries)} files", f"{MOST_FILES} are allowed", param)
            files = _unpacked(archive, entries, param)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, ValueError) as error:
        raise _invalid(f"The archive cannot be read: {error}.", "Send a zip of one folder.", param) from error
    return _bundle(files, param)


def from_parts(parts: Iterable[tuple[str, bytes]], *, param: str = "files") -> Bundle:
    """The bundle of uploaded parts, whose names are paths with the skill's folder at their top. Raises as `from_zip`."""
    files: list[BundleFile] = []
    left = MOST_UNPACKED
    for path, data in parts:
        left -= len(data)
        if len(files) >= MOST_FILES or len(data) > MOST_FILE or left < 0:
            allowed = f"{MOST_FILES} files of {MOST_FILE} bytes, {MOST_UNPACKED} bytes in all, are allowed"
            raise _too_large("The upload is too large", allowed, param)
        files.append(BundleFile(path=safe_path(path, param), data=data, is_program=data[:2] == b"#!"))
    return _bundle(files, param)


def from_markdown(data: bytes, *, name: str, description: str, param: str) -> Bundle:
    """The bundle of one text, which becomes SKILL.md with the name and the description of the request (DECISIONS, seed 04).

    Front matter of its own is not needed, and does not count. Raises RequestInvalid.
    """
    if len(data) > MOST_FILE:
        raise _too_large(f"The text has {len(data)} bytes", f"{MOST_FILE} are allowed", param)
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise _invalid("The markdown is not UTF-8.", "Encode it as UTF-8, then as base64.", param) from error
    checked_name(name, param)
    _checked_description(description, param)
    body = _FRONT.sub(b"", data).decode(errors="replace") if _FRONT.match(data) else text
    front = yaml.safe_dump({"name": name, "description": description}, sort_keys=False, allow_unicode=True)
    manifest = BundleFile(path=MANIFEST, data=f"---\n{front}---\n{body}".encode())
    return Bundle(name=name, description=description, files=(manifest,))


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
            f"{str(name)[:80]!r} cannot be a skill's name.",
            "Use 1 to 64 lower-case letters, digits and single hyphens between them, such as extract-csv.",
            param,
        )
    return name


def _unpacked(archive: zipfile.ZipFile, entries: Sequence[zipfile.ZipInfo], param: str) -> list[BundleFile]:
    files = []
    left = MOST_UNPACKED
    for entry in entries:
        mode = entry.external_attr >> 16
        if entry.flag_bits & _ENCRYPTED or entry.compress_type not in _PLAIN:
            raise _invalid(f"{entry.filename[:100]!r} is encrypted or packed in a rare way.", "Use deflate.", param)
        if stat.S_IFMT(mode) not in (0, stat.S_IFREG):
            raise _invalid(
                f"{entry.filename[:100]!r} is not a regular file.", "Links and devices are not taken.", param
            )
        # Read to a bound of our own: the size in the archive's directory is only a claim.
        with archive.open(entry) as packed:
            data = packed.read(min(MOST_FILE, left) + 1)
        left -= len(data)
        if len(data) > MOST_FILE or left < 0:
            allowed = f"{MOST_FILE} bytes a file and {MOST_UNPACKED} in all are allowed"
            raise _too_large(f"{entry.filename[:100]!r} is too large unpacked", allowed, param)
        files.append(BundleFile(path=safe_path(entry.filename, param), data=data, is_program=bool(mode & 0o111)))
    return files


def _bundle(files: Sequence[BundleFile], param: str) -> Bundle:
    """From files below one folder to a bundle whose paths begin inside of it."""
    folders = {file.path.partition("/")[0] for file in files}
    if len(folders) != 1 or any("/" not in file.path for file in files):
        raise _invalid(
            "A skill is exactly one folder with its files in it.", "Pack it as my-skill/SKILL.md and so on.", param
        )
    (folder,) = folders
    inside = [
        BundleFile(path=file.path[len(folder) + 1 :], data=file.data, is_program=file.is_program) for file in files
    ]
    _check_paths([file.path for file in inside], param)
    manifests = [file for file in inside if posixpath.basename(file.path).lower() == MANIFEST.lower()]
    if len(manifests) != 1 or "/" in manifests[0].path:
        raise _invalid(
            f"It has {len(manifests)} files named {MANIFEST}.", f"Exactly one is needed, as {folder}/{MANIFEST}.", param
        )
    front = _front_matter(manifests[0].data, param)
    name = checked_name(front.get("name"), param)
    if name != folder:
        raise _invalid(f"{MANIFEST} names the skill {name!r}, its folder is {folder!r}.", "Give both one name.", param)
    files_in_order = sorted(
        (file if file is not manifests[0] else BundleFile(path=MANIFEST, data=file.data) for file in inside),
        key=lambda file: file.path,
    )
    return Bundle(
        name=name, description=_checked_description(front.get("description"), param), files=tuple(files_in_order)
    )


def _check_paths(paths: Sequence[str], param: str) -> None:
    """No path twice, not even where capitals do not count, and no file where another needs a directory."""
    lowered = {path.lower() for path in paths}
    directories = {
        "/".join(path.lower().split("/")[:depth]) for path in paths for depth in range(1, path.count("/") + 1)
    }
    if len(lowered) != len(paths) or lowered & directories:
        raise _invalid("Two of its files have the same path.", "Give each a path of its own.", param)


def _front_matter(data: bytes, param: str) -> Mapping[str, Any]:
    remedy = f"Begin {MANIFEST} with ---, name: …, description: … and --- again (agentskills.io/specification)."
    match = _FRONT.match(data[:MOST_HEAD])
    if match is None:
        raise _invalid(f"{MANIFEST} has no front matter.", remedy, param)
    try:
        front = yaml.safe_load(match[1].decode())
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise _invalid(f"The front matter of {MANIFEST} is not YAML.", remedy, param) from error
    if not isinstance(front, dict):
        raise _invalid(f"The front matter of {MANIFEST} is not a mapping.", remedy, param)
    compatibility = front.get("compatibility")
    if compatibility is not None and (not isinstance(compatibility, str) or not 0 < len(compatibility) <= 500):
        raise _invalid("`compatibility` is text of at most 500 characters.", remedy, param)
    if front.get("metadata") is not None and not isinstance(front["metadata"], dict):
        raise _invalid("`metadata` is a mapping.", remedy, param)
    return front


def _checked_description(description: object, param: str) -> str:
    if not isinstance(description, str) or not description.strip() or len(description) > 1024:
        raise _invalid(
            "The skill has no description of 1 to 1024 characters.", "Say what it does and when to use it.", param
        )
    return description


def _invalid(reason: str, remedy: str, param: str) -> RequestInvalid:
    return RequestInvalid(f"{reason} {remedy}", param=param, code="invalid_skill")


def _too_large(reason: str, allowed: str, param: str) -> RequestTooLarge:
    return RequestTooLarge(f"{reason}; {allowed}.", param=param, code="skill_too_large")
