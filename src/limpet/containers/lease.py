"""A lease: a container in use, with the shell of its booted box, until it is released."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from limpet.containers.captures import CaptureResult
from limpet.containers.file_service import ContainerFileService
from limpet.store.containers import ContainerRecord
from limpet.workspace.shell import Shell


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A container in use: while it is held the container does not expire.

    `note` is one sentence that the model should be told, once: the box before this one was lost. `boot_id` tells boxes apart:
    what was started under another one is gone. `env` are variables for its commands: the placeholders of secrets.
    """

    record: ContainerRecord
    shell: Shell
    note: str | None
    file_service: ContainerFileService
    env: Mapping[str, str] = field(default_factory=dict)

    @property
    def boot_id(self) -> str:
        return self.shell.boot_id

    async def capture(self, response_id: str | None = None, exec_id: str | None = None) -> CaptureResult:
        """The files that changed since the last capture, now recorded as written by that response and command. See
        `ContainerFileService.capture`."""
        return await self.file_service.capture(self.record, response_id=response_id, exec_id=exec_id)
