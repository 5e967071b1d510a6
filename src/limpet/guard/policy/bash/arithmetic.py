"""Whether arithmetic only computes. In bash it evaluates what variables hold, and subscripts in that run commands. Pure."""

import re
from collections.abc import Callable, Iterator

from limpet.guard.policy.bash.state import NUMBERS, ShellState, is_number
from limpet.guard.policy.bash.tree import (
    Arithmetic,
    ArithmExp,
    BinaryArithm,
    CmdSubst,
    DblQuoted,
    Lit,
    ParamExp,
    ParenArithm,
    UnaryArithm,
    Word,
    WordPart,
)

_INTEGER = re.compile(r"\d[0-9A-Za-z#@_]*")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
NUMBERS_OF_BASH = frozenset("# ? $ ! RANDOM SRANDOM SECONDS LINENO UID EUID PPID BASHPID EPOCHSECONDS".split())
_ASSIGNS = frozenset("= += -= *= /= %= &= |= ^= <<= >>=".split())


def assigned(expression: Arithmetic | None) -> Iterator[str]:
    """The names that the expression sets."""
    match expression:
        case BinaryArithm():
            if expression.op in _ASSIGNS:
                yield from _target(expression.x)
            yield from assigned(expression.x)
            yield from assigned(expression.y)
        case UnaryArithm():
            if expression.op in ("++", "--"):
                yield from _target(expression.x)
            yield from assigned(expression.x)
        case ParenArithm():
            yield from assigned(expression.x)
        case _:
            return


def _target(expression: Arithmetic) -> Iterator[str]:
    if isinstance(expression, Word) and len(expression.parts) == 1:
        match expression.parts[0]:
            case Lit(value=name):
                yield name
            case ParamExp(param=Lit(value=name)):
                yield name
            case _:
                return


def only_computes(expression: Arithmetic | None, state: ShellState, is_counted: Callable[[CmdSubst], bool]) -> bool:
    """Whether nothing but numbers is evaluated. `is_counted` says whether a substitution prints a number and nothing else."""
    match expression:
        case None:
            return True
        case BinaryArithm():
            return only_computes(expression.x, state, is_counted) and only_computes(expression.y, state, is_counted)
        case UnaryArithm() | ParenArithm():
            return only_computes(expression.x, state, is_counted)
        case Word():
            return all(_is_number(part, state, is_counted) for part in expression.parts)


def _is_number(part: WordPart, state: ShellState, is_counted: Callable[[CmdSubst], bool]) -> bool:
    match part:
        case Lit(value=text):
            if _NAME.fullmatch(text):
                return text in NUMBERS_OF_BASH or state.is_harmless_in_arithmetic(text)
            return _INTEGER.fullmatch(text) is not None
        case ParamExp():
            return _is_number_variable(part, state, is_counted)
        case ArithmExp():
            return only_computes(part.x, state, is_counted)
        case CmdSubst():
            return is_counted(part)
        case DblQuoted():
            return bool(part.parts) and all(
                not isinstance(piece, Lit) and _is_number(piece, state, is_counted) for piece in part.parts
            )
        case _:
            return False


def _is_number_variable(part: ParamExp, state: ShellState, is_counted: Callable[[CmdSubst], bool]) -> bool:
    name = part.param.value if part.param else ""
    if part.excl or part.names or part.slice or part.repl or (part.exp and part.exp.op != ":-"):
        return False
    if part.index is not None and not _is_plain_subscript(part.index, state, is_counted):
        return False
    if part.exp and not (part.exp.word and all(_is_number(piece, state, is_counted) for piece in part.exp.word.parts)):
        return False
    if part.length or name in NUMBERS_OF_BASH:
        return True
    return _NAME.fullmatch(name) is not None and state.is_harmless_in_arithmetic(name)


def _is_plain_subscript(index: Arithmetic, state: ShellState, is_counted: Callable[[CmdSubst], bool]) -> bool:
    return literal(index) in ("@", "*") or only_computes(index, state, is_counted)


def literal(expression: Arithmetic | None) -> str | None:
    """The expression's text where it is one bare word."""
    if isinstance(expression, Word) and len(expression.parts) == 1:
        part = expression.parts[0]
        return part.value if isinstance(part, Lit) else None
    return None


def computed(state: ShellState, expression: Arithmetic | None) -> None:
    """Afterwards what the expression set holds numbers."""
    for name in assigned(expression):
        old = state.value(name)
        state.set(name, NUMBERS if old is None or is_number(old) else None)
