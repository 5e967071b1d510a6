"""What `$name` and `${name…}` become, and a here-document's text. Looks into all of it; what evaluates its value is a doubt."""

import re
from typing import Protocol

from limpet.guard.policy.bash import side_effects
from limpet.guard.policy.bash.arithmetic import literal, only_computes
from limpet.guard.policy.bash.state import ShellState, Values, joined
from limpet.guard.policy.bash.tree import Arithmetic, DblQuoted, Lit, Node, ParamExp, SglQuoted, Word
from limpet.guard.policy.bash.variables import is_name
from limpet.guard.policy.bash.words import Inner, Piece, fields, is_safe_bare, text_of

_NUMBERS = frozenset("# ? $ !".split())
_SETS = frozenset("= :=".split())
_OR_ELSE = frozenset("- :-".split())
_HARMLESS_LETTERS = frozenset("Q E U u L a A K k".split())


class ExpansionContext(Inner, Protocol):
    """The interpreter, as the expansion of parameters needs it."""

    def subscript(self, node: Node, index: Arithmetic | None, state: ShellState) -> None: ...
    def assign(
        self, name: str, state: ShellState, *, source: str, is_exported: bool = False, text: str | None = None
    ) -> bool: ...
    def text(self, node: Node) -> str: ...


def pieces(part: ParamExp, state: ShellState, script: ExpansionContext, *, is_quoted: bool) -> list[Piece]:
    """The parameter's possible values as pieces of a word."""
    name = part.param.value if part.param else ""
    unknown: list[Piece] = [("?" if is_quoted and not _is_many(part, name) else "@", "")]
    default = _look_inside(part, name, state, script, is_quoted=is_quoted)
    if part.length or (name in _NUMBERS and not part.exp):
        return [("0", "0")]
    if part.excl or part.names or part.index is not None or part.slice or part.repl:
        return unknown
    values = _value(name, state)
    if part.exp is not None:
        if part.exp.op not in _OR_ELSE | _SETS:
            return unknown
        values = joined(values, default)
    if values is None or any(kind == "inherited" for _, kind in values):
        return unknown
    return _as_pieces(values, unknown, is_quoted=is_quoted)


def _value(name: str, state: ShellState) -> Values:
    if name in ("@", "*") or name.isdigit():
        return None if state.has_arguments or name == "0" else frozenset({("", "exact")})
    return state.value(name) if is_name(name) else None


def _other(word: Word | None, state: ShellState, script: ExpansionContext) -> Values:
    text = text_of(word, state, script)
    return frozenset({(text, "exact")}) if text is not None else None


def _is_many(part: ParamExp, name: str) -> bool:
    return name == "@" or literal(part.index) == "@" or part.names == "@"


def _as_pieces(values: frozenset[tuple[str, str]], unknown: list[Piece], *, is_quoted: bool) -> list[Piece]:
    made: list[Piece] = []
    for text, kind in sorted(values):
        if kind == "number":
            made.append(("0", text))
        elif kind == "pattern":
            made.append(("*", text))
        elif is_quoted:
            made.append(("'", text))
        elif is_safe_bare(text):
            made.append(("v", text))
        else:
            return unknown
    return made


def _look_inside(part: ParamExp, name: str, state: ShellState, script: ExpansionContext, *, is_quoted: bool) -> Values:
    """Follows all that is inside, each word once. What a default is, where there is one."""
    if part.excl and not (part.names or literal(part.index) in ("@", "*")):
        script.unsure(part, "it evaluates the name that the variable holds", "use the variable itself")
    if literal(part.index) not in ("@", "*"):
        script.subscript(part, part.index, state)
    if part.slice:
        script.subscript(part, part.slice.offset, state)
        script.subscript(part, part.slice.length, state)
    inner = [word for word in _words(part) if word is not None]
    if inner and re.search(r"[<>]\(", script.text(part)):
        script.unsure(part, "bash may run what looks like <(…) in it", "put the default into a variable first")
    if is_quoted and any(
        isinstance(node, SglQuoted | DblQuoted) for word in inner for node in side_effects.everything(word)
    ):
        script.unsure(part, "quotes inside a quoted ${…} are read in two ways", "put the default into a variable first")
    if part.repl is not None:
        for word in inner:
            fields(word, state, script)
    if part.exp is None:
        return None
    default = _other(part.exp.word, state, script)
    if part.exp.op == "@" and literal(part.exp.word) not in _HARMLESS_LETTERS:
        script.unsure(part, "it evaluates what the variable holds", 'write "$name"')
    if part.exp.op in _SETS:
        script.assign(name, state, source=script.text(part))
        state.set(name, joined(state.value(name), default))
    return default


def _words(part: ParamExp) -> list[Word | None]:
    words: list[Word | None] = [part.exp.word] if part.exp else []
    return words + ([part.repl.orig, part.repl.with_] if part.repl else [])


def is_plain_key(index: Arithmetic, state: ShellState) -> bool:
    """A subscript that only names an element: a number, or a word that is no variable with something in it."""
    if not (isinstance(index, Word) and len(index.parts) == 1):
        return False
    match index.parts[0]:
        case Lit(value=text) | SglQuoted(value=text, dollar=False) | DblQuoted(parts=[Lit(value=text)], dollar=False):
            plain = text.replace("-", "_").replace(".", "_").replace("_", "a")
            return plain.isascii() and plain.isalnum() and only_computes(_bare(text), state, lambda _: False)
        case _:
            return False


def _bare(text: str) -> Word:
    """Every name in it counts as read."""
    return Word(parts=[Lit(value=piece) for piece in text.replace("-", " ").replace(".", " ").split()])


def here_document(body: Word | None, state: ShellState, script: ExpansionContext) -> str | None:
    """The text of a here-document; None where it is not sure. In it quotes are only characters."""
    if body is None:
        return ""
    texts: list[str] | None = []
    for piece in body.parts:
        if isinstance(piece, Lit):
            texts = [*texts, piece.value] if texts is not None else None
            continue
        fields(Word(parts=[DblQuoted(parts=[piece])], pos=piece.pos, end=piece.end), state, script)
        texts = None
    return "".join(texts) if texts is not None else None
