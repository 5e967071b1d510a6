"""What is known of a shell between two commands: variables, working directory, functions. Values and how two roads join."""

from dataclasses import dataclass, field
from typing import Literal

from limpet.core.box_directories import HOME
from limpet.guard.policy.bash.variables import rules_bash

Kind = Literal["exact", "number", "pattern", "inherited"]
# The text itself; a number of which only a sample is known; a pattern that becomes names of files; what the sandbox itself set,
# whose value is unknown here but not chosen by the model.
Value = tuple[str, Kind]
Values = frozenset[Value] | None  # one of these; None: anything
NUMBER: Value = ("0", "number")
NUMBERS: Values = frozenset({NUMBER})
INHERITED: Values = frozenset({("", "inherited")})
MOST_VALUES = 16
MOST_PLACES = 8


def is_number(values: Values) -> bool:
    """Whether arithmetic reads a number here and nothing else: not a name, not a subscript."""
    return values is not None and all(
        kind in ("number", "inherited") or (kind == "exact" and _digits(text)) for text, kind in values
    )


def _digits(text: str) -> bool:
    return text == "" or (text.isascii() and text.removeprefix("-").isdigit())


def exact(*texts: str) -> Values:
    return frozenset((text, "exact") for text in texts)


def joined(one: Values, other: Values) -> Values:
    """One of both; anything, where that would be too many."""
    if one is None or other is None:
        return None
    both = one | other
    return both if len(both) <= MOST_VALUES else None


@dataclass(slots=True, kw_only=True)
class ShellState:
    """One shell at one moment.

    `variables` are those that the script or the call set. Others are the sandbox's own, unknown but not the model's, unless
    `is_foreign`: then this is a piece of script that runs at an unknown time (a trap, say), and any variable may hold anything.
    `places` are the directories it may be in. `functions` are surely defined. `is_over` after `exit`: nothing follows.
    """

    variables: dict[str, Values] = field(default_factory=dict)
    places: frozenset[str] | None = None
    home: str = HOME
    functions: frozenset[str] = frozenset()
    has_arrays: bool = False
    has_arguments: bool = False
    is_foreign: bool = False
    is_over: bool = False

    def copy(self) -> "ShellState":
        return ShellState(
            variables=dict(self.variables), places=self.places, home=self.home, functions=self.functions,
            has_arrays=self.has_arrays, has_arguments=self.has_arguments, is_foreign=self.is_foreign, is_over=self.is_over,
        )  # fmt: skip

    def foreign(self) -> "ShellState":
        """The same shell at an unknown later time."""
        return ShellState(
            places=None, home=self.home, functions=self.functions, has_arrays=self.has_arrays, has_arguments=True,
            is_foreign=True,
        )  # fmt: skip

    def value(self, name: str) -> Values:
        """What `$name` may be."""
        if name in self.variables:
            return self.variables[name]
        if name == "HOME" and not self.is_foreign:
            return exact(self.home)
        if name == "PWD" and self.places is not None:
            return exact(*self.places)
        return None if self.is_foreign else INHERITED

    def is_harmless_in_arithmetic(self, name: str) -> bool:
        """Whether arithmetic may read the variable: a number, or the sandbox's own and nothing that bash fills with data."""
        return is_number(self.value(name)) and (name in self.variables or not rules_bash(name))

    def set(self, name: str, values: Values) -> None:
        self.variables[name] = values

    def move(self, places: frozenset[str] | None) -> None:
        self.places = places if places is not None and len(places) <= MOST_PLACES else None


def join(one: ShellState, other: ShellState) -> ShellState:
    """After either of two roads."""
    if one is other or other.is_over:
        return one
    if one.is_over:
        return other
    names = one.variables.keys() | other.variables.keys()
    places = None if one.places is None or other.places is None else one.places | other.places
    both = ShellState(
        variables={name: joined(one.value(name), other.value(name)) for name in names},
        home=one.home,
        functions=one.functions & other.functions,
        has_arrays=one.has_arrays or other.has_arrays,
        has_arguments=one.has_arguments or other.has_arguments,
        is_foreign=one.is_foreign or other.is_foreign,
    )
    both.move(places)
    return both
