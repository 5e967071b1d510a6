"""The output items of shell calls, and what stands in them: as the gateway makes them, whatever the provider's own shell looks like.

They become dicts when they are told (`Writer.tell`): from then on an item may as well be a provider's, which has keys that no struct
knows.
"""

from typing import Annotated, Any, Literal

from msgspec import UNSET, UnsetType

from limpet.containers.wire_objects import shown
from limpet.core import exit_codes
from limpet.core.command import Aborted, Exited, Lost, Outcome, TimedOut
from limpet.core.resources import EXTENSION, Count, WireObject
from limpet.store.files import ContainerFileRecord, FileSource

ItemStatus = Literal["in_progress", "completed", "incomplete"]


class ShellAction(WireObject, frozen=True, kw_only=True):
    """What a call asks for; the numbers are the model's own."""

    commands: list[str] = []  # noqa: RUF012  # msgspec copies it
    timeout_ms: int | None = None
    max_output_length: int | None = None


class ShellCallItem(WireObject, frozen=True, kw_only=True):
    """`environment` says where the call is (or, for a client's own shell, will be) carried out."""

    id: str
    type: Literal["shell_call"] = "shell_call"
    call_id: str
    status: ItemStatus = "in_progress"
    action: ShellAction
    environment: dict[str, Any]


class ExitOutcome(WireObject, frozen=True, kw_only=True, tag_field="type", tag="exit"):
    exit_code: int


class TimeoutOutcome(WireObject, frozen=True, kw_only=True, tag_field="type", tag="timeout"):
    """The command was ended because its time was over."""


WireOutcome = ExitOutcome | TimeoutOutcome


class CommandEntry(WireObject, frozen=True, kw_only=True):
    """The result of one command of a call."""

    stdout: str
    stderr: str
    outcome: WireOutcome


class OutputFile(WireObject, frozen=True, kw_only=True):
    """A file that a call wrote (docs/config.md, `max_files_per_exec`)."""

    container_id: str
    file_id: str
    filename: str
    path: str
    bytes: Count
    content_type: str | None
    source: FileSource
    too_large: Literal[True] | UnsetType = UNSET


class ShellCallOutputItem(WireObject, frozen=True, kw_only=True):
    """`output_files_omitted` counts files beyond those that are listed. Both keys of files are on an item that is done."""

    id: str
    type: Literal["shell_call_output"] = "shell_call_output"
    call_id: str
    status: ItemStatus = "in_progress"
    max_output_length: int | None
    output: list[CommandEntry] = []  # noqa: RUF012  # msgspec copies it
    output_files: Annotated[list[OutputFile] | UnsetType, EXTENSION] = UNSET
    output_files_omitted: Annotated[int | UnsetType, EXTENSION] = UNSET


class FileCitation(WireObject, frozen=True, kw_only=True):
    """An annotation of a text that names a file of the container."""

    type: Literal["container_file_citation"] = "container_file_citation"
    container_id: str
    file_id: str
    filename: str
    start_index: Count
    end_index: Count


def wire_outcome(outcome: Outcome) -> WireOutcome:
    """What strict clients know: `exit` and `timeout` only."""
    match outcome:
        case Exited(code):
            return ExitOutcome(exit_code=code)
        case TimedOut():
            return TimeoutOutcome()
        case Aborted():
            return ExitOutcome(exit_code=exit_codes.INTERRUPTED)
        case Lost():
            return ExitOutcome(exit_code=exit_codes.LOST)


def output_file(record: ContainerFileRecord) -> OutputFile:
    path = shown(record.path)
    return OutputFile(
        container_id=record.container_id,
        file_id=record.id,
        filename=path.rsplit("/", 1)[-1],
        path=path,
        bytes=record.bytes,
        content_type=record.content_type,
        source=record.source,
        too_large=True if record.too_large else UNSET,
    )


def citation(record: ContainerFileRecord, text: str) -> FileCitation:
    """The file as `text` cites it: where it names the file's path or name, else at its end."""
    path = shown(record.path)
    filename = path.rsplit("/", 1)[-1]
    for name in (path, filename):
        start = text.find(name)
        if start >= 0:
            break
    else:
        start, name = len(text), ""
    return FileCitation(
        container_id=record.container_id,
        file_id=record.id,
        filename=filename,
        start_index=start,
        end_index=start + len(name),
    )
