"""The errors after which bash skips the rest of a line and goes on with the next one. Pure.

A line is what bash reads at once: a whole command, and all that stands behind it up to the end of its last line. A script that is
given with -c goes on after such an error (seen with bash 5.2): a failed computation in `$((…))`, a piece of text with a negative
length, an indirection without a name, an assignment to a readonly variable, a pattern without a match under failglob, a pipe for
which no descriptor is left. What stands behind the error in the same line was then neither defined nor set.
"""

from collections.abc import Container, Iterator, Sequence

from limpet.guard.policy.bash.side_effects import everything
from limpet.guard.policy.bash.tree import (
    ArithmExp,
    ArrayElem,
    Assign,
    CallExpr,
    DeclClause,
    FuncDecl,
    Lit,
    Node,
    ParamExp,
    Stmt,
    Word,
)

_SAFE = frozenset(
    "- :- + :+ ? :? # ## % %% ^ ^^ , ,,".split()
)  # of ${name…}: these expand to something, or end the script
_READONLY = frozenset("BASHOPTS BASH_VERSINFO EUID PPID SHELLOPTS UID".split())


def lines(stmts: Sequence[Stmt]) -> Iterator[list[Stmt]]:
    """The statements of a script in the groups in which bash reads them."""
    line: list[Stmt] = []
    for stmt in stmts:
        if line and _row(line[-1], is_last=True) < _row(stmt, is_last=False):
            yield line
            line = []
        line.append(stmt)
    if line:
        yield line


def may_abort(stmts: Sequence[Stmt], functions: Container[str], *, has_readonly: bool) -> bool:
    """Whether one of these errors may happen while they run. `functions` may have one too."""
    return any(
        _may_abort(node, functions, has_readonly=has_readonly)
        for stmt in stmts
        for node in everything(stmt, but_inside=(FuncDecl,))
    )


def functions_that_may(stmts: Sequence[Stmt], *, has_readonly: bool) -> frozenset[str]:
    """The names of all functions defined there, if any of them may have such an error: they may call each other."""
    found = [node for stmt in stmts for node in everything(stmt) if isinstance(node, FuncDecl)]
    if any(may_abort([function.body], (), has_readonly=has_readonly) for function in found):
        return frozenset(function.name.value for function in found)
    return frozenset()


def makes_readonly(stmts: Sequence[Stmt]) -> bool:
    """Whether a variable becomes readonly somewhere in it."""
    return any(isinstance(node, DeclClause) and _is_readonly(node) for stmt in stmts for node in everything(stmt))


def _row(stmt: Stmt, *, is_last: bool) -> int:
    # Redirections stand outside of a statement's end where they bring a here-document.
    places = [stmt.end, *(redirect.end for redirect in stmt.redirs)] if is_last else [stmt.pos]
    return max((place.line for place in places if place is not None), default=0)


def _may_abort(node: Node, functions: Container[str], *, has_readonly: bool) -> bool:
    match node:
        case ArithmExp():
            return True
        case ArrayElem(index=index):
            return index is not None
        case Assign(name=Lit(value=name), index=index):
            return has_readonly or index is not None or name in _READONLY
        case ParamExp():
            op = node.exp.op if node.exp is not None else "-"
            return node.excl or node.slice is not None or node.index is not None or op not in _SAFE
        case CallExpr(args=[Word(parts=[Lit(value=name)]), *_]):
            return name in functions
        case CallExpr(args=[_, *_]):
            return functions != frozenset()
        case _:
            return has_readonly


def _is_readonly(node: DeclClause) -> bool:
    words = (arg.value.parts for arg in node.args if arg.name is None and arg.value is not None)
    letters = "".join(part.value for parts in words for part in parts if isinstance(part, Lit))
    return node.variant.value == "readonly" or "r" in letters
