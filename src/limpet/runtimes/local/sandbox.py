"""A local sandbox: a directory, and an agent that owns its processes. There is no wall around it."""

from collections.abc import Awaitable, Callable
from dataclasses import replace

from limpet.core.command import Command
from limpet.core.errors import WorkingDirectoryMissing
from limpet.core.ports import Offer, SandboxRef
from limpet.runtimes.agent_client.client import Client
from limpet.runtimes.agent_client.process import BoxProcess
from limpet.runtimes.agent_client.sandbox import OFFERS_OF_AGENTS, AgentSandbox, HoldLimit
from limpet.runtimes.hostfiles import HostFiles
from limpet.runtimes.local.paths import TERMINAL, LocalPaths

NAME = "local"
OFFERS = OFFERS_OF_AGENTS | {Offer.DIRECTORY}


class LocalSandbox(AgentSandbox):
    """core.ports.Sandbox. Its commands name paths of the sandbox, which are others on the host. `sets_terminal`: what kind of terminal
    a command finds is not said by the sandbox's own variables."""

    def __init__(
        self,
        ref: SandboxRef,
        client: Client,
        place: LocalPaths,
        *,
        sets_terminal: bool,
        ending: Callable[[], Awaitable[None]],
        hold_limit: HoldLimit,
    ) -> None:
        # It never outlives its owner: to let go of it is to end it.
        files = HostFiles(place.files, place.owner)
        super().__init__(ref, client, files, OFFERS, ending=ending, leaving=ending, hold_limit=hold_limit)
        self._place = place
        self._sets_terminal = sets_terminal

    async def start(self, command: Command, exec_id: str) -> BoxProcess:
        self._require_open()
        try:
            command = self._on_host(command)
        except WorkingDirectoryMissing:
            if (known := await self.find(exec_id)) is not None:
                return known
            raise
        return await super().start(command, exec_id)

    def _on_host(self, command: Command) -> Command:
        """The command with the paths and variables of this host. Raises WorkingDirectoryMissing."""
        if command.cwd is not None:
            command = replace(command, cwd=self._place.working_directory(command.cwd))
        if command.terminal is not None and self._sets_terminal:
            command = replace(command, env={**TERMINAL, **command.env})
        return command
