"""How a workspace's output and records are redacted: by its rules, and of commands with secrets of their own by those too."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache

from limpet.core.command import Command
from limpet.core.ports import Process
from limpet.core.secret import Secret
from limpet.guard.policy.environment import secrets_in
from limpet.guard.redaction.redactor import Redaction, Redactor
from limpet.workspace.redacted_process import RedactedProcess

DEFAULT = Redaction()
MOST_COMPILED = 16
MOST_STARTED = 1_024


class OutputRedaction:
    """`redactor` redacts records, and output where `screens_output`; else output is left as it is.

    `redaction` is what the redactor is compiled from. Views of one workspace share `commands`.
    """

    def __init__(
        self,
        redaction: Redaction,
        redactor: Redactor,
        *,
        screens_output: bool,
        commands: "CommandRedactors | None" = None,
    ) -> None:
        self.redactor = redactor
        self.screens_output = screens_output
        self._redaction = redaction
        self._commands = commands or CommandRedactors()

    @classmethod
    def of_records(cls, secrets: Mapping[str, Secret]) -> "OutputRedaction":
        """Output as it is; records without what the default rules find, and without these."""
        if not secrets:
            return cls(DEFAULT, default_redactor(), screens_output=False)
        own = Redaction(secrets=secrets)
        return cls(own, Redactor(own), screens_output=False)

    def with_more(self, redaction: Redaction) -> "OutputRedaction":
        """Output is redacted by these rules and those by which it is redacted already."""
        union = replace(redaction, secrets=_secrets(self._redaction.secrets, redaction.secrets))
        both = together(self._redaction, redaction) if self.screens_output else union
        return OutputRedaction(both, Redactor(both), screens_output=True, commands=self._commands)

    def of_started(self, process: Process, command: Command) -> Process:
        """As `of_command`, of a process that callers will `find` again: its secrets are remembered for them."""
        self._commands.remember(process.exec_id, command)
        return self.of_command(process, command)

    def of_command(self, process: Process, command: Command) -> Process:
        """The process as callers may read it; what its command's variables hold that looks like secrets is hidden too."""
        return self._screened(process, secrets_in(command.env)) if self.screens_output else process

    def of_found(self, process: Process) -> Process:
        """The same for one that was started earlier."""
        return self._screened(process, self._commands.secrets_of(process.exec_id)) if self.screens_output else process

    def _screened(self, process: Process, own: Mapping[str, Secret]) -> Process:
        redactor = self._commands.redactor(self._redaction, own) if own else self.redactor
        return RedactedProcess(process, redactor.screen)


class CommandRedactors:
    """Redactors of commands whose own variables hold secrets: compiled once for the same variables. The newest of each are kept; a
    kept redactor keeps the redaction that its key names alive."""

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


@cache
def default_redactor() -> Redactor:
    """One for all who asked for none, since compiling it takes milliseconds."""
    return Redactor(DEFAULT)


def together(one: Redaction, other: Redaction) -> Redaction:
    """A redaction that hides what either does."""
    return Redaction(
        secrets=_secrets(one.secrets, other.secrets),
        patterns=_patterns(one.patterns, other.patterns),
        families=one.families or other.families,
        names=one.names and other.names,
    )


def _secrets(one: Mapping[str, Secret], other: Mapping[str, Secret]) -> Mapping[str, Secret]:
    """All of them: one name may stand for two values, and both are hidden."""
    found = dict(one)
    for name, secret in other.items():
        number = 2
        free = name
        while found.get(free, secret) != secret:
            free, number = f"{name}.{number}", number + 1
        found[free] = secret
    return found


def _patterns(
    one: Mapping[str, str] | Sequence[str], other: Mapping[str, str] | Sequence[str]
) -> Mapping[str, str] | Sequence[str]:
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return {**one, **other}
    return [*_expressions(one), *_expressions(other)]


def _expressions(patterns: Mapping[str, str] | Sequence[str]) -> Iterable[str]:
    return patterns.values() if isinstance(patterns, Mapping) else patterns
