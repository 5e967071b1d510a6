"""What a piece of script may change by the time it has run, without following it: for loops and functions. Pure."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from inspect import get_annotations

from limpet.guard.policy.bash.arithmetic import assigned
from limpet.guard.policy.bash.state import NUMBERS, ShellState, Values, exact, joined
from limpet.guard.policy.bash.tree import (
    ArithmCmd,
    ArithmExp,
    ArrayExpr,
    Assign,
    BinaryTest,
    CallExpr,
    CStyleLoop,
    ForClause,
    FuncDecl,
    LetClause,
    Lit,
    Node,
    ParamExp,
    Position,
    Redirect,
    SglQuoted,
    Word,
    WordIter,
)

_SETS_WHAT_IT_NAMES = frozenset("read mapfile readarray printf getopts unset wait".split())
_MOVES = frozenset("cd pushd popd".split())
_ANYTHING = frozenset("eval source . builtin command".split())
_WITHOUT_NODES = frozenset({str, int, bool, Position | None})
_PLAIN = re.compile(r"[A-Za-z0-9_./+:\[-]+")


@dataclass(slots=True)
class SideEffects:
    """`values` may be added to variables; `moves`: the directory may change; `is_wild`: anything may have."""

    values: dict[str, Values] = field(default_factory=dict)
    moves: bool = False
    is_wild: bool = False
    has_arrays: bool = False

    def add(self, name: str, values: Values) -> None:
        self.values[name] = joined(self.values[name], values) if name in self.values else values

    @property
    def is_any(self) -> bool:
        """Whether anything that is known may change."""
        return bool(self.values) or self.moves or self.is_wild

    def happen(self, state: ShellState) -> None:
        """Afterwards the state is one in which all of this may have happened, or not."""
        if self.is_wild:
            state.variables.clear()
            state.is_foreign = state.has_arguments = state.has_arrays = True
        for name, values in self.values.items():
            state.set(name, joined(state.value(name), values))
        if self.moves or self.is_wild:
            state.places = None


def of(nodes: Sequence[Node], calls: "Iterable[SideEffects]" = ()) -> SideEffects:
    """The effects of these nodes, and of `calls`, the functions that they might call."""
    effects = SideEffects()
    for node in nodes:
        for inner in everything(node):
            _look(inner, effects)
    for called in calls:
        effects.moves |= called.moves
        effects.is_wild |= called.is_wild
        for name, values in called.values.items():
            effects.add(name, values)
    return effects


def of_functions(nodes: Sequence[Node]) -> dict[str, SideEffects]:
    """The effects of each function that is defined anywhere in these nodes, by its name; of all its bodies, where it has several."""
    bodies: dict[str, list[Node]] = {}
    for node in nodes:
        for inner in everything(node):
            if isinstance(inner, FuncDecl):
                bodies.setdefault(inner.name.value, []).append(inner.body)
    return {name: of(several) for name, several in bodies.items()}


def may_change(nodes: Sequence[Node], functions: Mapping[str, SideEffects]) -> bool:
    """Whether these nodes may change anything that is known, by themselves or by a function that they call."""
    calls_one = any(_names(inner) in functions for node in nodes for inner in everything(node))
    return of(nodes, functions.values() if calls_one else ()).is_any


def _names(node: Node) -> str:
    """The name of the command, where it stands bare; other ways to name one are wild."""
    match node:
        case CallExpr(args=[Word(parts=[Lit(value=name)]), *_]):
            return name
        case _:
            return ""


def everything(node: Node, *, but_inside: tuple[type[Node], ...] = ()) -> Iterator[Node]:
    """The node and all nodes in it; of the kinds in `but_inside` only the outermost, and nothing in them."""
    waiting: list[Node] = [node]
    while waiting:
        one = waiting.pop()
        yield one
        if isinstance(one, but_inside):
            continue
        for name in _fields_with_nodes(type(one)):
            value = getattr(one, name)
            if isinstance(value, Node):
                waiting.append(value)
            elif value:
                waiting.extend(value)


@cache
def _fields_with_nodes(kind: type[Node]) -> tuple[str, ...]:
    """The fields of such a node that hold a node or a list of nodes: three of four hold a text or a position."""
    types = {name: kept for base in kind.__mro__ for name, kept in get_annotations(base).items()}
    return tuple(name for name in kind.__struct_fields__ if types[name] not in _WITHOUT_NODES)


def _look(node: Node, effects: SideEffects) -> None:
    match node:
        case Assign(name=None, value=Word(parts=[Lit(value=text)])):
            effects.has_arrays = effects.has_arrays or (text[:1] == "-" and ("a" in text or "A" in text))
        case ArrayExpr():
            effects.has_arrays = True
        case Assign(name=Lit(value=name)) if not node.naked:
            effects.add(name, _value(node))
            effects.has_arrays = effects.has_arrays or node.index is not None
        case WordIter(name=Lit(value=name)):
            effects.add(name, None)
        case ForClause(select=True):
            effects.add("REPLY", None)
        case CStyleLoop():
            _computed([node.init, node.cond, node.post], effects)
        case ArithmCmd() | ArithmExp():
            _computed([node.x], effects)
        case LetClause():
            _computed(node.exprs, effects)
        case ParamExp(param=Lit(value=name)) if node.exp and node.exp.op in ("=", ":="):
            effects.add(name, None)
        case Redirect(n=Lit(value=name)) if name.startswith("{"):
            effects.add(name.strip("{}"), NUMBERS)
        case BinaryTest(op="=~"):
            effects.add("BASH_REMATCH", None)
        case CallExpr(args=[first, *rest]):
            _called(first, rest, effects)
        case _:
            pass


def _computed(expressions: Sequence[object], effects: SideEffects) -> None:
    for expression in expressions:
        for name in assigned(expression):  # type: ignore[arg-type]  # only arithmetic stands there
            effects.add(name, NUMBERS)


def _value(node: Assign) -> Values:
    if node.array is not None or node.index is not None:
        return None
    match node.value:
        case None:
            return exact("")
        case Word(parts=[ArithmExp()]):
            return NUMBERS
        case Word(parts=[Lit(value=text)]) if text.isalnum():
            return exact(text) if not node.append else None
        case Word(parts=[SglQuoted(value=text, dollar=False)]) if not node.append:
            return exact(text)
        case _:
            return None


def _called(first: Word, rest: Sequence[Word], effects: SideEffects) -> None:
    name = first.parts[0].value if len(first.parts) == 1 and isinstance(first.parts[0], Lit) else None
    if name is None or name in _ANYTHING or _PLAIN.fullmatch(name) is None:
        effects.is_wild = True
    elif name in _MOVES:
        effects.moves = True
    elif name in _SETS_WHAT_IT_NAMES:
        effects.add("REPLY", None)
        effects.add("MAPFILE", None)
        effects.has_arrays = effects.has_arrays or name in ("read", "mapfile", "readarray")
        for word in rest:
            for part in word.parts:
                if isinstance(part, Lit | SglQuoted):
                    effects.add(part.value, None)
