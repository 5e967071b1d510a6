"""What one promise of the gateway consists of."""

from dataclasses import dataclass
from typing import Literal

Work = Literal["A1", "A2", "B", "C", "D", "E", "F"]
"""Who owes a promise. A1: the gateway answers. A2: the box holds. B: library and tools. C: containers, files, skills.
D: durable, background and relayed responses. E: egress and secrets. F: the runtimes of others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """One thing that the gateway promises, in one sentence, as the design decided it.

    `lines` are lines of the seed document "Agents & Shell Tool", counted from 1. `faults` are places in the analysis of the
    server that it describes: `1.n` is row n of its table, `24.n` weakness n, `27.n` the n-th point of its closing list.
    `decided` is a short name of the decision that settled it, where the project promises more than the seed or something else.
    The tests that prove a promise carry its id; they are not repeated here.
    """

    id: str
    owed_by: Work
    says: str
    lines: tuple[int, ...] = ()
    faults: tuple[str, ...] = ()
    decided: str = ""


def span(first: int, last: int) -> tuple[int, ...]:
    """The lines from `first` to `last`, both included."""
    return tuple(range(first, last + 1))
