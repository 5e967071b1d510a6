"""The operations of the file tools, each with its description for a model. Bounded in size; the workspace's policy applies to all.

Field names (`path`, `type`, `lineNumber`, `includeGlob` …) are part of the tools' interface (docs/library.md) and do not change.
"""

import base64
import binascii
import json
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from limpet.core.ports import FileStat
from limpet.tools.arguments import Arguments
from limpet.tools.reading import read_bytes, read_lines
from limpet.tools.tool import JsonObject, failure
from limpet.tools.view import as_commands_know, as_files_know
from limpet.workspace.files import LIST_LIMIT
from limpet.workspace.search import SearchBounds
from limpet.workspace.workspace import Workspace

MOST_TEXT = 64 << 10  # bytes of JSON in one result
MOST_BYTES = MOST_TEXT * 3 // 4  # of a file, as base64 in one result
MOST_LINES = 2_000
MOST_ENTRIES = 1_000
MOST_MATCHES = 1_000
LONGEST_LINE = 500  # characters of a matching line
MOST_WRITTEN = 10 << 20
_MANY = (
    f"There are more than {LIST_LIMIT} entries; these are some of them. Look with glob, or with a command such as find."
)
_ENCODINGS = ("utf-8", "base64")
_TYPES = {"link": "symlink"}
_PATH: JsonObject = {"type": "string", "description": "Absolute, or relative to the working directory."}


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """`do` gets the workspace as a model may see it and the arguments; it raises BadArguments and LimpetError."""

    name: str
    description: str
    properties: JsonObject
    required: Sequence[str]
    example: JsonObject
    do: Callable[[Workspace, Arguments], Awaitable[JsonObject]]

    @property
    def parameters(self) -> JsonObject:
        return {
            "type": "object",
            "properties": self.properties,
            "required": list(self.required),
            "additionalProperties": False,
        }


async def _read_file(view: Workspace, given: Arguments) -> JsonObject:
    path = _path(view, given)
    encoding = given.choice("encoding", _ENCODINGS, default="utf-8")
    if encoding == "base64":
        start = given.whole("offset", least=0) or 0
        count = given.whole("limit", least=1, most=MOST_BYTES) or MOST_BYTES
        return await read_bytes(view, path, start=start, most=count)
    first = given.whole("offset", least=1) or 1
    count = given.whole("limit", least=1, most=MOST_LINES) or MOST_LINES
    return await read_lines(view, path, first=first, count=count, most=MOST_TEXT)


async def _write_file(view: Workspace, given: Arguments) -> JsonObject:
    path, content = _path(view, given), given.text("content", may_be_empty=True, nul=True)
    data = content.encode()
    if given.choice("encoding", _ENCODINGS, default="utf-8") == "base64":
        try:
            data = base64.b64decode(content, validate=True)
        except binascii.Error as error:
            raise given.wrong(f"content is not base64 ({error})") from error
    if len(data) > MOST_WRITTEN:
        raise given.wrong(f"content has {len(data)} bytes, and may have {MOST_WRITTEN}; write it in parts with append")
    if given.flag("append"):
        written = await view.files.append(path, data)
    else:
        written = await view.files.write(path, data)
    return {"path": as_commands_know(view, written.path), "size": written.size}


async def _edit_file(view: Workspace, given: Arguments) -> JsonObject:
    path, old = _path(view, given), given.text("old", may_be_empty=True, nul=True)
    new = given.text("new", may_be_empty=True, nul=True)
    written = await view.files.edit(path, old, new, everywhere=given.flag("everywhere"))
    return {"path": as_commands_know(view, written.path), "size": written.size}


async def _list_files(view: Workspace, given: Arguments) -> JsonObject:
    path = _root(view, given)
    most = given.whole("limit", least=1, most=MOST_ENTRIES) or MOST_ENTRIES
    found = await view.files.list(path, recursive=given.flag("recursive"))
    entries, complete = _within(_entry(view, one) for one in found[:most])
    is_all = len(found) <= most and len(found) < LIST_LIMIT
    return {
        "path": as_commands_know(view, path),
        "entries": entries,
        "total": len(found),
        "complete": complete and is_all,
        **_note(_MANY if len(found) >= LIST_LIMIT else ""),
    }


async def _glob(view: Workspace, given: Arguments) -> JsonObject:
    root = _root(view, given)
    await view.files.stat(root)  # a pattern below what is not there finds nothing and raises nothing
    found = await view.files.glob(given.text("pattern"), root=root, bounds=SearchBounds(results=MOST_ENTRIES))
    paths, complete = _within(as_commands_know(view, entry.path) for entry in found.paths)
    return {"paths": paths, "complete": complete and found.complete, **_note(found.note)}


async def _grep(view: Workspace, given: Arguments) -> JsonObject:
    found = await view.files.grep(
        given.text("pattern"),
        root=_root(view, given),
        include=given.optional_text("includeGlob"),
        ignore_case=given.flag("ignoreCase"),
        bounds=SearchBounds(results=given.whole("maxResults", least=1, most=MOST_MATCHES) or MOST_MATCHES),
    )
    lines = (
        {"path": as_commands_know(view, one.path), "lineNumber": one.line, "line": _line(view.redactor.bytes(one.text))}
        for one in found.matches
    )
    matches, complete = _within(lines)
    skipped, _ = _within(as_commands_know(view, path) for path in found.skipped[:MOST_ENTRIES])
    return {
        "matches": matches,
        "complete": complete and found.complete,
        **({"skippedPaths": skipped} if skipped else {}),
        **_note(found.note),
    }


async def _stat(view: Workspace, given: Arguments) -> JsonObject:
    found = await view.files.stat(_path(view, given))
    target = {"target": found.target} if found.kind == "link" else {}
    return {**_entry(view, found), "mode": f"{found.mode:04o}", **target}


async def _remove(view: Workspace, given: Arguments) -> JsonObject:
    path, recursive = _path(view, given), given.flag("recursive")
    found = await view.files.stat(path)
    if found.kind == "directory" and not recursive and await view.files.list(path, limit=1):
        return failure(
            "not_empty", f"{path} is a directory with something in it. Set recursive to true to remove all of it."
        )
    await view.files.remove(path)
    return {"path": as_commands_know(view, found.path), "removed": True}


async def _mkdir(view: Workspace, given: Arguments) -> JsonObject:
    made = await view.files.mkdir(_path(view, given))
    return {"path": as_commands_know(view, made.path)}


def _path(view: Workspace, given: Arguments) -> str:
    return as_files_know(view, given.text("path"))


def _root(view: Workspace, given: Arguments) -> str:
    return as_files_know(view, given.optional_text("path") or view.directory)


def _entry(view: Workspace, found: FileStat) -> JsonObject:
    return {
        "name": found.path.rsplit("/", 1)[-1],
        "path": as_commands_know(view, found.path),
        "type": _TYPES.get(found.kind, found.kind),
        "size": found.size,
        "modified": datetime.fromtimestamp(found.modified / 1e9, tz=UTC).isoformat(timespec="milliseconds"),
    }


def _line(data: bytes) -> str:
    text = data.decode("utf-8", errors="replace")
    return text if len(text) <= LONGEST_LINE else f"{text[:LONGEST_LINE]}… [{len(text)} characters]"


def _within(items: Iterable[Any]) -> tuple[list[Any], bool]:
    """The first of them that fit into one result, and whether that is all."""
    kept: list[Any] = []
    room = MOST_TEXT
    for item in items:
        room -= len(json.dumps(item))
        if room < 0:
            return kept, False
        kept.append(item)
    return kept, True


def _note(note: str) -> JsonObject:
    return {"note": note} if note else {}


OPERATIONS: Sequence[Operation] = (
    Operation(
        name="read_file",
        description=(
            f"Reads a text file: at most {MOST_LINES} lines and {MOST_TEXT >> 10} KiB from line `offset` on; `nextOffset` in the result"
            " says where to go on. With encoding base64, bytes from byte `offset` on."
        ),
        properties={
            "path": _PATH,
            "offset": {
                "type": "integer",
                "description": "The first line, from 1 (default); the first byte with base64.",
            },
            "limit": {
                "type": "integer",
                "description": f"Lines, or bytes with base64. Default and most: {MOST_LINES}, {MOST_BYTES}.",
            },
            "encoding": {"type": "string", "enum": list(_ENCODINGS), "description": "Default utf-8."},
        },
        required=["path"],
        example={"path": "src/main.py", "offset": 1, "limit": 200},
        do=_read_file,
    ),
    Operation(
        name="write_file",
        description="Writes a whole file, or adds to its end with append. Directories on the way are made.",
        properties={
            "path": _PATH,
            "content": {"type": "string", "description": f"At most {MOST_WRITTEN >> 20} MiB."},
            "append": {"type": "boolean", "description": "Add to the end instead. Default false."},
            "encoding": {"type": "string", "enum": list(_ENCODINGS), "description": "Of content. Default utf-8."},
        },
        required=["path", "content"],
        example={"path": "notes.txt", "content": "first line\n"},
        do=_write_file,
    ),
    Operation(
        name="edit_file",
        description="Replaces a text that stands in a file exactly once, or everywhere where that is asked for.",
        properties={
            "path": _PATH,
            "old": {"type": "string", "description": "The text as it stands in the file, with its white space."},
            "new": {"type": "string"},
            "everywhere": {"type": "boolean", "description": "Replace every occurrence. Default false."},
        },
        required=["path", "old", "new"],
        example={"path": "notes.txt", "old": "first line", "new": "First line"},
        do=_edit_file,
    ),
    Operation(
        name="list_files",
        description=f"Lists a directory, at most {MOST_ENTRIES} entries. Links are shown, not followed.",
        properties={
            "path": {**_PATH, "description": "The directory. Default: the working directory."},
            "recursive": {"type": "boolean", "description": "Everything below it too. Default false."},
            "limit": {"type": "integer", "description": f"Entries. Default and most: {MOST_ENTRIES}."},
        },
        required=[],
        example={"path": "src", "recursive": True},
        do=_list_files,
    ),
    Operation(
        name="glob",
        description="Finds files by name: * and ? within a name, ** across directories, [a-z], {a,b}.",
        properties={
            "pattern": {"type": "string"},
            "path": {**_PATH, "description": "Where to look. Default: the working directory."},
        },
        required=["pattern"],
        example={"pattern": "**/*.py"},
        do=_glob,
    ),
    Operation(
        name="grep",
        description="Finds lines by a regular expression (RE2's syntax) in the text files below a directory, or in one file.",
        properties={
            "pattern": {"type": "string"},
            "path": {**_PATH, "description": "Where to look. Default: the working directory."},
            "includeGlob": {"type": "string", "description": "Only files of such names, as *.py."},
            "ignoreCase": {"type": "boolean", "description": "Default false."},
            "maxResults": {"type": "integer", "description": f"Default and most: {MOST_MATCHES}."},
        },
        required=["pattern"],
        example={"pattern": "def main", "includeGlob": "*.py"},
        do=_grep,
    ),
    Operation(
        name="stat",
        description="Says of one path what it is: type, size, time of its last change, mode. Links are described, not followed.",
        properties={"path": _PATH},
        required=["path"],
        example={"path": "notes.txt"},
        do=_stat,
    ),
    Operation(
        name="remove",
        description="Removes a file, a link, or a directory; one with something in it only where recursive is true.",
        properties={"path": _PATH, "recursive": {"type": "boolean", "description": "Default false."}},
        required=["path"],
        example={"path": "notes.txt"},
        do=_remove,
    ),
    Operation(
        name="mkdir",
        description="Makes a directory and those on the way to it. One that is there already is fine.",
        properties={"path": _PATH},
        required=["path"],
        example={"path": "build/out"},
        do=_mkdir,
    ),
)
