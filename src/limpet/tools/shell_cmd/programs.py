"""Which programs run code that stands in their arguments, or other programs: what `shell_cmd` refuses by name. Pure.

A guard rail with a good message, never a wall: a program of any other name may do the same. What holds is the box.
Where an option could be read in two ways it is taken for the dangerous one.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from limpet.tools.shell_cmd.options import refuse_option
from limpet.tools.shell_cmd.refusal import CommandRefusal, inline, runs_others

_LONGEST_NAME = (
    255  # of a file (limits.h): what is longer names no program, and the expression below would take long for it
)
_VERSIONED = re.compile(r"(.+?)(?:-?\d[\d.]*)?(?:\.exe)?")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=")
# Variables that make another program run, or run code of their own (ld.so(8), bash(1), the interpreters' manuals).
_DANGEROUS_NAMES = re.compile(
    r"LD_\w+|PATH|BASH_\w+|ENV|IFS|SHELL|PS4|PROMPT_COMMAND|PYTHON\w*|PERL\w*|RUBY\w*|NODE_\w+|NPM_\w+|npm_\w+|LUA_\w+|PHP\w*"
    r"|JAVA_TOOL_OPTIONS|_JAVA_OPTIONS|JDK_JAVA_OPTIONS|GIT_\w+|SSH_ASKPASS|EDITOR|VISUAL|PAGER|MANPAGER|BROWSER|LESSOPEN"
    r"|LESSCLOSE|GCONV_PATH|TAR_OPTIONS|MAKEFLAGS|GLIBC_TUNABLES|HOME"
)


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
# They run what stands in their arguments as another program, or are of no use without a terminal.
RUNNERS = frozenset(
    "timeout nice nohup xargs setsid stdbuf sudo doas su time busybox toybox parallel watch script ssh chroot unshare nsenter"
    " flock ionice chrt taskset strace ltrace gdb lldb screen tmux at batch crontab systemd-run runuser setpriv capsh"
    " start-stop-daemon xvfb-run unbuffer rlwrap faketime eatmydata fakeroot socat nc ncat netcat dbus-run-session run-parts"
    " entr bwrap docker podman nerdctl kubectl pkexec numactl prlimit choom daemon daemonize catchsegv valgrind perf vi vim"
    " nvim view ex ed emacs nano npx pnpx bunx uvx pipx setarch linux32 linux64 sg newgrp chpst softlimit logsave".split()
)
# Subcommands that run the program named after them: that program is judged.
_CARRIERS: Mapping[str, frozenset[str]] = {
    **dict.fromkeys("uv poetry pipenv hatch pdm rye conda".split(), frozenset({"run"})),
    **dict.fromkeys("npm pnpm yarn bundle rbenv pyenv mise asdf".split(), frozenset({"exec", "x", "dlx"})),
}
_LOADER = re.compile(r"ld(-linux)?[\w.-]*\.so[.\d]*")
# Words of shells: as programs they are nothing, and where a shell stands inside the runtime they would run their arguments.
BUILTINS = frozenset(
    "eval exec source . command builtin trap enable alias unalias coproc hash export declare typeset local readonly set shopt"
    " unset if then else elif fi for while until do done case esac function select ! { } ( ) [[ ]]".split()
)


def plain_name(executable: str) -> str:
    """The program's own name: without directory, version and `.exe`, in lower case. `bin/Python3.12` is `python`."""
    base = re.split(r"[/\\]", executable)[-1].lower()
    found = _VERSIONED.fullmatch(base) if len(base) <= _LONGEST_NAME else None
    return found.group(1) if found else base


def refuse_program(executable: str, args: Sequence[str]) -> CommandRefusal | None:
    """Why this program must not be run with these arguments, or None (docs/shell-cmd-tool.md)."""
    name = plain_name(executable)
    if name in BUILTINS:
        return CommandRefusal(
            "inline_script", executable, "is a word of a shell, and there is no shell", "name a program"
        )
    if _ASSIGNMENT.match(executable):
        return CommandRefusal("inline_script", executable, "is an assignment and no program", "name a program")
    if name == "env":
        return _refuse_env(args)
    if name in RUNNERS or _LOADER.fullmatch(executable.rsplit("/", 1)[-1]):
        return runs_others(executable, "name the program itself as the command")
    if args and args[0] in _CARRIERS.get(name, ()):
        return _refuse_carried(f"{executable} {args[0]}", args[1:])
    return _refuse_inline(name, executable, args) or refuse_option(name, executable, args)


def _refuse_carried(carrier: str, args: Sequence[str]) -> CommandRefusal | None:
    args = args[1:] if args and args[0] == "--" else args
    if args and args[0].startswith("-"):
        return runs_others(f"{carrier} {args[0]}", "name the program right after it, without options")
    return refuse_program(args[0], args[1:]) if args else None


def _refuse_env(args: Sequence[str]) -> CommandRefusal | None:
    """`env NAME=VALUE … program args`: the program is judged. Options of env itself are refused."""
    for place, word in enumerate(args):
        if word.startswith("-"):
            return runs_others(f"env {word}", "name the program itself as the command")
        if not _ASSIGNMENT.match(word):
            return refuse_program(word, args[place + 1 :])
        name = word.partition("=")[0].rstrip("+")
        if _DANGEROUS_NAMES.fullmatch(name):
            return runs_others(f"env {word}", f"leave {name} as it is")
    return None


def _refuse_inline(name: str, executable: str, args: Sequence[str]) -> CommandRefusal | None:
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
    return None if found is None else inline(f"{executable} {found}")


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
