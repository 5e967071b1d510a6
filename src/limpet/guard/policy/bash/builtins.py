"""What bash's own commands do to the shell that runs them, and which of their words they evaluate. Pure.

Every builtin of bash 5.2 stands in one of the tables; what is only in DOUBTFUL is refused where commands are held to a policy.
"""

import posixpath
import re
from collections.abc import Callable

from limpet.guard.policy.bash.effects_found import EvaluatedText, ShellContext
from limpet.guard.policy.bash.side_effects import SideEffects
from limpet.guard.policy.bash.state import ShellState, exact
from limpet.guard.policy.bash.variables import is_name
from limpet.guard.policy.bash.words import Field

Out = tuple[ShellState, ShellState]
Handler = Callable[[ShellContext, list[Field], ShellState, str], Out]
Prefix = Callable[[ShellContext, list[Field], str], tuple[list[Field], bool]]

_BINARY_TESTS = frozenset("= == != < > -eq -ne -lt -le -gt -ge -nt -ot -ef".split())
_SET = re.compile(r"[-+][euxvnfbhmCBPET]*|--?")
_SET_NAMES = frozenset("errexit nounset pipefail xtrace verbose noglob noclobber errtrace functrace noexec".split())
_SHOPT_NAMES = frozenset("nullglob dotglob globstar nocaseglob nocasematch inherit_errexit".split())

# --- command, builtin, exec: what follows them is the command ------------------------------------------------------


def _command(shell: ShellContext, words: list[Field], source: str) -> tuple[list[Field], bool]:
    rest = words[1:]
    while rest and rest[0].may_be_option:
        option = rest.pop(0)
        if not option.is_exact or option.text not in ("-p", "-v", "-V", "--"):
            shell.analysis.doubt(source, "its options are not sure", "write the command without `command`")
            return [], True
        if option.text in ("-v", "-V"):
            return [], True
        if option.text == "--":
            break
    return rest, True


def _builtin(shell: ShellContext, words: list[Field], source: str) -> tuple[list[Field], bool]:
    rest = words[1:]
    if rest and rest[0].is_exact and rest[0].text == "--":
        rest = rest[1:]
    return rest, True


def _exec(shell: ShellContext, words: list[Field], source: str) -> tuple[list[Field], bool]:
    rest = words[1:]
    if rest and rest[0].is_exact and rest[0].text == "--":
        rest = rest[1:]
    if rest and rest[0].may_be_option:
        shell.analysis.doubt(source, "exec's options change what runs", "write exec NAME …")
    return rest, False


PREFIXES: dict[str, Prefix] = {"command": _command, "builtin": _builtin, "exec": _exec}

# --- the rest ------------------------------------------------------------------------------------------------------


def _nothing(shell: ShellContext, words: list[Field], state: ShellState, source: str) -> Out:
    return state, state


def _exit(shell: ShellContext, words: list[Field], state: ShellState, source: str) -> Out:
    """Only exit surely ends the script: return and break do nothing where they don't belong, nor does exit with two words."""
    if len(words) > 2 or any(not word.is_exact or word.text.startswith("-") for word in words):
        return state, state
    after = state.copy()
    after.is_over = True
    return after, after


def _cd(shell: ShellContext, words: list[Field], state: ShellState, source: str) -> Out:
    """Success moves, failure stays."""
    moved = state.copy()
    targets = [word for word in words[1:] if word.text not in ("-L", "-P", "-e", "--") or not word.is_exact]
    if not targets:
        moved.move(frozenset({state.home}))
    elif len(targets) > 1 or not targets[0].is_exact or targets[0].text.startswith(("-", "+")) or state.places is None:
        is_absolute = len(targets) == 1 and targets[0].is_exact and targets[0].text.startswith("/")
        moved.move(_reached("/", targets[0].text) if is_absolute else None)
    else:
        moved.move(frozenset().union(*(_reached(place, targets[0].text) for place in state.places)))
    moved.set("OLDPWD", None)
    return moved, state


def _reached(place: str, target: str) -> frozenset[str]:
    """By name, as bash goes, and by the links, as the kernel goes: they differ after `..`."""
    path = posixpath.join(place, target)
    return frozenset({path, posixpath.normpath(path)})


def _pushd(shell: ShellContext, words: list[Field], state: ShellState, source: str) -> Out:
    """As cd where it names a directory; else it goes where it was before."""
    if len(words) == 2 and words[1].is_exact and not words[1].text.startswith(("-", "+")):
        return _cd(shell, words, state, source)
    return _popd(shell, words, state, source)


def _popd(shell: ShellContext, words: list[Field], state: ShellState, source: str) -> Out:
    state.move(None)
    return state, state


def _names(shell: ShellContext, words: list[Field], state: ShellState, source: str) -> None:
    """Each word is a plain variable's name, which may hold anything from now on."""
    for word in words:
        if not (word.is_exact and is_name(word.text)):
            shell.analysis.doubt(source, f"{word.source} may be evaluated as a subscript", "use a plain name")
        else:
            shell.assign(word.text, state, source=source)
            state.set(word.text, None)


def _options(
    words: list[Field], plain: str, with_value: str
) -> tuple[list[tuple[str, Field | None]], list[Field]] | None:
    """Short options, clustered or not; None where they are not sure."""
    options: list[tuple[str, Field | None]] = []
    rest = words[1:]
    while rest and rest[0].may_be_option:
        word = rest.pop(0)
        if not word.is_exact or (word.text.startswith("--") and word.text != "--"):
            return None
        if word.text in ("-", "--"):
            return options, rest if word.text == "--" else [word, *rest]
        for at, letter in enumerate(word.text[1:], start=1):
            if letter in with_value:
                attached = word.text[at + 1 :]
                if not attached and not rest:
                    return None
                options.append((letter, Field(attached, word.source) if attached else rest.pop(0)))
                break
            if letter not in plain:
                return None
            options.append((letter, None))
    return options, rest


def _unsure_options(shell: ShellContext, source: str, name: str) -> None:
    shell.analysis.doubt(source, f"the options of {name} are not sure", "write each option and each name out")


def _read(shell: ShellContext, words: list[Field], state: ShellState, source: str) -> Out:
    parsed = _options(words, "rse", "adinNptu")
    if parsed is None:
        _unsure_options(shell, source, "read")
        SideEffects(is_wild=True).happen(state)
        return state, state
    options, names = parsed
    if any(value is not None and value.many for _, value in options):
        _unsure_options(shell, source, "read")
    _names(shell, [value for letter, value in options if letter == "a" and value is not None] + names, state, source)
    state.has_arrays = state.has_arrays or any(letter == "a" for letter, _ in options)
    state.set("REPLY", None)
    return state, state


def _mapfile(shell: ShellContext, words: list[Field], state: ShellState, source: str) -> Out:
    parsed = _options(words, "t", "dnOsu")
    state.has_arrays = True
    if parsed is None or any(value is None or value.many for letter, value in parsed[0] if letter != "t"):
        _unsure_options(shell, source, "mapfile")
        SideEffects(is_wild=True).happen(state)
        return state, state
    _names(shell, parsed[1], state, source)
    state.set("MAPFILE", None)
    return state, state


def _printf(shell: ShellContext, words: list[Field], state: ShellState, source: str) -> Out:
    if len(words) > 1 and words[1].may_be_option and not (words[1].is_exact and words[1].text in ("--", "-")):
        parsed = _options(words, "", "v")
        names = [value for _, value in parsed[0] if value is not None] if parsed else []
        if not names:
            shell.analysis.doubt(source, "its format may be the option -v", "write printf -- …, or printf '%s' …")
        _names(shell, names, state, source)
    return state, state


def _getopts(shell: ShellContext, words: list[Field], state: ShellState, source: str) -> Out:
    _names(shell, words[2:3], state, source)
    if len(words) < 3 or any(word.many for word in words[1:3]):
        _unsure_options(shell, source, "getopts")
    state.set("OPTARG", None)
    return state, state


def _unset(shell: ShellContext, words: list[Field], state: ShellState, source: str) -> Out:
    names = words[1:]
    if names and names[0].is_exact and names[0].text == "-v":
        names = names[1:]
    else:
        for word in names:
            shell.analysis.forgets(word.text if word.is_exact else None)
    _names(shell, names, state, source)
    for word in names:
        if word.is_exact:
            state.set(word.text, exact(""))
    return state, state


def _wait(shell: ShellContext, words: list[Field], state: ShellState, source: str) -> Out:
    if any(word.may_be_option and not (word.is_exact and word.text in ("-n", "-f")) for word in words[1:]):
        _unsure_options(shell, source, "wait")
    return state, state


def _jobs(shell: ShellContext, words: list[Field], state: ShellState, source: str) -> Out:
    if any(
        not word.is_exact or (word.text.startswith("-") and set(word.text[1:]) - set("lnprs")) for word in words[1:]
    ):
        _unsure_options(shell, source, "jobs")
    return state, state


def _set(shell: ShellContext, words: list[Field], state: ShellState, source: str) -> Out:
    at = 1
    while at < len(words):
        word = words[at]
        if not word.is_exact:
            if word.may_be_option:
                _unsure_options(shell, source, "set")
            break
        if word.text in ("-", "--") or not word.text.startswith(("-", "+")):
            break
        if word.text[1:].endswith("o"):
            at += 1
            if at < len(words) and not (words[at].is_exact and words[at].text in _SET_NAMES):
                shell.analysis.doubt(source, "the option changes how the script is read", "do without it")
        if not _SET.fullmatch(word.text.removesuffix("o")):
            shell.analysis.doubt(source, "the option changes how the script is read", "do without it")
        at += 1
    state.has_arguments = state.has_arguments or at < len(words)
    return state, state


def _shopt(shell: ShellContext, words: list[Field], state: ShellState, source: str) -> Out:
    names = [word for word in words[1:] if not (word.is_exact and word.text in ("-s", "-u", "-q", "-p"))]
    if any(not word.is_exact or word.text not in _SHOPT_NAMES for word in names):
        shell.analysis.doubt(source, "the option changes how the script is read", "do without it")
    return state, state


def _ulimit(shell: ShellContext, words: list[Field], state: ShellState, source: str) -> Out:
    parsed = _options(words, "aHScdeklmrstvRTbx", "")
    if parsed is None:
        why = "without descriptors, processes or files the shell's own commands fail"
        shell.analysis.doubt(source, why, "leave these limits to the box")
    return state, state


def _test(shell: ShellContext, words: list[Field], state: ShellState, source: str) -> Out:
    args = words[1:]
    if words[0].text == "[":
        args = args[:-1]
    if not _is_plain_test(args):
        shell.analysis.doubt(
            source, "it may test -v, which evaluates subscripts", "write [[ … ]], with each operator in place"
        )
    return state, state


def _is_plain_test(args: list[Field]) -> bool:
    if args and args[0].is_exact and args[0].text == "!":
        return _is_plain_test(args[1:])
    if any(word.many for word in args):
        return False
    if any(word.is_exact and word.text in ("-v", "-R") for word in args):
        return len(args) == 2 and args[1].is_exact and is_name(args[1].text)
    match args:
        case [] | [_]:
            return True
        case [operator, _]:
            return operator.is_exact
        case [_, operator, _]:
            return operator.is_exact and operator.text in _BINARY_TESTS | {"-a", "-o"}
        case _:
            return all(word.is_exact or not word.may_be_option for word in args)


def _eval(shell: ShellContext, words: list[Field], state: ShellState, source: str) -> Out:
    rest = words[1:]
    if rest and rest[0].is_exact and rest[0].text == "--":
        rest = rest[1:]
    _evaluated(shell, rest, state, source)
    SideEffects(is_wild=True).happen(state)
    return state, state


def _trap(shell: ShellContext, words: list[Field], state: ShellState, source: str) -> Out:
    rest = words[1:]
    if not rest or (rest[0].is_exact and rest[0].text in ("-p", "-l", "-", "")):
        return state, state
    if rest[0].is_exact and rest[0].text == "--":
        rest = rest[1:]
    ends = len(rest) == 2 and rest[1].is_exact and rest[1].text in ("EXIT", "0")
    _evaluated(shell, rest[:1], state, source, is_handler=not ends)
    return state, state


def _evaluated(
    shell: ShellContext, words: list[Field], state: ShellState, source: str, *, is_handler: bool = False
) -> None:
    if not all(word.is_exact for word in words):
        shell.analysis.forgets(None)
        shell.analysis.doubt(source, "the text that it evaluates is not sure", "write the commands themselves")
        return
    text = " ".join(word.text for word in words)
    shell.analysis.scripts.append(
        EvaluatedText(
            text=text,
            source=source,
            state=state.foreign(),
            feed=shell.feed,
            depth=shell.depth + 1,
            is_handler=is_handler,
            bodies=shell.bodies,
        )
    )


def _source(shell: ShellContext, words: list[Field], state: ShellState, source: str) -> Out:
    shell.analysis.forgets(None)
    SideEffects(is_wild=True).happen(state)
    return state, state


HANDLERS: dict[str, Handler] = {
    "cd": _cd, "pushd": _pushd, "popd": _popd, "exit": _exit, "read": _read, "mapfile": _mapfile, "readarray": _mapfile,
    "printf": _printf, "getopts": _getopts, "unset": _unset, "wait": _wait, "jobs": _jobs, "set": _set, "shopt": _shopt,
    "ulimit": _ulimit,
    "test": _test, "[": _test, "eval": _eval, "trap": _trap, "source": _source, ".": _source,
    **dict.fromkeys(": true false echo pwd kill umask times type dirs disown help shift return break continue logout".split(),
                    _nothing),
}  # fmt: skip

_BY_ANOTHER_NAME = "it evaluates its words where it does not stand bare"
DOUBTFUL = {
    "alias": "it changes what names mean", "unalias": "it changes what names mean", "enable": "it changes what names mean",
    "hash": "it changes what names mean", "bind": "it runs commands at a key", "complete": "it runs commands at a key",
    "compgen": "it evaluates its words", "compopt": "it runs commands at a key", "fc": "it runs commands again",
    "history": "it evaluates its words", "caller": "it tells of the shell's own state", "suspend": "it stops the shell",
    "fg": "it needs a terminal", "bg": "it needs a terminal",
    "declare": _BY_ANOTHER_NAME, "typeset": _BY_ANOTHER_NAME, "local": _BY_ANOTHER_NAME, "export": _BY_ANOTHER_NAME,
    "readonly": _BY_ANOTHER_NAME, "let": _BY_ANOTHER_NAME,
}  # fmt: skip
OTHERS = frozenset("if then else elif fi case esac for select while until do done in function time coproc".split())
# What only steers the script itself: no allowlist need name it.
STEERING = frozenset(": break continue return exit shift set shopt wait trap eval command builtin exec".split())
# Words of shells: as programs they are nothing, and where a shell stands inside the runtime they would run their arguments.
WORDS_OF_SHELLS = (
    frozenset(HANDLERS)
    | frozenset(DOUBTFUL)
    | OTHERS
    | STEERING
    | frozenset("else function select ! { } ( ) [[ ]] exec builtin".split())
) - frozenset(": true false echo pwd kill printf test [ times cd umask ulimit type wait time".split())
