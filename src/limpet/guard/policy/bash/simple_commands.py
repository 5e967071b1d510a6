"""Simple commands of a script: assignments, declarations, and which command a name stands for. Pure."""

import itertools
import re
from collections.abc import Container, Sequence
from typing import Protocol

from limpet.guard.policy.bash import builtins, side_effects
from limpet.guard.policy.bash.effects_found import Call, ShellContext
from limpet.guard.policy.bash.state import NUMBERS, ShellState, Values, exact, is_number, join, joined
from limpet.guard.policy.bash.tree import (
    Arithmetic,
    Assign,
    BinaryCmd,
    CallExpr,
    CmdSubst,
    DeclClause,
    Lit,
    Node,
    Stmt,
    Word,
)
from limpet.guard.policy.bash.words import Field, Inner, fields, text_of

Out = tuple[ShellState, ShellState]
MOST_READINGS = 32
_DECLARED_HARMLESSLY = frozenset("rxgplucatIFfA")
_FUNCTION = re.compile(r"[A-Za-z0-9_.:+@,-]+")
_NOT_A_WORD = Field("", "", "unknown", many=True)


class CommandContext(ShellContext, Inner, Protocol):
    """The interpreter, as simple commands need it."""

    def text(self, node: Node) -> str: ...
    def subscript(self, node: Node, index: Arithmetic | None, state: ShellState) -> None: ...


def call(script: CommandContext, cmd: CallExpr, state: ShellState) -> Out:
    """One simple command, for each reading of its words."""
    source = script.text(cmd)
    if not cmd.args:
        for assign in cmd.assigns:
            _assign(script, assign, state)
        return state, state
    readings = _readings([fields(word, state, script) for word in cmd.args], source)
    is_read = all(reading and reading[0].is_exact and reading[0].text == "read" for reading in readings)
    for assign in cmd.assigns:
        if not (is_read and assign.name is not None and assign.name.value == "IFS"):
            _assign(script, assign, state.copy(), is_exported=True)
        elif assign.value is not None:
            fields(assign.value, state, script)
    outs = [_run(script, reading, state.copy() if len(readings) > 1 else state, source) for reading in readings]
    good, bad = outs[0]
    for other_good, other_bad in outs[1:]:
        good, bad = join(good, other_good), join(bad, other_bad)
    return good, bad


def _readings(words: Sequence[list[list[Field]]], source: str) -> list[list[Field]]:
    """Every way in which the words may come out together."""
    count = 1
    for word in words:
        count *= len(word)
    if count > MOST_READINGS:
        words = [word if len(word) == 1 else [[_NOT_A_WORD]] for word in words]
    return [list(itertools.chain(*made)) for made in itertools.product(*words)]


def _run(script: CommandContext, words: list[Field], state: ShellState, source: str) -> Out:
    """One reading of a simple command."""
    if not words:
        return state, state
    first = words[0]
    if not first.is_exact or "{" in first.source:
        script.analysis.doubt(
            first.source or source, "the name of the command depends on something else", "write the name out"
        )
        _record(script, words, state, source)
        side_effects.SideEffects(is_wild=True).happen(state)
        script.analysis.forgets(None)
        return state, state
    name = first.text
    if name not in script.bodies:
        return run_named(script, words, state, source)
    called = state.copy()
    for body in script.bodies.values():
        body.happen(called)
    if name in state.functions:
        _record(script, words, state, source, is_function=True)
        return called, called
    # It may be the function, and it may be what else has the name: both are judged.
    good, bad = run_named(script, words, state, source)
    return join(good, called), join(bad, called)


def run_named(script: CommandContext, words: list[Field], state: ShellState, source: str) -> Out:
    """A command whose name is no function's: a builtin, or else a program."""
    name = words[0].text
    if name in builtins.PREFIXES:
        rest, in_shell = builtins.PREFIXES[name](script, words, source)
        if not rest:
            return state, state
        if not in_shell:
            _record(script, rest, state, source, in_shell=False)
            state.is_over = True
            return state, state
        if not rest[0].is_exact:
            script.analysis.doubt(source, "the name of the command depends on something else", "write the name out")
            script.analysis.forgets(None)
            side_effects.SideEffects(is_wild=True).happen(state)
        return run_named(script, rest, state, source)
    _record(script, words, state, source)
    if name in builtins.DOUBTFUL:
        script.analysis.doubt(source, builtins.DOUBTFUL[name], "do without it")
    handler = builtins.HANDLERS.get(name)
    return handler(script, words, state, source) if handler is not None else (state, state)


def _record(
    script: CommandContext,
    words: list[Field],
    state: ShellState,
    source: str,
    *,
    in_shell: bool = True,
    is_function: bool = False,
) -> None:
    made = Call(
        fields=tuple(words), source=source, places=state.places, home=state.home, feed=script.feed, in_shell=in_shell,
        is_function=is_function, depth=script.depth,
    )  # fmt: skip
    script.analysis.calls.append(made)


def _assign(script: CommandContext, assign: Assign, state: ShellState, *, is_exported: bool = False) -> None:
    """NAME=value, NAME[i]=value, NAME=(…)."""
    source = script.text(assign)
    if assign.name is None:
        script.analysis.doubt(source, "it is no plain assignment", "write name=value")
        return
    name = assign.name.value
    values = _assigned(script, assign, state)
    text = next(iter(values))[0] if values is not None and len(values) == 1 else None
    script.assign(name, state, source=source, is_exported=is_exported, text=text)
    if assign.append or assign.index is not None:
        values = NUMBERS if is_number(values) and is_number(state.value(name)) else None
    state.set(name, values)


def _assigned(script: CommandContext, assign: Assign, state: ShellState) -> Values:
    if assign.index is not None:
        state.has_arrays = True
        script.subscript(assign, assign.index, state)
    if assign.array is not None:
        state.has_arrays = True
        are_numbers = True
        for element in assign.array.elems:
            script.subscript(assign, element.index, state)
            made = _value(script, element.value, state, is_listed=True)
            are_numbers = are_numbers and is_number(made)
        return NUMBERS if are_numbers else None
    return _value(script, assign.value, state)


def _value(script: CommandContext, word: Word | None, state: ShellState, *, is_listed: bool = False) -> Values:
    """What the word may be where bash splits nothing. In a list (`is_listed`) patterns become names."""
    if word is None:
        return exact("")
    if len(word.parts) == 1 and isinstance(word.parts[0], CmdSubst) and prints_a_number(word.parts[0], script.bodies):
        fields(word, state, script)
        return NUMBERS
    values: Values = frozenset()
    for made in fields(word, state, script):
        if is_listed:
            script.analysis.lists(made, state.places)
        if len(made) > 1 or any(not field.is_known for field in made):
            return None
        values = joined(
            values, frozenset((field.text, field.kind) for field in made if field.kind != "unknown") or exact("")
        )
    return values


def declare(script: CommandContext, cmd: DeclClause, state: ShellState) -> Out:
    """declare, local, export, readonly, typeset."""
    variant = cmd.variant.value
    letters = ""
    for arg in cmd.args:
        if arg.name is not None:
            continue
        text = text_of(arg.value, state, script)
        if text is None or text[:1] not in ("-", "+") or not set(text[1:]) <= _DECLARED_HARMLESSLY:
            script.unsure(arg, f"{variant} evaluates it", f"write {variant} NAME=value, without -i and -n")
        else:
            letters += text[1:]
    if variant == "nameref" or ("f" in letters and (variant == "export" or "x" in letters)):
        script.unsure(cmd, "it gives a name another meaning", "use a variable itself")
    is_exported = variant == "export" or "x" in letters
    for arg in cmd.args:
        if arg.name is None:
            continue
        if arg.naked and arg.index is None:
            script.assign(arg.name.value, state, source=script.text(arg), is_exported=is_exported)
            continue
        _assign(script, arg, state, is_exported=is_exported)
        if arg.array is None and _may_be_list(
            state.value(arg.name.value), state, has_letter=bool({"a", "A"} & set(letters))
        ):
            script.unsure(arg, f"{variant} evaluates a value in brackets", "assign it without the word before")
    state.has_arrays = state.has_arrays or "a" in letters or "A" in letters
    return state, state


def _may_be_list(values: Values, state: ShellState, *, has_letter: bool) -> bool:
    if values is None:
        return state.has_arrays or has_letter
    return any(text.startswith("(") for text, _ in values)


# --- for the walk --------------------------------------------------------------------------------------------------


def is_builtin(name: str) -> bool:
    """Whether bash itself answers to the name, or the guard gives it a meaning."""
    return (
        name in builtins.HANDLERS or name in builtins.DOUBTFUL or name in builtins.PREFIXES or name in builtins.OTHERS
    )


def is_plain_function(name: str) -> bool:
    """Whether a function of this name, once defined, surely answers to it: bash takes no name with quotes, and in its POSIX mode
    special builtins go before functions."""
    return _FUNCTION.fullmatch(name) is not None and not is_builtin(name)


def is_bomb(name: str, body: Stmt) -> bool:
    """A function that starts itself twice at once: `:(){ :|:& };:` under any name."""
    if sum(_calls(node, name) for node in side_effects.everything(body)) < 2:
        return False
    beside = (
        node
        for node in side_effects.everything(body)
        if (isinstance(node, BinaryCmd) and node.op in ("|", "|&")) or (isinstance(node, Stmt) and node.background)
    )
    return any(_calls(inner, name) for node in beside for inner in side_effects.everything(node))


def _calls(node: Node, name: str) -> bool:
    return isinstance(node, CallExpr) and bool(node.args) and _literal(node.args[0]) == name


def _literal(word: Word) -> str | None:
    if len(word.parts) == 1 and isinstance(word.parts[0], Lit):
        return word.parts[0].value
    return None


def prints_a_number(part: CmdSubst, defined: Container[str]) -> bool:
    """`$(wc -l < f)`, `$(… | wc -l)`, `$(date +%s)`, `$(nproc)`: arithmetic may read these."""
    if len(part.stmts) != 1:
        return False
    cmd = part.stmts[0].cmd
    while isinstance(cmd, BinaryCmd) and cmd.op == "|":
        if cmd.y.redirs:
            return False
        cmd = cmd.y.cmd
    if not isinstance(cmd, CallExpr) or cmd.assigns:
        return False
    words = [_literal(word) for word in cmd.args]
    return words in _COUNTERS and words[0] not in defined


_COUNTERS: list[list[str | None]] = [
    ["wc", "-l"], ["wc", "-c"], ["wc", "-w"], ["wc", "-m"], ["date", "+%s"], ["date", "+%Y"], ["date", "+%s%N"], ["nproc"],
]  # fmt: skip
