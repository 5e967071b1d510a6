"""Shell text at random from tables of productions. Knows nothing of the guard.

A slot stands in ‹ ›, which no shell uses: `‹word›` is one of the grammar's productions of that name, `‹quoted:word›` the same through
one of MODIFIERS. The first production of a rule must end: it is what stands where nesting gets too deep.
"""

import random
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

FORBIDDEN = "rm"
DEEPEST = 6
LONGEST = 4_000
_SLOT = re.compile(r"‹(?:(\w+):)?(\w+)›")

# What every grammar may name. A `deed` is a command where bash runs one; a `word` is one where it only reads it.
BASE: Mapping[str, Sequence[str]] = {
    "forbidden": [
        "rm x", "rm x", "rm x", "rm -f x y", "/bin/rm x", "/usr/bin/rm x", "rm", "\\rm x", "r\\m x", "'rm' x", "r\"m\" x", "$'rm' x",
        "$'\\x72m' x", "command rm x", "env rm x", "A=1 rm x", ">o rm x", "rm x >o", "exec rm x", "! rm x", "time rm x",
        "$X x", "$'r\\155' x", "r''m x", "'r'\\\nm x", "r\\\nm x", "${E}rm x", "{rm,x}", "r[m] x", "~+/rm x", "../../bin/rm x",
        "\"$(printf rm)\" x", "`printf rm` x", "$(<cmd) x", "builtin command rm x", "command -p rm x", "nohup rm x",
    ],
    "harmless": [
        "echo a", "ls", "true", "cat f", ":", "printf '%s\\n' a", "grep -c a f", "false", "wc -l < f", "echo \"$HOME\"", "cat",
        "head -n 1 f", "sort f", "test -f f", "[ -n \"$E\" ]", "echo rm x", "echo 'rm x'", "grep rm f", "printf %s rm", "date +%s",
        "seq 3", "basename a/b", "tr a b < f", "cut -c1 f", "sed -n 1p f", "touch t", "cd .", "echo $x", "echo \"${y:-b}\"", "echo a > o",
    ],
    "datum": ["a", "rm", "'rm x'", "\"rm x\"", "\\;rm", "'$(rm x)'", "\"a;rm x\"", "'`rm x`'", "b", "\"$x\"", "f", "1", "-n", "'#'", "''"],
    "name": ["x", "y", "X", "a", "E", "i"],
    "number": ["1", "0", "2", "10", "-1"],
}  # fmt: skip


class Source(Protocol):
    """Where scripts come from. The same `chance` gives the same script."""

    @property
    def name(self) -> str: ...
    def script(self, chance: random.Random) -> str: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Grammar:
    """Productions from one chapter of bash's manual. `deed` is made by `script` and stands in no table. `daring` is the share of
    scripts in which a deed may be the forbidden one."""

    name: str
    chapter: str
    rules: Mapping[str, Sequence[str]]
    daring: float = 0.35
    start: str = "script"

    def script(self, chance: random.Random) -> str:
        """One script."""
        making = _Making(chance, {**BASE, **self.rules}, is_daring=chance.random() < self.daring)
        while True:
            text = making.expanded(self.start, 0)
            if len(text) <= LONGEST:
                return text


@dataclass(slots=True)
class _Making:
    chance: random.Random
    rules: Mapping[str, Sequence[str]]
    is_daring: bool
    modifiers: Mapping[str, Callable[[str, random.Random], str]] = field(default_factory=lambda: MODIFIERS)

    def expanded(self, name: str, depth: int) -> str:
        if name == "deed":
            name = "forbidden" if self.is_daring and self.chance.random() < 0.6 else "harmless"
        productions = self.rules[name]
        text = productions[0] if depth > DEEPEST else self.chance.choice(productions)

        def filled(slot: re.Match[str]) -> str:
            inner = self.expanded(slot[2], depth + 1)
            return self.modifiers[slot[1]](inner, self.chance) if slot[1] else inner

        return _SLOT.sub(filled, text)


def spelled(word: str, chance: random.Random) -> str:
    """The same letters, each written in one of the ways that quote removal and expansion undo."""
    return "".join(_letter(letter, chance) for letter in word)


def _letter(letter: str, chance: random.Random) -> str:
    if letter.isspace() or chance.random() < 0.4:
        return letter
    code = ord(letter)
    ways = [
        f"'{letter}'", f'"{letter}"', f"\\{letter}", f"$'{letter}'", f'$"{letter}"', f"''{letter}", f'{letter}""', f"\\\n{letter}",
        f"$'\\x{code:02x}'", f"$'\\{code:03o}'", f"$'\\u{code:04x}'", f"${{E}}{letter}", f"$@{letter}", f"$(:){letter}", f"`:`{letter}",
        f"[{letter}]", f"{{{letter},}}", f"${{u:-{letter}}}", f"${{u-{letter}}}", f"{letter}$*", f"${{E}}'{letter}'", f"{letter}{{,}}",
        f'"${{E}}{letter}"', f"$'{letter}\\c@'", f"$'{letter}\\0zz'", f'"\\\n{letter}"',
    ]  # fmt: skip
    return chance.choice(ways) if letter not in "'\"\\$`" else "\\" + letter


def _in_single_quotes(text: str, chance: random.Random) -> str:
    return shlex.quote(text) if text else "''"


def _in_double_quotes(text: str, chance: random.Random) -> str:
    return '"' + re.sub(r'([\\"$`])', r"\\\1", text) + '"'


def _in_backquotes(text: str, chance: random.Random) -> str:
    return "`" + re.sub(r"([\\`$])", r"\\\1", text) + "`"


def _in_bare_backquotes(text: str, chance: random.Random) -> str:
    return "`" + text.replace("\\", "\\\\").replace("`", "\\`") + "`"


def _ansi(text: str, chance: random.Random) -> str:
    """$'…' with some letters by their codes."""
    made = []
    for letter in text:
        code = ord(letter)
        ways = [f"\\x{code:02x}", f"\\{code:03o}", f"\\u{code:04x}", letter, letter, letter]
        made.append("\\" + letter if letter in "'\\" else "\\n" if letter == "\n" else chance.choice(ways))
    return "$'" + "".join(made) + "'"


def _quoted(text: str, chance: random.Random) -> str:
    return chance.choice([_in_single_quotes, _in_double_quotes, _ansi])(text, chance)


def _flat(text: str, chance: random.Random) -> str:
    """On one line."""
    return text.replace("\n", "; ")


MODIFIERS: Mapping[str, Callable[[str, random.Random], str]] = {
    "sq": _in_single_quotes,
    "dq": _in_double_quotes,
    "bq": _in_backquotes,
    "bbq": _in_bare_backquotes,
    "ansi": _ansi,
    "quoted": _quoted,
    "spelled": spelled,
    "flat": _flat,
}
