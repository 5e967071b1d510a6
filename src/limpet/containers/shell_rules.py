"""What an operator may say of every hosted shell. Values only."""

from dataclasses import dataclass

from limpet.guard.policy.policy import Policy
from limpet.guard.redaction.redactor import Redaction


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellRules:
    """What the operator says of every hosted shell. Without `policy` no command is judged; without `redaction` output comes as it is."""

    policy: Policy | None = None
    redaction: Redaction | None = None
