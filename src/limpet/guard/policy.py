"""What may run in a workspace, as the operator or the developer says it. Values only; `judge` decides by them."""

from dataclasses import dataclass
from typing import Literal


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
    Sources: seed 01 (capability config), seed 02 (constraints), DECISIONS.
    """

    allowed_commands: frozenset[str] | None = None
    blocked_commands: frozenset[str] = frozenset()
    blocks_platform_defaults: bool = True
    readonly: bool = False
    allowed_paths: tuple[str, ...] | None = None
    credential_paths_too: bool = False
    confirm_destructive: bool = False
    max_duration: float | None = None
    environment: frozenset[str] = frozenset()
    enforce: Literal["guard", "wall"] = "guard"
