"""What sandboxes of every runtime say of themselves, and that a closed one says nothing more. Starts nothing."""

from limpet.core.errors import SandboxClosed
from limpet.core.ports import Files, SandboxRef


class OpenSandbox:
    """The part of core.ports.Sandbox that needs no process."""

    def __init__(self, ref: SandboxRef, files: Files) -> None:
        self._ref = ref
        self._files = files
        self._closed = False

    @property
    def ref(self) -> SandboxRef:
        return self._ref

    @property
    def boot_id(self) -> str:
        return self._ref.boot_id

    @property
    def files(self) -> Files:
        self._require_open()
        return self._files

    def _require_open(self) -> None:
        if self._closed:
            raise SandboxClosed
