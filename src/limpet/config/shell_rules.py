"""The operator's rules for hosted shells, as the guard takes them. What it refuses is told by the key of the file."""

from collections.abc import Callable
from dataclasses import fields
from typing import TypeVar

from limpet.config.sections import Shell
from limpet.containers.shell_rules import ShellRules
from limpet.core.errors import ConfigInvalid
from limpet.guard.policy.policy import Policy
from limpet.guard.redaction.redactor import Redaction

T = TypeVar("T")
SECTION = "features.shell"


def shell_rules(shell: Shell, where: str) -> ShellRules:
    """What `[features.shell.policy]` and `[features.shell.redaction]` say. Raises ConfigInvalid; `where` is the file."""
    return ShellRules(
        policy=_made(Policy, shell.policy, where, "policy"),
        redaction=_made(Redaction, shell.redaction, where, "redaction"),
    )


def _made(make: Callable[..., T], section: object, where: str, key: str) -> T | None:
    if section is None:
        return None
    try:
        return make(**{field.name: getattr(section, field.name) for field in fields(section)})  # type: ignore[arg-type]  # a dataclass
    except ConfigInvalid as refused:
        raise ConfigInvalid(where, f"{SECTION}.{key}.{refused.key}", refused.problem) from refused
