"""What a workspace is declared to have: each capability is true, false or an object of settings (docs/library.md, "Rules")."""

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from limpet.core.errors import ConfigInvalid
from limpet.guard.policy.policy import Policy

WHERE = "capabilities"
_SHELL_KEYS = ("allowedCommands", "maxDurationMs")


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """`shell` false starts no process at all; `files` false leaves the files to commands alone."""

    shell: bool = True
    files: bool = True
    allowed_commands: frozenset[str] | None = None
    max_duration: float | None = None

    def narrow(self, policy: Policy | None) -> Policy | None:
        """The policy with the capability's own rules beside it: of two lists what stands in both, of two times the shorter."""
        if self.allowed_commands is None and self.max_duration is None:
            return policy
        policy = policy or Policy()
        allowed, longest = self.allowed_commands, self.max_duration
        if allowed is None or policy.allowed_commands is None:
            allowed = policy.allowed_commands if allowed is None else allowed
        else:
            allowed &= policy.allowed_commands
        if longest is None or policy.max_duration is None:
            longest = policy.max_duration if longest is None else longest
        else:
            longest = min(longest, policy.max_duration)
        return replace(policy, allowed_commands=allowed, max_duration=longest)


def read_capabilities(declared: Mapping[str, Any] | None) -> Capabilities:
    """From such as ``{"shell": {"allowedCommands": ["ls"], "maxDurationMs": 60000}, "fs": True}``; None is all of them.

    What is not declared is not there. Raises ConfigInvalid for unknown names and wrong types, naming what is right.
    """
    if declared is None:
        return Capabilities()
    for name in declared:
        if name not in ("shell", "fs", "files"):
            raise ConfigInvalid(
                WHERE, name, f"is not a capability{_nearest(name, ('shell', 'fs'))}; there are: shell, fs."
            )
    files = [_is_there(name, declared[name], keys=()) for name in ("fs", "files") if name in declared]
    if not _is_there("shell", declared.get("shell", False), keys=_SHELL_KEYS):
        return Capabilities(shell=False, files=any(files))
    settings = declared["shell"] if isinstance(declared["shell"], Mapping) else {}
    return Capabilities(
        files=any(files),
        allowed_commands=_commands(settings.get("allowedCommands")),
        max_duration=_seconds(settings.get("maxDurationMs")),
    )


def _is_there(name: str, value: object, *, keys: Iterable[str]) -> bool:
    match value:
        case bool():
            return value
        case Mapping():
            for key in value:
                if key not in keys:
                    known = f"; there are: {', '.join(keys)}." if keys else "; it has no settings: give true."
                    raise ConfigInvalid(WHERE, f"{name}.{key}", f"is not known{_nearest(str(key), keys)}{known}")
            return True
        case _:
            raise ConfigInvalid(WHERE, name, f"must be true or an object of settings, not {value!r}.")


def _commands(value: object) -> frozenset[str] | None:
    if value is None:
        return None
    if isinstance(value, str) or not isinstance(value, Iterable) or not all(isinstance(one, str) for one in value):
        raise ConfigInvalid(WHERE, "shell.allowedCommands", 'must be a list of names such as ["ls", "cat"].')
    return frozenset(value)


def _seconds(value: object) -> float | None:
    match value:
        case None:
            return None
        case int() | float() if not isinstance(value, bool) and 0 < value < float("inf"):
            return value / 1_000
        case _:
            raise ConfigInvalid(
                WHERE, "shell.maxDurationMs", f"must be a number of milliseconds above 0, not {value!r}."
            )


def _nearest(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, list(known), n=1)
    return f", did you mean {close[0]}" if close else ""
