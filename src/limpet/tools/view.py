"""The workspace as a model may see it: all that it returns is redacted, and a path is the same in commands and files.

Only a runtime without walls has two names for one place: commands there know the host's directories (`workspace.places`).
"""

from dataclasses import dataclass
from functools import cached_property

from limpet.core.ports import FileStat
from limpet.guard.redaction.redactor import Redaction
from limpet.tools.tool import JsonObject
from limpet.workspace.workspace import Workspace


def screened(workspace: Workspace) -> Workspace:
    """The same box, with output that is screened at least by the default rules."""
    return workspace if workspace.screens else workspace.guarded(redaction=Redaction())


class ScreenedTool:
    """A tool that shows a model the workspace's results as `screened` does."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    @cached_property
    def _view(self) -> Workspace:
        """Made once: its rules are compiled."""
        return screened(self._workspace)


def redacted(workspace: Workspace, value: JsonObject) -> JsonObject:
    """A result with every text in it redacted."""
    return workspace.redactor.value(value)


def as_files_know(workspace: Workspace, path: str) -> str:
    """The path by which the workspace's files know what its commands know as `path`."""
    return workspace.places.outside(path)


def as_commands_know(workspace: Workspace, path: str) -> str:
    """The other way round: what a result names."""
    return workspace.places.inside(path)


@dataclass(frozen=True, slots=True)
class RedactedFiles:
    """The files by the paths that commands know."""

    workspace: Workspace

    async def stat(self, path: str) -> FileStat:
        return await self.workspace.files.stat(as_files_know(self.workspace, path))
