"""Limpet: a shell for any language model that stays and that is safe. The public names, each loaded on first use."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from limpet.core.command import Aborted as Aborted
    from limpet.core.command import Argv as Argv
    from limpet.core.command import Command as Command
    from limpet.core.command import Exited as Exited
    from limpet.core.command import Lost as Lost
    from limpet.core.command import Outcome as Outcome
    from limpet.core.command import Script as Script
    from limpet.core.command import Terminal as Terminal
    from limpet.core.command import TimedOut as TimedOut
    from limpet.core.errors import LimpetError as LimpetError
    from limpet.core.ports import Limits as Limits
    from limpet.core.ports import Offer as Offer
    from limpet.core.ports import SandboxRef as SandboxRef
    from limpet.wiring import open_workspace as open_workspace
    from limpet.workspace.result import RunResult as RunResult
    from limpet.workspace.workspace import Workspace as Workspace

_HOMES = {
    "limpet.core.command": (
        "Aborted",
        "Argv",
        "Command",
        "Exited",
        "Lost",
        "Outcome",
        "Script",
        "Terminal",
        "TimedOut",
    ),
    "limpet.core.errors": ("LimpetError",),
    "limpet.core.ports": ("Limits", "Offer", "SandboxRef"),
    "limpet.wiring": ("open_workspace",),
    "limpet.workspace.result": ("RunResult",),
    "limpet.workspace.workspace": ("Workspace",),
}
_MODULE_OF = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'limpet' has no attribute {name!r}")
    return getattr(import_module(_MODULE_OF[name]), name)


def __dir__() -> list[str]:
    return sorted([*_MODULE_OF, *globals()])
