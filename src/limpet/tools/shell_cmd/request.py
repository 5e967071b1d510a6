"""A call of `shell_cmd` as a value: its arguments, read and checked as far as that needs no file. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from limpet.tools.arguments import read
from limpet.tools.failures import LONGEST, brief
from limpet.tools.shell_cmd.config import ShellCmdConfig
from limpet.tools.shell_cmd.programs import refuse_program
from limpet.tools.shell_cmd.refusal import CommandRefusal
from limpet.tools.shell_cmd.tokens import refuse_command, refuse_parameter, unquoted
from limpet.tools.tool import JsonObject

NAME = "shell_cmd"
LONGEST_TIMEOUT = 7 * 24 * 3_600_000  # milliseconds
EXAMPLE = {"command": "ls", "parameters": ["-la", "./"]}
FORMATS: tuple[Literal["markdown", "json"], ...] = ("markdown", "json")
DETAILS: tuple[Literal["minimal", "full"], ...] = ("minimal", "full")
PARAMETERS: JsonObject = {
    "type": "object",
    "properties": {
        "command": {"type": "string", "description": "The program alone, such as ls, cat, grep. No arguments, no shell syntax."},
        "parameters": {
            "type": "array",
            "items": {"type": "string"},
            "description": "Its arguments, one for each. No shell reads them: no variables, wildcards, pipes, quotes.",
        },
        "directory": {
            "type": "string",
            "description": "Where to run it, inside the trusted working directory, relative to that. Default: that directory.",
        },
        "timeout": {"type": "number", "description": "Milliseconds after which it is killed. Default 600000."},
        "output_format": {"type": "string", "enum": list(FORMATS), "description": "Default markdown."},
        "output_detail": {
            "type": "string",
            "enum": list(DETAILS),
            "description": "minimal (default) shows 400 characters of each stream; full only if the whole output is needed.",
        },
        "artifact_paths": {
            "type": "array",
            "items": {"type": "string"},
            "description": "Files inside the trusted working directory that the command writes: their size and SHA-256 are told.",
        },
    },
    "required": ["command"],
    "additionalProperties": False,
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellCmdRequest:
    """`timeout` is in seconds."""

    command: str
    parameters: tuple[str, ...]
    directory: str | None
    timeout: float
    format: Literal["markdown", "json"]
    detail: Literal["minimal", "full"]
    artifact_paths: tuple[str, ...]

    @property
    def line(self) -> str:
        """The command as a person reads it: words that hold white space are quoted, and what is long is cut."""
        return brief(" ".join([self.command, *map(_quoted, self.parameters)]), LONGEST)


def read_request(arguments: Mapping[str, Any], config: ShellCmdConfig) -> ShellCmdRequest:
    """The request. Raises BadArguments. A timeout of 0 means the default."""
    given = read(arguments, tool=NAME, names=tuple(PARAMETERS["properties"]), example=EXAMPLE)
    command = unquoted(given.text("command"))
    if not command.strip():
        raise given.wrong("command is empty")
    milliseconds = given.number("timeout", least=0, most=LONGEST_TIMEOUT)
    directory = given.optional_text("directory", may_be_empty=True)
    return ShellCmdRequest(
        command=command,
        parameters=given.texts("parameters"),
        directory=directory if directory and directory.strip() else None,
        timeout=milliseconds / 1000 if milliseconds else config.timeout,
        format=given.choice("output_format", FORMATS, default="markdown"),
        detail=given.choice("output_detail", DETAILS, default="minimal"),
        artifact_paths=tuple(dict.fromkeys(map(unquoted, given.texts("artifact_paths")))),
    )


def refuse_request(request: ShellCmdRequest, config: ShellCmdConfig) -> CommandRefusal | None:
    """Why its words cannot be run as they are, whatever files there are; None if nothing is wrong with them."""
    if found := refuse_command(request.command):
        return found
    if config.strict_syntax:
        for place, word in enumerate(request.parameters):
            if found := refuse_parameter(place, word):
                return found
    return refuse_program(request.command, request.parameters)


def is_ai_command(command: str, ai_commands: frozenset[str]) -> bool:
    """Whether the first word of `command` is an AI program, in any case."""
    words = command.split()
    return bool(words) and words[0].lower() in ai_commands


def _quoted(word: str) -> str:
    if word and not any(character.isspace() or character == '"' for character in word):
        return word
    return '"' + word.replace('"', '\\"') + '"'
