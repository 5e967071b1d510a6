"""What a word of a script becomes when bash expands it: the texts a program gets, as far as the script alone tells. Pure."""

import itertools
import re
from dataclasses import dataclass
from typing import Literal, Protocol

from limpet.guard.policy.bash.quoting import Char, ansi_c, braces, has_braces, in_double_quotes, unquoted
from limpet.guard.policy.bash.state import MOST_VALUES, ShellState
from limpet.guard.policy.bash.tree import (
    ArithmExp,
    CmdSubst,
    DblQuoted,
    ExtGlob,
    Lit,
    ParamExp,
    ProcSubst,
    SglQuoted,
    Word,
    WordPart,
)

_PLAIN = re.compile(r"[^\\*?\[\]{}~\n]*")
_SAFE_UNQUOTED = re.compile(r"[^\s*?\[\]\\]*")
_ASSIGNED_HOME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=~(?:/|$)")


@dataclass(frozen=True, slots=True)
class Field:
    """One argument as a program gets it, and how it stands in the script.

    `kind`: "exact" is the text itself. "number" has digits that are only a sample. "pattern" becomes the names of files that match.
    "unknown" begins with `text`; with `many` it may be any number of arguments.
    """

    text: str
    source: str
    kind: Literal["exact", "number", "pattern", "unknown"] = "exact"
    many: bool = False

    @property
    def is_exact(self) -> bool:
        return self.kind == "exact"

    @property
    def is_known(self) -> bool:
        return self.kind != "unknown"

    @property
    def may_be_option(self) -> bool:
        """Whether a program may take it for an option."""
        match self.kind:
            case "exact" | "number":
                return self.text.startswith("-")
            case "pattern":
                return self.text[:1] in ("-", "*", "?", "[", "")
            case "unknown":
                return self.many or self.text[:1] in ("-", "")


def known(*texts: str) -> tuple[Field, ...]:
    """Arguments as they are, without a shell in between."""
    return tuple(Field(text, text) for text in texts)


# A piece of a word after expansion. "'": as it is; "": bare, so that braces, ~ and * still count; "0": a number's sample;
# "*": a pattern; "v": as it is, but no word of its own where empty; "?": anything; "@": any number of anything.
Piece = tuple[str, list[Char] | str]


class Inner(Protocol):
    """The interpreter, as words need it: it judges the commands inside a word (substitutions)."""

    def substituted(self, part: CmdSubst | ProcSubst, state: ShellState) -> None: ...
    def arithmetic(self, part: ArithmExp, state: ShellState) -> None: ...
    def parameter(self, part: ParamExp, state: ShellState, *, is_quoted: bool) -> "list[Piece]": ...
    def unsure(self, node: WordPart, why: str, instead: str) -> None: ...
    def source_of(self, node: Word) -> str: ...


def fields(word: Word, state: ShellState, inner: Inner) -> list[list[Field]]:
    """What the word may become: for each possible value of its variables the arguments it makes. Looks into all of it."""
    source = inner.source_of(word)
    if len(word.parts) == 1:
        part = word.parts[0]
        if isinstance(part, Lit) and _PLAIN.fullmatch(part.value):
            return [[Field(part.value, source)]]
        if isinstance(part, SglQuoted) and not part.dollar:
            return [[Field(part.value, source)]]
    choices = [_pieces(part, state, inner, is_quoted=False) for part in word.parts]
    count = 1
    for choice in choices:
        count *= len(choice)
    if count > MOST_VALUES:
        return [[Field("", source, "unknown", many=True)]]
    return [_finished(list(itertools.chain(*pieces)), source, state) for pieces in itertools.product(*choices)]


def text_of(word: Word | None, state: ShellState, inner: Inner) -> str | None:
    """The one exact text that the word is, also where bash splits nothing (after `=`, `<<<`, `case`); None if that is not sure."""
    if word is None:
        return ""
    made = fields(word, state, inner)
    if len(made) == 1 and len(made[0]) <= 1 and all(field.is_exact for field in made[0]):
        return made[0][0].text if made[0] else ""
    return None


def _pieces(part: WordPart, state: ShellState, inner: Inner, *, is_quoted: bool) -> list[list[Piece]]:
    """The part's alternatives."""
    match part:
        case Lit():
            return [[("'", in_double_quotes(part.value))]] if is_quoted else [[("", unquoted(part.value))]]
        case SglQuoted():
            text = ansi_c(part.value) if part.dollar else part.value
            return [[("'", text) if text is not None else ("?", "")]]
        case DblQuoted():
            if part.dollar:
                inner.unsure(part, "its text depends on the locale", 'write "…" without the $')
            choices = [_pieces(piece, state, inner, is_quoted=True) for piece in part.parts]
            return [
                [("'", ""), *itertools.chain(*pieces)]
                for pieces in itertools.islice(itertools.product(*choices), MOST_VALUES + 1)
            ]
        case ParamExp():
            return [[piece] for piece in inner.parameter(part, state, is_quoted=is_quoted)]
        case CmdSubst():
            inner.substituted(part, state)
            return [[("?" if is_quoted else "@", "")]]
        case ProcSubst():
            inner.substituted(part, state)
            return [[("'", "/dev/fd/63")]]
        case ArithmExp():
            inner.arithmetic(part, state)
            return [[("0", "0")]]
        case ExtGlob():
            inner.unsure(part, "bash reads it only with extglob", "name the files, or use *, ? and […]")
            return [[("@", "")]]


def _finished(pieces: list[Piece], source: str, state: ShellState) -> list[Field]:
    """Braces, ~ and patterns of one alternative."""
    chars: list[Char] = []
    is_sure_word = False
    kind: Literal["exact", "number", "pattern"] = "exact"
    for mark, text in pieces:
        if mark in ("?", "@"):
            start = _home(chars, state)
            known_start = "".join(char for char, _ in start or []) if not has_braces([*chars, ("}", False)]) else ""
            return [Field(known_start, source, "unknown", many=mark == "@")]
        if mark == "0" and kind == "exact":
            kind = "number"
        if mark == "*":
            kind = "pattern"
        is_sure_word = is_sure_word or mark != "v"
        chars += text if isinstance(text, list) else [(char, True) for char in text]
    if not chars and not is_sure_word:
        return []
    words = braces(chars) if has_braces(chars) else [chars]
    if words is None:
        return [Field("", source, "unknown", many=True)]
    return [_field(word, source, state, kind) for word in words]


def _field(chars: list[Char], source: str, state: ShellState, kind: Literal["exact", "number", "pattern"]) -> Field:
    at_home = _home(chars, state)
    if at_home is None:
        return Field("", source, "unknown")
    text = "".join(char for char, _ in at_home)
    bare = "".join(char for char, quoted in at_home if not quoted)
    if "*" in bare or "?" in bare or ("[" in bare and "]" in bare[bare.index("[") :]):
        kind = "pattern"
    return Field(text, source, kind)


def _home(chars: list[Char], state: ShellState) -> list[Char] | None:
    """A tilde at the start, or after the = of what looks like an assignment, becomes the home; None for another user's."""
    text = "".join("\0" if quoted else char for char, quoted in chars)
    if "~" not in text:
        return chars
    at = 0
    if found := _ASSIGNED_HOME.match("".join(char for char, _ in chars)):
        at = found.group().index("~")
    if text[at : at + 1] != "~":
        return None if ":~" in text or "=~" in text else chars
    if text[at + 1 : at + 2] not in ("", "/"):
        return None
    return [*chars[:at], *((char, True) for char in state.home), *chars[at + 1 :]]


def is_safe_bare(text: str) -> bool:
    """Whether `$x` with this value is one word, as it is."""
    return _SAFE_UNQUOTED.fullmatch(text) is not None
