"""Limpet: a shell for any language model that stays and that is safe. The public names, each loaded on first use."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from limpet.core.clock import Clock as Clock
    from limpet.core.command import Aborted as Aborted
    from limpet.core.command import Argv as Argv
    from limpet.core.command import Command as Command
    from limpet.core.command import Exited as Exited
    from limpet.core.command import Lost as Lost
    from limpet.core.command import Outcome as Outcome
    from limpet.core.command import Script as Script
    from limpet.core.command import Terminal as Terminal
    from limpet.core.command import TimedOut as TimedOut
    from limpet.core.errors import ApprovalMissing as ApprovalMissing
    from limpet.core.errors import CommandDenied as CommandDenied
    from limpet.core.errors import CommandRefused as CommandRefused
    from limpet.core.errors import ConfigInvalid as ConfigInvalid
    from limpet.core.errors import FileDenied as FileDenied
    from limpet.core.errors import FileError as FileError
    from limpet.core.errors import LimpetError as LimpetError
    from limpet.core.errors import OfferMissing as OfferMissing
    from limpet.core.errors import SandboxGone as SandboxGone
    from limpet.core.ports import Limits as Limits
    from limpet.core.ports import Offer as Offer
    from limpet.core.ports import Process as Process
    from limpet.core.ports import SandboxRef as SandboxRef
    from limpet.core.secret import Secret as Secret
    from limpet.egress.network import Network as Network
    from limpet.egress.secrets import DomainSecret as DomainSecret
    from limpet.guard.policy.policy import Policy as Policy
    from limpet.guard.redaction.redactor import Redaction as Redaction
    from limpet.wiring import open_workspace as open_workspace
    from limpet.workspace.approvals import ApprovalQueue as ApprovalQueue
    from limpet.workspace.approvals import ApprovalRequest as ApprovalRequest
    from limpet.workspace.approvals import Approved as Approved
    from limpet.workspace.approvals import Refused as Refused
    from limpet.workspace.audit import AuditRecord as AuditRecord
    from limpet.workspace.audit import Call as Call
    from limpet.workspace.registry import Workspaces as Workspaces
    from limpet.workspace.result import RunResult as RunResult
    from limpet.workspace.workspace import Workspace as Workspace

_HOMES = {
    "limpet.core.clock": ("Clock",),
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
    "limpet.core.errors": (
        "ApprovalMissing",
        "CommandDenied",
        "CommandRefused",
        "ConfigInvalid",
        "FileDenied",
        "FileError",
        "LimpetError",
        "OfferMissing",
        "SandboxGone",
    ),
    "limpet.core.ports": (
        "Limits",
        "Offer",
        "Process",
        "SandboxRef",
    ),
    "limpet.core.secret": ("Secret",),
    "limpet.egress.network": ("Network",),
    "limpet.egress.secrets": ("DomainSecret",),
    "limpet.guard.policy.policy": ("Policy",),
    "limpet.guard.redaction.redactor": ("Redaction",),
    "limpet.wiring": ("open_workspace",),
    "limpet.workspace.approvals": (
        "ApprovalQueue",
        "ApprovalRequest",
        "Approved",
        "Refused",
    ),
    "limpet.workspace.audit": (
        "AuditRecord",
        "Call",
    ),
    "limpet.workspace.registry": ("Workspaces",),
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
