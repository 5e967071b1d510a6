"""Redactors of commands whose own variables hold secrets: compiled once for the same variables, and found again by a process's id."""

from collections.abc import Iterable, Mapping, Sequence

from limpet.core.command import Command
from limpet.core.secret import Secret
from limpet.guard.policy.environment import secrets_in
from limpet.guard.redaction.redactor import Redaction, Redactor

MOST_COMPILED = 16
MOST_STARTED = 1_024


class CommandRedactors:
    """The newest of each, shared by all views of a workspace. A kept redactor keeps the redaction that its key names alive."""

    def __init__(self) -> None:
        self._compiled: dict[tuple[int, frozenset[tuple[str, Secret]]], tuple[Redaction, Redactor]] = {}
        self._started: dict[str, Mapping[str, Secret]] = {}

    def remember(self, exec_id: str, command: Command) -> None:
        """Keep the secrets of its variables, so that they are redacted for callers that `find` the process."""
        if not (own := secrets_in(command.env)):
            return
        while len(self._started) >= MOST_STARTED:
            del self._started[next(iter(self._started))]
        self._started[exec_id] = own

    def secrets_of(self, exec_id: str) -> Mapping[str, Secret]:
        """What the variables of a remembered process hold that looks like secrets; nothing for others."""
        return self._started.get(exec_id, {})

    def redactor(self, redaction: Redaction, own: Mapping[str, Secret]) -> Redactor:
        """One that hides what `redaction` hides, and these."""
        # The same variables come with call after call, and compiling takes milliseconds.
        key = (id(redaction), frozenset(own.items()))
        if key not in self._compiled:
            while len(self._compiled) >= MOST_COMPILED:
                del self._compiled[next(iter(self._compiled))]
            self._compiled[key] = redaction, Redactor(together(redaction, Redaction(secrets=own)))
        return self._compiled[key][1]


def together(one: Redaction, other: Redaction) -> Redaction:
    """A redaction that hides what either does."""
    return Redaction(
        secrets={**one.secrets, **other.secrets},
        patterns=_patterns(one.patterns, other.patterns),
        families=one.families or other.families,
        names=one.names and other.names,
    )


def _patterns(
    one: Mapping[str, str] | Sequence[str], other: Mapping[str, str] | Sequence[str]
) -> Mapping[str, str] | Sequence[str]:
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return {**one, **other}
    return [*_expressions(one), *_expressions(other)]


def _expressions(patterns: Mapping[str, str] | Sequence[str]) -> Iterable[str]:
    return patterns.values() if isinstance(patterns, Mapping) else patterns
