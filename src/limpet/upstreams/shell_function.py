"""The shell as a function tool, for models that know no shell of their own: its schema, what a call of it says, what comes back.
Pure. What a model writes is read kindly; what cannot be read becomes BadArguments, whose reason the model is given.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic_core import from_json

from limpet.core import exit_codes
from limpet.core.errors import UpstreamRefused
from limpet.upstreams.upstream import BadArguments, ShellArguments, Turn

NAME = "shell"
# What models write for `command` that other tools have; nothing is run for them.
OTHER_WORDS = ("cmd", "cmds", "script", "code", "bash", "shell", "input")
_DIGITS = 20
QUOTED = 256
SHOWN_FILES = 100  # of those that a call wrote
WANTED = 'Send {"commands": ["…"]}: a list of at least one command text, with timeout_ms and max_output_length as optional whole numbers.'

_REPARSE_ALWAYS_BELOW = 4_096
_REPARSE_GROWTH = 16


def parameters() -> dict[str, Any]:
    """The JSON schema of the function's arguments."""
    return {
        "type": "object",
        "properties": {
            "commands": {
                "type": "array",
                "items": {"type": "string"},
                "minItems": 1,
                "description": "Shell commands, run one after the other, each in a new shell in the working directory.",
            },
            "timeout_ms": {
                "type": "integer",
                "minimum": 1,
                "description": "Time limit of each command, in milliseconds.",
            },
            "max_output_length": {
                "type": "integer",
                "minimum": 1,
                "description": "How many characters of output to give back.",
            },
        },
        "required": ["commands"],
        "additionalProperties": False,
    }


def tool(description: str) -> dict[str, Any]:
    """The function tool in the Responses API's shape."""
    return {
        "type": "function",
        "name": NAME,
        "description": description,
        "parameters": parameters(),
        "strict": False,
    }


def refuse_taken_name(turn: Turn, *, provider: str) -> None:
    """Raises UpstreamRefused (400) when the shell is shown as a function and a client's function has its name."""
    taken = any(tool.get("type") in ("function", "custom") and tool.get("name") == NAME for tool in turn.tools)
    if turn.shell is not None and taken:
        raise name_taken(provider)


def name_taken(provider: str) -> UpstreamRefused:
    """The refusal (400) of a client's tool that is named as the shell is."""
    return UpstreamRefused(
        provider,
        400,
        "A function tool is named 'shell', which is the name under which this provider's models see the shell. "
        "Rename the function, or leave out the shell tool.",
        code="tool_name_taken",
        param="tools",
    )


def read_arguments(text: str) -> ShellArguments | BadArguments:
    """What a call's argument text asks for. Also read: a single command as text, `command` for `commands`, the arguments wrapped in
    `action`, JSON encoded twice."""
    value: object = text
    for _ in range(3):
        if isinstance(value, str):
            try:
                value = json.loads(value)
            except (ValueError, RecursionError):  # what is no JSON, or nested deeper than Python's stack
                return _bad("The arguments are not JSON.", text)
        if isinstance(value, Mapping) and "action" in value and "commands" not in value:
            value = value["action"]
    if not isinstance(value, Mapping):
        return _bad("The arguments are not a JSON object.", text)
    return read_action(value, raw=text)


def read_action(action: Mapping[str, Any], *, raw: str) -> ShellArguments | BadArguments:
    """The same for arguments that are an object already, such as the `action` of a `shell_call`."""
    commands = action.get("commands", action.get("command"))
    if commands is None and (other := next((name for name in OTHER_WORDS if name in action), None)) is not None:
        return _bad(f"`{other}` is not an argument of it; did you mean `command` (a text) or `commands` (a list)?", raw)
    if isinstance(commands, str):
        commands = [commands]
    elif "commands" not in action and commands is not None:
        return _bad("`command` must be text.", raw)
    if not isinstance(commands, list) or not all(isinstance(command, str) for command in commands):
        return _bad("`commands` must be a list of texts.", raw)
    if not any(command.strip() for command in commands):
        return _bad("`commands` has no command.", raw)
    if any(_has_half_characters(command) for command in commands):
        return _bad("`commands` has half of a surrogate pair, which no shell can be given.", raw)
    numbers = {name: _whole(action.get(name)) for name in ("timeout_ms", "max_output_length")}
    for name, number in numbers.items():
        if number == 0:
            return _bad(f"`{name}` must be a whole number, 1 or more, or be left out.", raw)
    return ShellArguments(
        commands=tuple(commands),
        timeout_ms=numbers["timeout_ms"],
        max_output_length=numbers["max_output_length"],
    )


def broken_off(raw: str) -> BadArguments:
    """For a call that the provider marks as incomplete: it is never run, however whole it looks."""
    return _bad("The call broke off before its end, so nothing was run.", raw)


def _bad(problem: str, raw: str) -> BadArguments:
    quoted = raw[:QUOTED] + ("…" if len(raw) > QUOTED else "")
    return BadArguments(reason=f"{problem} {WANTED} Received: {quoted!r}", raw=raw)


def _has_half_characters(text: str) -> bool:
    return any("\ud800" <= character <= "\udfff" for character in text) if not text.isascii() else False


def _whole(value: object) -> int | None:
    """A positive whole number, None where there is none, 0 where it cannot be read as one."""
    if value is None:
        return None
    if isinstance(value, str) and len(value) <= _DIGITS and value.strip().isdecimal():
        value = int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        return 0
    return max(value, 0)


def call_arguments(call: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments that a canonical `shell_call` item stands for, without those that are null."""
    action = call.get("action") or {}
    given = {name: action.get(name) for name in ("timeout_ms", "max_output_length")}
    return {"commands": list(action.get("commands") or ())} | {
        name: value for name, value in given.items() if value is not None
    }


def output_text(output: Mapping[str, Any]) -> str:
    """What the model is given back for a `shell_call_output` item: per command its exit code, stdout and stderr, then the files."""
    entries = output.get("output") or ()
    parts = []
    for at, entry in enumerate(entries, start=1):
        head = f"[command {at} of {len(entries)}]\n" if len(entries) > 1 else ""
        parts.append(head + _entry_text(entry))
    files = output.get("output_files") or ()
    if files:
        more = len(files) - len(files[:SHOWN_FILES]) + (output.get("output_files_omitted") or 0)
        parts.append("\n".join(["files written:", *map(_file_line, files[:SHOWN_FILES]), *_more_line(more)]))
    return "\n\n".join(parts) or "no output"


def _entry_text(entry: Mapping[str, Any]) -> str:
    outcome = entry.get("outcome") or {}
    timed_out = outcome.get("type") == "timeout"
    lines = [
        f"exit code: {exit_codes.TIMED_OUT} (timed out)" if timed_out else f"exit code: {outcome.get('exit_code')}"
    ]
    for stream in ("stdout", "stderr"):
        if text := entry.get(stream):
            lines.append(f"{stream}:\n{text.rstrip()}")
    return "\n".join(lines) if len(lines) > 1 else f"{lines[0]}\n(no output)"


def _more_line(more: int) -> list[str]:
    return [f"… and {more} more"] if more else []


def _file_line(file: Mapping[str, Any]) -> str:
    size = file.get("bytes")
    return f"- {file.get('path')}" + ("" if size is None else f" ({size} bytes)")


class CommandsDecoder:
    """The commands of a call while the model still writes its arguments: `feed` the argument text piece by piece."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._length = 0
        self._read_again_at = 0
        self._shown: list[str] = []

    @property
    def text(self) -> str:
        """All argument text so far."""
        return "".join(self._pieces)

    def feed(self, piece: str) -> list[tuple[int, str]]:
        """What is new, as (command index, more text). Long arguments are looked at less often: the text is read from its start."""
        self._pieces.append(piece)
        self._length += len(piece)
        if self._length < self._read_again_at:
            return []
        if self._length > _REPARSE_ALWAYS_BELOW:
            self._read_again_at = self._length + self._length // _REPARSE_GROWTH
        return self._more(self.text)

    def _more(self, text: str) -> list[tuple[int, str]]:
        try:
            value = from_json(text, allow_partial="trailing-strings")
        except ValueError:
            return []
        commands = value.get("commands") if isinstance(value, dict) else None
        if not isinstance(commands, list) or not all(isinstance(command, str) for command in commands):
            return []
        return show_more(self._shown, commands)


def show_more(shown: list[str], commands: Sequence[str]) -> list[tuple[int, str]]:
    """What `commands` has beyond `shown`, as (command index, more text); `shown` is brought up to date."""
    new: list[tuple[int, str]] = []
    for at, command in enumerate(commands):
        if at == len(shown):
            shown.append("")
        if len(command) > len(shown[at]) and command.startswith(shown[at]):
            new.append((at, command[len(shown[at]) :]))
            shown[at] = command
    return new
