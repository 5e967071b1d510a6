"""What went wrong in a call, as a result that a model can act on. Pure."""

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

# What a tool turns into a result; anything else is a fault of ours.
EXPECTED = (BadArguments, LimpetError)


def explained(error: BadArguments | LimpetError) -> JsonObject:
    """`failure(...)` with a code for the kind: invalid_arguments, denied (with its rule), refused (the command has a form that
    cannot run), file_error, workspace_gone, unavailable."""
    match error:
        case BadArguments():
            return failure("invalid_arguments", str(error))
        case CommandDenied() | FileDenied():
            return failure("denied", str(error), rule=error.rule)
        case CommandRefused():
            return failure("refused", str(error))
        case FileError():
            return failure("file_error", str(error), path=error.path)
        case SandboxGone() | SandboxClosed():
            return failure("workspace_gone", str(error))
        case _:
            return failure("unavailable", str(error))
