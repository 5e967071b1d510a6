"""The verdicts on a command, as values. Decides nothing."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Allowed:
    """It may run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Denied:
    """It must not run. `rule` names the setting that refuses it (`allowed_commands`, `readonly` …), `reason` is one sentence on
    what was found, naming the construct as it was written, `remedy` one on what to write or configure instead."""

    rule: str
    reason: str
    remedy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NeedsApproval:
    """It may run once it is approved. `digest` is of the exact command (text or argv, cwd and env): an approval holds for it
    and for nothing else. `rule` and `reason` as in Denied."""

    rule: str
    reason: str
    digest: str


Verdict = Allowed | Denied | NeedsApproval
