"""The effects of a script, as values: commands it runs, files it opens, texts it evaluates, and what could not be determined."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol

from limpet.guard.policy.bash.side_effects import SideEffects
from limpet.guard.policy.bash.state import ShellState
from limpet.guard.policy.bash.tree import Node
from limpet.guard.policy.bash.words import Field

LONGEST_QUOTE = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    """Something whose effect the text does not tell. `construct` as written, `why` and `instead` as ends of sentences. `variable`
    is the one that programs obey and that is set, so that a policy may allow it by name."""

    construct: str
    why: str
    instead: str
    variable: str = ""


@dataclass(frozen=True, slots=True)
class StdinSource:
    """What a command reads on its standard input: texts from the script, and what the commands before it in a pipe print."""

    texts: tuple[str, ...] = ()
    calls: "tuple[Call, ...]" = ()
    is_unsure: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One command with its arguments. `places` are the directories it may run in (None: any). Where `in_shell`, its name may be a
    builtin; else it is a program, as after env or xargs. `is_function` where the script has surely defined it: its body is judged
    by itself. `source` is the command as written."""

    fields: tuple[Field, ...]
    source: str
    places: frozenset[str] | None
    home: str
    feed: StdinSource = StdinSource()
    in_shell: bool = True
    is_function: bool = False
    depth: int = 0

    @property
    def name(self) -> str | None:
        """The command's name as written; None where it is not sure."""
        return self.fields[0].text if self.fields and self.fields[0].is_exact else None


@dataclass(frozen=True, slots=True, kw_only=True)
class FileOpening:
    """A file that a redirection opens."""

    target: Field
    writes: bool
    source: str
    places: frozenset[str] | None


@dataclass(frozen=True, slots=True)
class GlobExpansion:
    """A pattern that bash itself turns into names, whatever becomes of them. `places` as in Call."""

    pattern: Field
    places: frozenset[str] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluatedText:
    """Text that is run as a script of its own, with what is known by then. `is_handler` where it may run between any two commands,
    as a trap does: then it must not change what is known. `bodies` are the functions of the shell that evaluates it, with those that
    come later in its script; None where the text is for a shell of its own."""

    text: str
    source: str
    state: ShellState
    feed: StdinSource = StdinSource()
    depth: int = 0
    is_handler: bool = False
    bodies: dict[str, SideEffects] | None = None


@dataclass(slots=True)
class Analysis:
    """All that a script would do."""

    calls: list[Call] = field(default_factory=list)
    openings: list[FileOpening] = field(default_factory=list)
    listings: list[GlobExpansion] = field(default_factory=list)
    scripts: list[EvaluatedText] = field(default_factory=list)
    doubts: list[Doubt] = field(default_factory=list)
    bombs: list[str] = field(default_factory=list)
    forgotten: set[str] = field(default_factory=set)
    forgets_any: bool = False
    has_readonly: bool = False

    def forgets(self, name: str | None) -> None:
        """Somewhere the function of this name may be unset; None: any function. From which time on is not asked: bodies and traps
        run at other times than they are read."""
        if name is None:
            self.forgets_any = True
        else:
            self.forgotten.add(name)

    def is_function(self, call: Call) -> bool:
        """Whether the call surely is one of a function. Asked once every script was walked that the shell runs itself."""
        return call.is_function and not self.forgets_any and call.name not in self.forgotten

    def doubt(self, construct: str, why: str, instead: str, *, variable: str = "") -> None:
        self.doubts.append(Doubt(construct=shortened(construct), why=why, instead=instead, variable=variable))

    def lists(self, words: Iterable[Field], places: frozenset[str] | None) -> None:
        """The patterns among these words become names."""
        self.listings += [GlobExpansion(word, places) for word in words if word.kind == "pattern"]


def shortened(text: str) -> str:
    """As a message quotes it: one line, not too long."""
    line = " ".join(text.split())
    return line if len(line) <= LONGEST_QUOTE else line[: LONGEST_QUOTE - 1] + "…"


class ShellContext(Protocol):
    """The interpreter, as builtins need it."""

    analysis: Analysis
    feed: StdinSource
    depth: int
    bodies: dict[str, SideEffects]

    def unsure(self, node: Node, why: str, instead: str) -> None: ...
    def assign(
        self, name: str, state: ShellState, *, source: str, is_exported: bool = False, text: str | None = None
    ) -> bool: ...
