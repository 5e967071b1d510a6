"""A sandbox that has files and runs nothing: what a workspace without a shell stands on. Starts no process, also not its own.

Its files lie in a directory of this host, as `core.ports.SandboxSpec.directory` says, or in a temporary one that goes with it.
"""

import secrets
import shutil
import tempfile
from pathlib import Path

from anyio import to_thread

from limpet.core.command import Command
from limpet.core.errors import CommandDenied, OfferMissing, SandboxClosed
from limpet.core.ports import Files, Process, SandboxRef
from limpet.runtimes.hostfiles import HostFiles

NAME = "files"


class FilesOnly:
    """`core.ports.Sandbox` without commands. `async with` makes what is missing of its directory."""

    def __init__(self, name: str, directory: Path | None = None) -> None:
        self._ref = SandboxRef(runtime=NAME, name=name, boot_id=secrets.token_hex(8))
        self._directory = directory
        self._temporary: Path | None = None
        self._files: HostFiles | None = None

    async def __aenter__(self) -> "FilesOnly":
        if self._directory is None:
            self._temporary = Path(await to_thread.run_sync(lambda: tempfile.mkdtemp(prefix="limpet-files-")))
        base = self._directory or self._temporary
        assert base is not None
        roots = {"/mnt/data": base / "data", "/home/agent": base / "home"}
        for root in roots.values():
            root.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._files = HostFiles(roots)
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.destroy()

    @property
    def ref(self) -> SandboxRef:
        return self._ref

    @property
    def boot_id(self) -> str:
        return self._ref.boot_id

    @property
    def files(self) -> Files:
        if self._files is None:
            raise SandboxClosed
        return self._files

    async def start(self, command: Command, exec_id: str) -> Process:
        raise CommandDenied(
            "capabilities",
            "This sandbox has files and runs nothing.",
            "Open the workspace with a shell to run commands.",
        )

    async def find(self, exec_id: str) -> Process | None:
        return None

    async def touch(self) -> None:
        if self._files is None:
            raise SandboxClosed

    async def snapshot(self) -> bytes:
        raise OfferMissing(NAME, "snapshot")

    async def restore(self, snapshot: bytes) -> None:
        raise OfferMissing(NAME, "snapshot")

    async def release(self) -> None:
        await self.destroy()

    async def destroy(self) -> None:
        self._files = None
        if self._temporary is not None:
            temporary, self._temporary = self._temporary, None
            await to_thread.run_sync(lambda: shutil.rmtree(temporary, ignore_errors=True))
