"""Sandboxes that have files and run nothing: what a workspace without a shell stands on. Starts no process, not even of its own.

The files lie in a directory of this host, as `core.ports.SandboxSpec.directory` says, or in a temporary one that goes with the sandbox.
"""

import secrets
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from anyio import to_thread

from limpet.core.box_directories import LASTING
from limpet.core.command import Command
from limpet.core.errors import BadCommand, SandboxGone
from limpet.core.ports import Held, Offer, Probe, Process, SandboxRef, SandboxSpec
from limpet.runtimes.hostfiles import HostFiles
from limpet.runtimes.impossible import refuse_impossible_spec
from limpet.runtimes.open_beneath import remove_tree
from limpet.runtimes.open_sandbox import OpenSandbox

NAME = "files"
OFFERS = frozenset({Offer.DIRECTORY, Offer.ISOLATION})


class FilesSandbox(OpenSandbox):
    """core.ports.Sandbox without commands. `temporary` goes with it."""

    def __init__(self, ref: SandboxRef, roots: Mapping[str, Path], temporary: Path | None) -> None:
        super().__init__(ref, HostFiles(roots))
        self._temporary = temporary

    async def start(self, command: Command, exec_id: str) -> Process:
        raise BadCommand("This sandbox has files and runs nothing. Open a workspace with a shell to run commands.")

    async def find(self, exec_id: str) -> Process | None:
        return None

    async def touch(self) -> None:
        self._require_open()

    async def release(self) -> None:
        await self.destroy()  # it cannot be attached to again

    async def destroy(self) -> None:
        self._closed = True
        temporary, self._temporary = self._temporary, None
        if temporary is not None:
            await to_thread.run_sync(remove_tree, temporary)


class FilesRuntime:
    """core.ports.Runtime. Its sandboxes are gone when it closes; a directory that was named stays."""

    def __init__(self) -> None:
        self._made: list[FilesSandbox] = []

    @property
    def name(self) -> str:
        return NAME

    @property
    def offers(self) -> frozenset[Offer]:
        return OFFERS

    @property
    def held(self) -> Held:
        return Held()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        for sandbox in self._made:
            await sandbox.destroy()

    async def probe(self) -> Probe:
        return Probe(works=True, detail="Files in a directory of this host, and nothing runs.")

    async def create(self, spec: SandboxSpec) -> FilesSandbox:
        refuse_impossible_spec(spec, OFFERS, NAME)
        temporary = None
        if spec.directory is None:
            temporary = Path(await to_thread.run_sync(lambda: tempfile.mkdtemp(prefix="limpet-files-")))
        base = spec.directory or temporary
        assert base is not None
        roots = {path: base / name for path, name in LASTING.items()}
        for root in roots.values():
            root.mkdir(mode=0o700, parents=True, exist_ok=True)
        ref = SandboxRef(runtime=NAME, name=spec.name, boot_id=secrets.token_hex(8))
        sandbox = FilesSandbox(ref, roots, temporary)
        self._made.append(sandbox)
        return sandbox

    async def attach(self, ref: SandboxRef) -> FilesSandbox:
        raise SandboxGone("it had files and nothing that could live on.")

    async def sweep(self, living: frozenset[str] | None, *, dry_run: bool = False) -> list[str]:
        return []
