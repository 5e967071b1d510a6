"""Interpreters that take code on their command line, and how. Pure, over plain words.

Where an option could be read in two ways it is taken for the dangerous one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Interpreter:
    """How code is given on its command line: letters that take it (in a cluster too), letters that take another value, whole
    words. `rest_is_value`: what follows such a letter in its cluster is its value; shells read on."""

    code: str = ""
    takes: str = ""
    words: tuple[str, ...] = ()
    rest_is_value: bool = True
    clusters: bool = True


_SHELL = Interpreter("c", "oO", ("--command", "--init-command"), rest_is_value=False)
_NODE = Interpreter("ep", "rC", ("--eval", "--print"))
_PYTHON = Interpreter("c", "WXQ")
_EXPRESSION = Interpreter("eE", "", ("--eval", "--execute", "--expr", "-eval", "-c"), clusters=False)
INTERPRETERS: Mapping[str, Interpreter] = {
    **dict.fromkeys("sh bash rbash dash ash ksh mksh lksh pdksh yash zsh csh tcsh rc es nu elvish xonsh".split(), _SHELL),
    "fish": Interpreter("cC", "do", ("--command", "--init-command")),
    **dict.fromkeys("python pypy jython micropython ipython".split(), _PYTHON),
    **dict.fromkeys("node nodejs".split(), _NODE),
    **dict.fromkeys("bun tsx ts-node".split(), Interpreter("ep", "r", ("--eval", "--print", "exec", "x"))),
    "deno": Interpreter(words=("eval", "repl")),
    "perl": Interpreter("eEMm", "IFxi"),
    "ruby": Interpreter("e", "ICrEFxi"),
    "php": Interpreter("rBRE", "cdfFtSz", ("--run", "--process-begin", "--process-code", "--process-end")),
    **dict.fromkeys("lua luajit texlua".split(), Interpreter("e", "l")),
    **dict.fromkeys("r rscript julia groovy scala ghc runghc elixir erl racket guile clojure clj swift".split(), _EXPRESSION),
    **dict.fromkeys("osascript octave gnuplot ocaml dc sbcl ecl raku rakudo expect".split(), _EXPRESSION),
}  # fmt: skip
_POWERSHELL = frozenset({"powershell", "pwsh"})
_MODULES_OF_CODE = frozenset({"timeit", "pdb", "code", "codeop", "profile", "cprofile", "trace"})


def inline_code(name: str, args: Sequence[str]) -> str | None:
    """The first argument that gives the program of that unversioned name code to run, or None."""
    if name in _POWERSHELL:
        found = next((word for word in args if _is_powershell_code(word)), None)
    elif name == "cmd":
        found = next((word for word in args if word.lower()[:2] in ("/c", "/k", "/r", "-c", "-k")), None)
    elif name in INTERPRETERS:
        found = _inline_option(INTERPRETERS[name], args)
    else:
        return None
    if found is None and INTERPRETERS.get(name) is _PYTHON:
        found = _module_of_code(args)
    return found


def _inline_option(interpreter: Interpreter, args: Sequence[str]) -> str | None:
    """The first of the interpreter's own options that gives it code. What comes after the script's name is the script's."""
    values = 0  # words that may be the values of options before them
    for word in args:
        if word.partition("=")[0].lower() in interpreter.words or word == "-" or word.lower().startswith("data:"):
            return word
        if not word.startswith(("-", "+")):
            if not values:
                return None
            values -= 1
        elif word == "--":
            return None
        elif word.startswith("--"):
            values = 0 if "=" in word else 1
        else:
            letters = _letters(interpreter, word[1:])
            if set(letters) & set(interpreter.code):
                return word
            values = sum(letter in interpreter.takes for letter in letters)
    return None


def _letters(interpreter: Interpreter, cluster: str) -> str:
    """The letters of a cluster that are options themselves."""
    if not interpreter.clusters:
        return cluster[:1]
    if not interpreter.rest_is_value:
        return cluster
    end = next((place for place, letter in enumerate(cluster) if letter in interpreter.takes), len(cluster))
    return cluster[: end + 1]


def _module_of_code(args: Sequence[str]) -> str | None:
    """`-m timeit CODE` and the like."""
    for place, word in enumerate(args):
        if not word.startswith("-"):
            continue
        if word.startswith("--") or "m" not in word:
            continue
        module = word.partition("m")[2] or "".join(args[place + 1 : place + 2])
        return f"-m {module}" if module.lower() in _MODULES_OF_CODE else None
    return None


def _is_powershell_code(word: str) -> bool:
    """-Command, -EncodedCommand and their short forms, after any of the dashes that PowerShell takes."""
    if word[:1] not in ("-", "/", "–", "—", "―"):
        return False
    plain = word.lower().lstrip("-/–—―")
    return plain == "" or plain.startswith("c") or (plain.startswith("e") and plain[:2] not in ("ex", "ep"))
