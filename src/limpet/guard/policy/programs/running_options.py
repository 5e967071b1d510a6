"""Options of everyday programs that make them run other programs, or code of their own. Pure, over plain words.

sed, awk, find, git and tar have readers of their own; `hazards` asks all of them. What a policy and `shell_cmd` refuse comes from
the same tables.
"""

import re
from collections.abc import Callable, Mapping, Sequence

_Rule = Callable[[Sequence[str]], str | None]

# Whole words (also as WORD=value), by program.
_WORDS: Mapping[str, tuple[str, ...]] = {
    "fd": ("-x", "-X", "--exec", "--exec-batch"),
    "rg": ("--pre", "--hostname-bin"),
    "make": ("--eval",),
    "rsync": ("--rsh", "--rsync-path"),
    "split": ("--filter",),
    "sort": ("--compress-program",),
    "zip": ("-TT", "--unzip-command"),
    "npm": ("-c", "--call", "--script-shell"),
    "pnpm": ("-c", "--shell-mode", "--script-shell"),
    "cargo": ("--config",),
    "go": ("-exec", "-toolexec"),
    "man": ("-P", "--pager", "-H", "--html"),
    "sqlite": ("-cmd",),
    "scp": ("-S", "-o"),
    "sftp": ("-S", "-o"),
    "wget": ("--use-askpass",),
    "java": ("-XX:OnError", "-XX:OnOutOfMemoryError"),
}  # fmt: skip
# Two-character options that take their value in the same word too.
_ATTACHED: Mapping[str, tuple[str, ...]] = {
    "fd": ("-x", "-X"),
    "man": ("-P", "-H"),
    "scp": ("-S", "-o"),
    "sftp": ("-S", "-o"),
}
_SQLITE_DOTS = re.compile(
    r"\.(sh|sy|re|ou|on|im|lo|op|ex|cd|sa|ba|cl|du)|.*\b(readfile|writefile|edit|load_extension)\b",
    re.IGNORECASE | re.DOTALL,
)
_PSQL = re.compile(r"\\(?:!|[oiwgse]|copy|lo_)|\bprogram\b|^(?:-f|--fi|-o|--ou|-L|--log)", re.IGNORECASE)
_MYSQL = re.compile(
    r"\\!|\bsystem\s|^--pager|\b(?:pager|tee|source)\s|\\[.PT]|\b(?:load_file|infile|outfile|dumpfile)\b", re.IGNORECASE
)
# Of these nothing else is needed to run programs than an option, so that a policy that names them still refuses it. Builds and
# package managers (make, npm, cargo …) run whatever their files say.
NARROW = frozenset("fd rg rsync split sort zip man sqlite psql mysql mariadb ip scp sftp wget".split())
_LONGEST_NAME = (
    255  # of a file (limits.h): what is longer names no program, and the expression below would take long for it
)
_VERSIONED = re.compile(r"(.+?)(?:-?\d[\d.]*)?(?:\.exe)?")


def unversioned(executable: str) -> str:
    """The program's own name: without directory, version and `.exe`, in lower case. `bin/Python3.12` is `python`."""
    base = re.split(r"[/\\]", executable)[-1].lower()
    found = _VERSIONED.fullmatch(base) if len(base) <= _LONGEST_NAME else None
    return found.group(1) if found else base


def option_that_runs(name: str, args: Sequence[str]) -> str | None:
    """The first of these arguments that makes the program of that unversioned name run another one, or None."""
    for word in args:
        if word == "--":
            break
        if _is_one_of(word, _WORDS.get(name, ())) or word.startswith(_ATTACHED.get(name, ("\0",))):
            return word
    rule = _RULES.get(name)
    return rule(args) if rule else None


def _is_one_of(word: str, options: Sequence[str]) -> bool:
    """Whether it is one of these options, with a value or without, or the beginning of a long one, which getopt takes for it."""
    option = word.partition("=")[0]
    is_long = option.startswith("--") and len(option) >= 4
    return option in options or (is_long and any(one.startswith(option) for one in options))


def _make(args: Sequence[str]) -> str | None:
    return next((word for word in args if re.match(r"-E|--ev|\.?SHELL\w*\s*[:?+]*=|MAKEFLAGS\s*[:?+]*=", word)), None)


def _rsync(args: Sequence[str]) -> str | None:
    return next((word for word in args if re.match(r"-[^-]*e", word)), None)


def _sqlite(args: Sequence[str]) -> str | None:
    return next((word for word in args if _SQLITE_DOTS.match(word)), None)


def _psql(args: Sequence[str]) -> str | None:
    return next((word for word in args if _PSQL.search(word)), None)


def _mysql(args: Sequence[str]) -> str | None:
    return next((word for word in args if _MYSQL.search(word)), None)


def _ip(args: Sequence[str]) -> str | None:
    if "exec" in args and any(len(word) > 2 and "netns".startswith(word) for word in args):
        return "netns exec"
    return next((word for word in args if re.match(r"--?b", word)), None)


_RULES: Mapping[str, _Rule] = {
    "psql": _psql,
    "mysql": _mysql,
    "mariadb": _mysql,
    "ip": _ip,
    "make": _make,
    "gmake": _make,
    "sqlite": _sqlite,
    "rsync": _rsync,
}
