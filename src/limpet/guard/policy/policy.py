"""A policy: what may run in a workspace, as the operator or the developer configures it. Values only; `judge` applies them."""

import os
from collections.abc import Collection
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from limpet.core.errors import ConfigInvalid
from limpet.core.settings import Between

_NAMES = 'a set of names such as {"ls", "cat"}'
_PATHS = 'a sequence of absolute directories such as ("/srv/data",)'
_FLAGS = ("blocks_platform_defaults", "readonly", "credential_paths_too", "confirm_destructive")


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The rules of one workspace.

    `allowed_commands`: the names of programs and builtins that may run; None is every one, an empty set none. Whether
    `blocked_commands` are refused beside the platform's own (`guard.destructive`: deleting the root or a home, mkfs, shutdown …)
    does not depend on it. `readonly` lets only known readers run. `allowed_paths` confines paths to these directories beside the
    workspace's own roots; None is no confinement, an empty tuple the roots alone. `credential_paths_too` opens the directories
    that hold credentials (.ssh, .aws …) inside them. `confirm_destructive` asks before what destroys (`rm -rf`, `git reset --hard`).
    `max_duration` is in seconds, the default and the ceiling of every command. `environment` are names that a call may set
    although they change what programs do (LD_PRELOAD, PATH …). `enforce` "wall" refuses to open a workspace whose runtime can
    only advise on one of these rules. `blocks_platform_defaults` false leaves only what is named here.
    Any collection of names or paths is taken; a single text, which would be read letter by letter, and whatever else is no such value
    raises ConfigInvalid: a rule that is written wrongly must not hold less.
    The rules, with examples: docs/policy.md.
    """

    allowed_commands: frozenset[str] | None = None
    blocked_commands: frozenset[str] = frozenset()
    blocks_platform_defaults: bool = True
    readonly: bool = False
    allowed_paths: tuple[str, ...] | None = None
    credential_paths_too: bool = False
    confirm_destructive: bool = False
    max_duration: Annotated[float, Between(0.001)] | None = None
    environment: frozenset[str] = frozenset()
    enforce: Literal["guard", "wall"] = "guard"

    def __post_init__(self) -> None:
        for rule in ("allowed_commands", "blocked_commands", "environment"):
            if rule != "allowed_commands" or self.allowed_commands is not None:
                object.__setattr__(self, rule, frozenset(_texts(rule, getattr(self, rule), _NAMES)))
        if self.allowed_paths is not None:
            paths = _texts("allowed_paths", self.allowed_paths, _PATHS)
            if relative := [path for path in paths if not path.startswith("/")]:
                raise ConfigInvalid("policy", "allowed_paths", f"{relative[0]!r} is not absolute; give {_PATHS}.")
            object.__setattr__(self, "allowed_paths", paths)
        for rule in _FLAGS:
            if not isinstance(getattr(self, rule), bool):
                raise ConfigInvalid("policy", rule, f"must be True or False, not {getattr(self, rule)!r}.")
        if self.max_duration is not None and not _is_duration(self.max_duration):
            raise ConfigInvalid("policy", "max_duration", f"must be seconds above 0, not {self.max_duration!r}.")
        if self.enforce not in ("guard", "wall"):
            raise ConfigInvalid("policy", "enforce", f'must be "guard" or "wall", not {self.enforce!r}.')


def _texts(rule: str, given: Any, wanted: str) -> tuple[str, ...]:
    """The names or paths of a rule, whatever collection holds them. `given` is whatever a caller without types wrote."""
    if isinstance(given, (str, bytes)) or not isinstance(given, Collection):
        raise ConfigInvalid("policy", rule, f"must be {wanted}, not {given!r}.")
    texts = tuple(os.fspath(one) if isinstance(one, os.PathLike) else one for one in given)
    for text in texts:
        if not isinstance(text, str) or not text.strip():
            raise ConfigInvalid("policy", rule, f"must be {wanted}; {text!r} is none of these.")
    return texts


def _is_duration(given: Any) -> bool:
    return isinstance(given, (int, float)) and not isinstance(given, bool) and given > 0
