"""All tools of a workspace, and the names reserved for them. Starts nothing."""

from collections.abc import Sequence

from limpet.core.errors import ConfigInvalid
from limpet.tools.events import OnEvent
from limpet.tools.files import file_tools
from limpet.tools.run import RunTool
from limpet.tools.tool import Tool
from limpet.workspace.names import refuse_reserved, refuse_unusable
from limpet.workspace.workspace import Workspace


def tools_for(
    workspace: Workspace, name: str | None = None, *, beside: Sequence[Tool] = (), on_event: OnEvent | None = None
) -> list[Tool]:
    """The tools of what the workspace has: `workspace__<name>__run` with a shell, the file tools with files; then `beside`.

    `name` is the workspace's own where it is left out. A capability that is not there has no tool.

    Raises: ConfigInvalid for a `name` that cannot be part of a tool's name, and for a tool of `beside` whose name is reserved or taken.
    """
    name = name or workspace.name
    refuse_unusable(name)
    refuse_foreign(beside)
    own: list[Tool] = []
    if workspace.has_shell:
        own.append(RunTool(workspace, name, on_event=on_event))
    if workspace.has_files:
        own += file_tools(workspace, name)
    return [*own, *beside]


def refuse_foreign(tools: Sequence[Tool]) -> None:
    """ConfigInvalid where one of these tools, which belong to no workspace, takes a reserved name, or two take the same."""
    names: set[str] = set()
    for tool in tools:
        refuse_reserved(tool.name)
        if tool.name in names:
            raise ConfigInvalid("tools", tool.name, "is the name of two tools; give one of them another.")
        names.add(tool.name)
