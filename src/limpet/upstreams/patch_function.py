"""`apply_patch` as a function tool, for models that know no such tool of their own: its schema, what a call of it says, what comes back.
Pure."""

import json
from collections.abc import Mapping
from typing import Any

TYPE = NAME = "apply_patch"
OPERATIONS = ("create_file", "update_file", "delete_file")
_NAMED = {"create": "create_file", "add": "create_file", "update": "update_file", "delete": "delete_file"}

DESCRIPTION = """Creates, changes or deletes one text file. `path` is relative to the working directory. `diff` is in the format V4A. \
Of a new file every line begins with +. Of a file that is there it has hunks: `@@`, or `@@ ` and a line above that tells where (such as \
`@@ def main():`), then about three lines of context that begin with a space, as they stand in the file, lines to remove that begin with - \
and lines to add that begin with +. There are no line numbers. For example:
@@ def greet():
     name = "you"
-    print("Hi")
+    print("Hello")
     return name
A diff that does not fit changes nothing, and the answer says what differs."""


def parameters() -> dict[str, Any]:
    """The JSON schema of the function's arguments."""
    return {
        "type": "object",
        "properties": {
            "type": {"type": "string", "enum": list(OPERATIONS)},
            "path": {"type": "string", "description": "The file, relative to the working directory."},
            "diff": {"type": "string", "description": "In the format V4A; left out for delete_file."},
        },
        "required": ["type", "path"],
        "additionalProperties": False,
    }


def read_operation(arguments: str) -> dict[str, Any]:
    """What a call asks for, as an item has it. Also read: the arguments wrapped in `operation`, JSON encoded twice. What cannot be read,
    such as half of a surrogate pair, is an update of no file, with the arguments as its diff; it is answered as a failed call."""
    value: object = arguments
    for _ in range(3):
        if isinstance(value, str):
            try:
                value = json.loads(value)
            except (ValueError, RecursionError):
                break
        if isinstance(value, Mapping) and isinstance(value.get("operation"), Mapping | str) and "path" not in value:
            value = value["operation"]
    kind = str(value.get("type", "")) if isinstance(value, Mapping) else ""
    kind = _NAMED.get(kind, kind)
    path, diff = (value.get("path"), value.get("diff")) if isinstance(value, Mapping) else (None, None)
    if kind == "delete_file" and isinstance(path, str) and _is_whole(path):
        return {"type": kind, "path": path}
    if kind in OPERATIONS and isinstance(path, str) and isinstance(diff, str) and _is_whole(path + diff):
        return {"type": kind, "path": path, "diff": diff}
    # Halves are in the text itself where a provider gives arguments that are decoded already; no stored or sent JSON could have them.
    return {"type": "update_file", "path": "", "diff": arguments.encode(errors="replace").decode()}


def _is_whole(text: str) -> bool:
    """Whether UTF-8 has the text: it has no half of a surrogate pair."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def call_arguments(item: Mapping[str, Any]) -> str:
    """The arguments that an `apply_patch_call` item stands for."""
    return json.dumps(item.get("operation") or {}, ensure_ascii=False)


def output_text(item: Mapping[str, Any]) -> str:
    """What the model is given back for an `apply_patch_call_output` item."""
    output = item.get("output")
    return f"{item.get('status')}{': ' if output else ''}{output or ''}"


def is_patch_tool(tool: Mapping[str, Any]) -> bool:
    return tool.get("type") == TYPE
