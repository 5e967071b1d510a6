"""The options of one command line, read as getopt reads them. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from limpet.guard.policy.bash.words import Field


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionSyntax:
    """Which options there are. `flags` and `valued` are letters, `long_flags` and `long_valued` words without their dashes.
    Where `stops`, the first word that is no option ends them, as for env and timeout."""

    flags: str = ""
    valued: str = ""
    long_flags: frozenset[str] = frozenset()
    long_valued: frozenset[str] = frozenset()
    stops: bool = False


@dataclass(slots=True)
class ParsedOptions:
    """`options` are letters or long words with their values; `operands` the rest; `unsure` words that may be options."""

    options: list[tuple[str, Field | None]] = field(default_factory=list)
    operands: list[Field] = field(default_factory=list)
    unsure: list[Field] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)

    def has(self, *names: str) -> bool:
        return any(name in names for name, _ in self.options)

    @property
    def is_sure(self) -> bool:
        return not self.unsure and not self.unknown


def parse(words: Sequence[Field], syntax: OptionSyntax) -> ParsedOptions:
    """The words after the command's name. What the syntax doesn't know is in `unknown` and taken for a flag."""
    parsed = ParsedOptions()
    waiting = list(words)
    while waiting:
        word = waiting.pop(0)
        if word.is_known and word.kind != "pattern" and word.text == "--":
            parsed.operands += waiting
            break
        if not word.may_be_option or word.text == "-":
            parsed.operands.append(word)
            if syntax.stops:
                parsed.operands += waiting
                break
        elif not word.is_exact:
            parsed.unsure.append(word)
            if syntax.stops:
                parsed.operands += [word, *waiting]
                break
        elif word.text.startswith("--"):
            _long(word, waiting, syntax, parsed)
        else:
            _short(word, waiting, syntax, parsed)
    return parsed


def _long(word: Field, waiting: list[Field], syntax: OptionSyntax, parsed: ParsedOptions) -> None:
    name, equals, value = word.text[2:].partition("=")
    if name not in syntax.long_valued and name not in syntax.long_flags:
        meant = [one for one in syntax.long_valued | syntax.long_flags if one.startswith(name)]
        if len(meant) == 1:
            name = meant[0]
        else:
            parsed.unknown.append(f"--{name}")
    if equals:
        parsed.options.append((name, Field(value, word.source)))
    elif name in syntax.long_valued and waiting:
        parsed.options.append((name, waiting.pop(0)))
    else:
        parsed.options.append((name, None))


def _short(word: Field, waiting: list[Field], syntax: OptionSyntax, parsed: ParsedOptions) -> None:
    for at, letter in enumerate(word.text[1:], start=1):
        if letter in syntax.valued:
            rest = word.text[at + 1 :]
            if not rest and not waiting:
                parsed.unknown.append(f"-{letter}")
            value = Field(rest, word.source) if rest else waiting.pop(0) if waiting else None
            parsed.options.append((letter, value))
            return
        if letter not in syntax.flags:
            parsed.unknown.append(f"-{letter}")
        parsed.options.append((letter, None))


def names_any(words: Sequence[Field], letters: str, longs: Sequence[str], *, valued: str = "") -> str | None:
    """The first word that is, or may be, one of these options: clustered, abbreviated, with a value attached. None if none is.
    `valued` are letters whose value may stand attached, so that what follows them is not looked at."""
    for word in words:
        if word.is_exact and word.text == "--":
            return None
        if not word.may_be_option or word.text == "-":
            continue
        if not word.is_exact:
            return word.source
        if word.text.startswith("--"):
            name = word.text[2:].partition("=")[0]
            if any(long.startswith(name) for long in longs):
                return word.source
            continue
        for letter in word.text[1:]:
            if letter in letters:
                return word.source
            if letter in valued:
                break
    return None
