"""What a model is shown of `Bash`, and its arguments read into one value. Decides nothing about them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from limpet.tools.arguments import Arguments, read
from limpet.tools.bash.config import LONGEST, SHORTEST, BashConfig
from limpet.tools.tool import JsonObject

NAME = "Bash"
EXAMPLE = {"command": "ls -la", "description": "List the files"}
# docs/bash-tool.md, "Parameters": the schema shows the model the first three; results tell it of the others where they help.
VISIBLE = ("command", "description", "run_in_background")
HIDDEN = ("task_id", "kill", "stdin_text", "close_stdin", "wait", "stream", "stream_pattern", "timeout", "cwd", "pty")


@dataclass(frozen=True, slots=True, kw_only=True)
class BashRequest:
    """One call, as the model meant it. `timeout` is in seconds and within bounds, None where none was given; `notes` say what was
    changed to get there."""

    command: str | None = None
    description: str = ""
    task_id: str | None = None
    background: bool = False
    kill: bool = False
    stdin_text: str | None = None
    close_stdin: bool = False
    wait: bool = False
    stream: bool = False
    pattern: str | None = None
    timeout: float | None = None
    cwd: str | None = None
    pty: bool = False
    notes: tuple[str, ...] = ()

    @property
    def talks(self) -> bool:
        """Whether something is to be sent to a standard input, if only its end."""
        return self.stdin_text is not None or self.close_stdin

    @property
    def input(self) -> bytes:
        """What to send: the text as a line."""
        return b"" if self.stdin_text is None else f"{self.stdin_text}\n".encode()


def parameters() -> JsonObject:
    """The JSON Schema that the model sees. It allows additional properties: results name the hidden parameters where they are of use."""
    return {
        "type": "object",
        "properties": {
            "command": {
                "type": "string",
                "description": "Shell command. Use && to chain, ; for independent. Omit when polling via task_id.",
            },
            "description": {
                "type": "string",
                "default": "",
                "description": 'Short label of what it does (e.g. "Running tests").',
            },
            "run_in_background": {
                "type": "boolean",
                "default": False,
                "description": "Return immediately with a task_id instead of waiting.",
            },
        },
        "required": [],
        "additionalProperties": True,
    }


def described(config: BashConfig, directory: str, network_note: str = "", *, shell: str = "bash") -> str:
    """What the model reads of the tool; `network_note` says what can be reached, `shell` is the box's."""
    hint = " (POSIX; there is no bash)" if config.shell is None and shell == "sh" else ""
    return (
        f"Run a shell command in {config.shell or shell}{hint} and get its stdout, stderr and exit_code. The working directory"
        f" (at first {directory}) is kept between calls; variables and functions are not. Prompts cannot be answered: use flags"
        f" such as --yes. A command is ended after {config.timeout_default:g} seconds; start what takes longer, or serves, with"
        " run_in_background=true and use the task_id that comes back. Output that is too long for the result is in a file"
        f" that the result names.{f' {network_note}' if network_note else ''}"
    )


def read_request(given: Mapping[str, Any]) -> BashRequest:
    """The arguments of one call. Raises BadArguments."""
    arguments = read(given, tool=NAME, names=VISIBLE + HIDDEN, example=EXAMPLE)
    timeout, notes = _timeout(arguments)
    pattern = _unless_blank(arguments, "stream_pattern")
    if pattern is not None and arguments.has("stream") and not arguments.flag("stream"):
        raise arguments.wrong(
            "stream is false, so stream_pattern picks from nothing; set stream to true or leave both out"
        )
    return BashRequest(
        command=_unless_blank(arguments, "command"),
        description=_unless_blank(arguments, "description") or "",
        task_id=_unless_blank(arguments, "task_id"),
        background=arguments.flag("run_in_background"),
        kill=arguments.flag("kill"),
        stdin_text=arguments.optional_text("stdin_text", may_be_empty=True, nul=True),
        close_stdin=arguments.flag("close_stdin"),
        wait=arguments.flag("wait"),
        stream=arguments.flag("stream", default=pattern is not None),
        pattern=pattern,
        timeout=timeout,
        cwd=_unless_blank(arguments, "cwd"),
        pty=arguments.flag("pty"),
        notes=notes,
    )


def described_in(given: Mapping[str, Any]) -> str:
    """The description of arguments that cannot be read otherwise."""
    description = given.get("description") if isinstance(given, Mapping) else None
    return description if isinstance(description, str) else ""


def _unless_blank(arguments: Arguments, name: str) -> str | None:
    """A text; models fill what they don't need with an empty one."""
    value = arguments.optional_text(name, may_be_empty=True)
    return value if value is not None and value.strip() else None


def _timeout(arguments: Arguments) -> tuple[float | None, tuple[str, ...]]:
    asked = arguments.number("timeout")
    if asked is None:
        return None, ()
    taken = min(max(asked, SHORTEST), LONGEST)
    if taken == asked:
        return taken, ()
    return taken, (f"timeout {asked:g} is outside {SHORTEST:g} to {LONGEST:g} seconds; {taken:g} was used.",)
