"""The readers of `readonly` as a table for the docs. Pure."""

from collections.abc import Iterator

from limpet.guard.policy.programs.catalog import READERS, Program

BY_GRAMMAR = {
    "sed": "the script only prints and substitutes: no e, w, W, r, R, no flags e and w",
    "awk": "the program is written out, without system, getline, pipes, redirections and other files",
    "find": "-delete and the -fprint family are refused; what -exec and its like run is judged itself",
}
_RUNS = "what it runs is judged itself"
_WRAPPERS = frozenset("xargs env timeout nice time nohup command stdbuf setsid".split())


def rows() -> Iterator[tuple[str, str]]:
    """Each program that may run under readonly, by name, and what is refused of it."""
    for name in sorted(READERS):
        yield name, "; ".join(_conditions(name, READERS[name]))


def _conditions(name: str, program: Program) -> Iterator[str]:
    if name in _WRAPPERS:
        yield _RUNS
    if name in BY_GRAMMAR:
        yield BY_GRAMMAR[name]
    refused = [f"-{option}" if len(option) == 1 else f"--{option}" for option in (*program.writes, *program.runs)]
    if refused:
        yield f"without {', '.join(refused)}"
    if program.most is not None:
        yield f"at most {program.most} operand{'s' if program.most != 1 else ''}"


def as_markdown() -> str:
    """The table of the docs; programs without conditions share a line."""
    plain = ", ".join(f"`{name}`" for name, conditions in rows() if not conditions)
    lines = ["| program | may run |", "|---|---|", f"| {plain} | always |"]
    lines += [f"| `{name}` | {conditions} |" for name, conditions in rows() if conditions]
    return "\n".join(lines)
