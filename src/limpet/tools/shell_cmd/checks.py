"""Everything that is looked at before a command of `shell_cmd` runs: its words, then its paths. Starts nothing.

All of it comes before the command, artifacts too, so that nothing that ran is lost to a wrong path.
"""

import posixpath
from dataclasses import dataclass

from limpet.core.errors import ConfigInvalid
from limpet.tools.failures import brief
from limpet.tools.shell_cmd.config import ShellCmdConfig
from limpet.tools.shell_cmd.refusal import CommandRefusal
from limpet.tools.shell_cmd.request import ShellCmdRequest, refuse_request
from limpet.tools.shell_cmd.tokens import possible_paths
from limpet.tools.shell_cmd.trusted_directory import TrustedDirectory
from limpet.tools.tool import JsonObject, failure
from limpet.tools.view import RedactedFiles
from limpet.workspace.kept_outputs import KEPT
from limpet.workspace.workspace import Workspace

MOST_PATHS = 10_000  # that are looked at for one command
_SHOWN = 200  # characters of the words that a message repeats


class RejectedCommand(Exception):
    """The command is refused; nothing ran."""

    def __init__(self, refused: CommandRefusal, trusted: str) -> None:
        super().__init__(sentence(refused, trusted))
        self.refused = refused
        self.trusted = trusted

    @property
    def result(self) -> JsonObject:
        return failure(self.refused.code, str(self), trusted_directory=self.trusted)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedCommand:
    """Where the command runs and the files it was asked to tell of, without links; and the scope that they are in."""

    directory: str
    artifacts: tuple[str, ...]
    scope: TrustedDirectory


async def check(workspace: Workspace, request: ShellCmdRequest, config: ShellCmdConfig) -> CheckedCommand:
    """Raises Rejected for what docs/shell-cmd-tool.md lists, ConfigInvalid where the trusted directory is no place in the workspace, and
    FileDenied and FileForbidden where a path may not be looked at. Raises RejectedCommand."""
    scope = await _scope(workspace, config)
    trusted = scope.trusted
    if refused := refuse_request(request, config):
        raise RejectedCommand(refused, trusted)
    directory = await _directory(scope, request)
    if "/" in request.command and await scope.inside(request.command, base=directory) is None:
        raise _outside("the program", request.command, scope, "name the program alone, or give a path inside it")
    await _parameters(scope, request, directory)
    artifacts = []
    for place, word in enumerate(request.artifact_paths):
        found = await scope.inside(word, base=scope.trusted)
        if found is None:
            raise _outside(f"artifact_paths[{place}]", word, scope, "give files inside it, relative to it")
        artifacts.append(found)
    return CheckedCommand(directory=directory, artifacts=tuple(artifacts), scope=scope)


async def _scope(workspace: Workspace, config: ShellCmdConfig) -> TrustedDirectory:
    files = RedactedFiles(workspace)
    wanted = posixpath.normpath(config.working_directory or workspace.directory)
    ground = next((root for root in workspace.roots if wanted == root or wanted.startswith(f"{root}/")), None)
    trusted = (
        None
        if ground is None
        else await TrustedDirectory(trusted=ground, also=(), files=files).inside(wanted, base="/")
    )
    if trusted is None:
        where = ", ".join(workspace.roots)
        raise ConfigInvalid("shell_cmd", "working_directory", f"must be a path below one of {where}, not {wanted!r}.")
    kept = posixpath.join(workspace.places.home, KEPT)  # where `full` leaves what is too long to be shown
    return TrustedDirectory(trusted=trusted, also=(*config.also_trusted, kept), files=files)


def sentence(refused: CommandRefusal, trusted: str) -> str:
    """The whole message. A refusal of a path begins with "Working directory mismatch" and names the trusted working directory."""
    what = repr(brief(refused.what, _SHOWN))
    instead = f"Instead, {brief(refused.remedy, 2 * _SHOWN)}."
    if refused.code == "outside_trusted_directory":
        return f"Working directory mismatch: {what} {refused.why} the trusted working directory {trusted}. {instead}"
    if refused.code in ("inline_script", "runs_other_programs"):
        return (
            f"Working directory mismatch: {what} {refused.why}; it cannot be checked to stay in the trusted working directory"
            f" {trusted}. {instead}"
        )
    return f"{what} {refused.why}. {instead}"


async def _parameters(scope: TrustedDirectory, request: ShellCmdRequest, directory: str) -> None:
    seen: set[str] = set()
    for place, word in enumerate(request.parameters):
        for path in possible_paths(word):
            if path in seen:
                continue
            seen.add(path)
            if len(seen) > MOST_PATHS:
                raise _outside(f"parameters[{place}]", word, scope, f"give at most {MOST_PATHS} paths")
            if await scope.escapes(path, base=directory):
                raise _outside(f"parameters[{place}]", word, scope, "give a path inside it, relative to it")


async def _directory(scope: TrustedDirectory, request: ShellCmdRequest) -> str:
    if request.directory is None:
        return scope.trusted
    found = await scope.inside(request.directory, base=scope.trusted)
    if found is None:
        raise _outside("directory", request.directory, scope, 'leave directory out, or give one inside it such as "./"')
    return found


def _outside(where: str, word: str, scope: TrustedDirectory, remedy: str) -> RejectedCommand:
    refused = CommandRefusal("outside_trusted_directory", word, f"({where}) leads outside", remedy)
    return RejectedCommand(refused, scope.trusted)
