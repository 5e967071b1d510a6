"""Errors of a call, as results that a model can act on. Pure."""

from limpet.core.errors import (
    CommandDenied,
    CommandRefused,
    FileDenied,
    FileError,
    LimpetError,
    SandboxClosed,
    SandboxGone,
)
from limpet.tools.arguments import BadArguments
from limpet.tools.tool import JsonObject, failure

LONGEST = 2_000  # characters of a message

# What a tool turns into a result; anything else is a fault of ours.
EXPECTED = (BadArguments, LimpetError)


def explained(error: BadArguments | LimpetError) -> JsonObject:
    """`failure(...)` with a code for the kind: invalid_arguments, denied (with its rule), refused (the command has a form that
    cannot run), file_error, workspace_gone, unavailable."""
    message = brief(str(error), LONGEST)
    match error:
        case BadArguments():
            return failure("invalid_arguments", message)
        case CommandDenied() | FileDenied():
            return failure("denied", message, rule=error.rule)
        case CommandRefused():
            return failure("refused", message)
        case FileError():
            return failure("file_error", message, path=brief(error.path, LONGEST))
        case SandboxGone() | SandboxClosed():
            return failure("workspace_gone", message)
        case _:
            return failure("unavailable", message)


def brief(text: str, limit: int) -> str:
    """`text`, or its head and tail where it has more than `limit` characters: only what a model or a command wrote is ever that long."""
    if len(text) <= limit:
        return text
    return f"{text[: limit - limit // 3]} … {text[-(limit // 3) :]}"
