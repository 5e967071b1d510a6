"""The settings of `Bash`, and how they, the policy and the redaction are read from a configuration block (docs/bash-tool.md)."""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from limpet.core.box_directories import DATA
from limpet.core.errors import ConfigInvalid
from limpet.guard.policy.policy import Policy
from limpet.guard.redaction.redactor import Redaction

SHORTEST, LONGEST = 1.0, 1800.0  # seconds that the parameter `timeout` may ask for (docs/bash-tool.md)
WORKDIR = "{{workdir}}"
_BLOCK = ("tools", "modules", "shell")
_CONFIG = (
    "shell",
    "timeout_default",
    "max_output_lines",
    "extra_sensitive_patterns",
    "allowed_roots",
    "blocked_commands",
    "redaction_names",
)
_CONSTRAINTS = ("allowed_commands", "blocked_commands", "allowed_paths", "unrestricted", "readonly")
_MOST_LINES = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class BashConfig:
    """How `Bash` works in one session. Times in seconds.

    `shell` is the program that runs commands (None: bash). `max_output_lines` is kept of each stream of a background task.
    `max_tasks` run at once; `kept_for` is how long a finished one answers. `inline` bytes of a stream stand in a result, what is
    longer goes to a file below `spill`. `environment` is added to the non-interactive defaults and wins over them.
    `progress_at`, then every `progress_every`, a task that printed is reported; matching lines go out at most once in
    `stream_every`, `stream_most` notifications a task.
    """

    shell: str | None = None
    timeout_default: float = 300.0
    max_output_lines: int = 10_000
    max_tasks: int = 100
    kept_for: float = 1800.0
    inline: int = 30_000
    spill: str = ".limpet/tool-results"
    environment: Mapping[str, str] = field(default_factory=dict)
    progress_at: tuple[float, ...] = (5.0, 20.0, 50.0)
    progress_every: float = 60.0
    stream_every: float = 0.5
    stream_most: int = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellConfig:
    """What one configuration block says: to the guard, to the redaction and to the tool."""

    policy: Policy
    redaction: Redaction
    bash: BashConfig


def shell_config_from(block: Mapping[str, Any] | None, *, workdir: str = DATA) -> ShellConfig:
    """Read a configuration block: `tools.modules.shell.{config,constraints}`, or the part of it from any of these levels on.

    `{{workdir}}` stands for `workdir`; `shell: null` is bash. Paths are confined to the workspace's own roots, `allowed_roots` and
    `allowed_paths`, unless `unrestricted`. Raises ConfigInvalid for what is unknown (with the nearest known key) or of a wrong type.
    """
    shell = _inner(block or {})
    config = _table(shell, "config", _CONFIG)
    constraints = _table(shell, "constraints", _CONSTRAINTS)
    roots = [*_texts(config, "allowed_roots", "config"), *_texts(constraints, "allowed_paths", "constraints")]
    blocked = [*_texts(config, "blocked_commands", "config"), *_texts(constraints, "blocked_commands", "constraints")]
    allowed = constraints.get("allowed_commands")
    policy = Policy(
        allowed_commands=None if allowed is None else frozenset(_texts(constraints, "allowed_commands", "constraints")),
        blocked_commands=frozenset(blocked),
        readonly=_flag(constraints, "readonly", "constraints"),
        allowed_paths=None
        if _flag(constraints, "unrestricted", "constraints")
        else tuple(dict.fromkeys(root.replace(WORKDIR, workdir) for root in roots)),
    )
    bash = BashConfig(
        shell=_shell(config),
        timeout_default=_number(config, "timeout_default", 300.0, LONGEST),
        max_output_lines=int(_number(config, "max_output_lines", 10_000, _MOST_LINES)),
    )
    patterns = tuple(_texts(config, "extra_sensitive_patterns", "config"))
    redaction = Redaction(patterns=patterns, names=_flag(config, "redaction_names", "config", default=True))
    return ShellConfig(policy=policy, redaction=redaction, bash=bash)


def _inner(block: Mapping[str, Any]) -> Mapping[str, Any]:
    """The table that holds `config` and `constraints`, through whichever of tools, modules and shell stand around it.

    Beside them other things may stand, which are other modules' affair; a block in which only they stand is refused.
    """
    where = ""
    for level, name in enumerate(_BLOCK):
        inside = block.get(name)
        if isinstance(inside, Mapping):
            block, where = inside, ".".join(_BLOCK[: level + 1])
        elif where:
            _known(block, (name,), where)
            _wrong(f"{where}.{name}", "should be a table")
    if not {"config", "constraints"} & set(block) and set(block) & {*_CONFIG, *_CONSTRAINTS}:
        _wrong(
            next(iter(block)), "stands one level too high; put it into config or constraints, below tools.modules.shell"
        )
    _known(block, ("config", "constraints"), where)
    return block


def _table(shell: Mapping[str, Any], name: str, keys: Sequence[str]) -> Mapping[str, Any]:
    table = shell.get(name)
    if table is None:
        return {}
    if not isinstance(table, Mapping):
        _wrong(name, "should be a table")
    _known(table, keys, name)
    return table


def _known(table: Mapping[str, Any], keys: Sequence[str], where: str) -> None:
    for key in table:
        if key not in keys:
            full = f"{where}.{key}" if where else str(key)
            other = next(
                (one for one, names in (("config", _CONFIG), ("constraints", _CONSTRAINTS)) if key in names), None
            )
            near = difflib.get_close_matches(str(key), keys, n=1, cutoff=0.4)
            if other is not None and where in ("config", "constraints"):
                _wrong(full, f"belongs to {other}")
            _wrong(full, f"is not known; {f'the nearest is {near[0]}' if near else 'known are ' + ', '.join(keys)}")


def _texts(table: Mapping[str, Any], key: str, where: str) -> list[str]:
    value = table.get(key)
    if value is None:
        return []
    if not isinstance(value, (list, tuple)) or not all(isinstance(one, str) and one for one in value):
        _wrong(f"{where}.{key}", f'should be a list of texts, such as {key}: ["git"], not {value!r}')
    return list(value)


def _flag(table: Mapping[str, Any], key: str, where: str, *, default: bool = False) -> bool:
    value = table.get(key)
    if value is not None and not isinstance(value, bool):
        _wrong(f"{where}.{key}", f"should be true or false, not {value!r}")
    return default if value is None else value


def _number(table: Mapping[str, Any], key: str, default: float, most: float) -> float:
    value = table.get(key, default)
    value = default if value is None else value
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not SHORTEST <= value <= most:
        _wrong(f"config.{key}", f"should be a number from {SHORTEST:g} to {most:.15g}, not {value!r}")
    return value


def _shell(config: Mapping[str, Any]) -> str | None:
    shell = config.get("shell")
    if shell is not None and not (isinstance(shell, str) and shell.startswith("/")):
        _wrong("config.shell", f"should be null or the absolute path of a shell, such as /bin/bash, not {shell!r}")
    return shell


def _wrong(key: str, problem: str) -> NoReturn:
    raise ConfigInvalid("tools.modules.shell", key, problem)
