"""Options of everyday programs that make them run other programs, or code of their own: what `shell_cmd` refuses. Pure.

As `programs`: a guard rail with a good message.
"""

import re
from collections.abc import Callable, Mapping, Sequence

from limpet.tools.shell_cmd.refusal import CommandRefusal, inline, runs_others

LEAVE_OUT = "leave that option out"
_Rule = Callable[[Sequence[str]], str | None]

# Whole words (also as WORD=value), by program.
_WORDS: Mapping[str, tuple[str, ...]] = {
    "find": ("-exec", "-execdir", "-ok", "-okdir", "-delete", "-fprint", "-fprint0", "-fprintf", "-fls"),
    "fd": ("-x", "-X", "--exec", "--exec-batch"),
    "rg": ("--pre", "--hostname-bin"),
    "tar": (
        "--to-command", "--checkpoint-action", "--use-compress-program", "--rsh-command", "--info-script",
        "--new-volume-script", "--transform",
    ),
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
_GIT_WORDS = (
    "-c", "--config-env", "--exec-path", "--upload-pack", "--receive-pack", "--exec", "--extcmd", "--open-files-in-pager",
    "--template", "foreach", "filter-branch",
)  # fmt: skip
_GIT_KEYS = re.compile(
    r"alias\.|include(if)?\.|core\.(pager|editor|sshcommand|fsmonitor|hookspath|askpass|gitproxy|alternaterefscommand)"
    r"|sequence\.editor|.*\.(cmd|command|textconv|clean|smudge|process|driver|helper|program|uploadpack|receivepack|proxycommand)$",
    re.IGNORECASE,
)
# Scripts of sed that only print, delete, quit or replace; others may run programs (e) or open files (r, w).
_SED_SAFE = re.compile(
    r"(?:(?:\d+|\$)(?:,(?:\d+|\$))?!?)?"
    r"(?:[pdq=]|s(?P<mark>[/,#:@|])(?:\\.|(?!(?P=mark))[^\\\n])*(?P=mark)(?:\\.|(?!(?P=mark))[^\\\n])*(?P=mark)[gpIi\d]*)"
)
_AWK_UNSAFE = re.compile(r"system|getline|[|>@]|ARG[VC]|SYMTAB|FUNCTAB")
_SQLITE_DOTS = re.compile(
    r"\.(sh|sy|re|ou|on|im|lo|op|ex|cd|sa|ba|cl|du)|.*\b(readfile|writefile|edit|load_extension)\b",
    re.IGNORECASE | re.DOTALL,
)


def refuse_option(name: str, executable: str, args: Sequence[str]) -> CommandRefusal | None:
    """Why these arguments of the program of that plain name are refused, or None."""
    for word in args:
        if word == "--":
            break
        if _is_one_of(word, _WORDS.get(name, ())) or word.startswith(_ATTACHED.get(name, ("\0",))):
            return runs_others(f"{executable} {word}", _remedy(name, word))
    rule = _RULES.get(name)
    found = rule(args) if rule else None
    if found is None:
        return None
    if name in _SCRIPTED:
        return inline(f"{executable} {found}")
    return runs_others(f"{executable} {found}", LEAVE_OUT)


def _is_one_of(word: str, options: Sequence[str]) -> bool:
    """Whether it is one of these options, with a value or without, or the beginning of a long one, which getopt takes for it."""
    option = word.partition("=")[0]
    is_long = option.startswith("--") and len(option) >= 4
    return option in options or (is_long and any(one.startswith(option) for one in options))


def _remedy(name: str, word: str) -> str:
    if name == "find" and word != "-delete":
        return "list the files, then run the program with their names"
    return "list the files, then remove them by name" if name == "find" else LEAVE_OUT


def _git(args: Sequence[str]) -> str | None:
    subcommand = next((word for word in args if not word.startswith("-")), "")
    for word in args:
        if _is_one_of(word, _GIT_WORDS) or word.lower().startswith("ext::"):
            return word
        if subcommand in ("clone", "fetch", "ls-remote") and word.startswith("-u"):
            return word
        if subcommand in ("rebase", "difftool") and word.startswith("-x"):
            return word
        if subcommand == "grep" and word.startswith("-O"):
            return word
        if subcommand == "bisect" and word == "run":
            return word
        if subcommand in ("config", "clone", "init") and _GIT_KEYS.match(word):
            return word
    return None


def _tar(args: Sequence[str]) -> str | None:
    for place, word in enumerate(args):
        is_cluster = (word.startswith("-") and not word.startswith("--")) or (place == 0 and "/" not in word)
        if is_cluster and set(word.partition("f")[0]) & set("IF"):
            return word
        if word.startswith(("--to", "--checkpoint-", "--use", "--rsh", "--info", "--new-vol")):
            return word
    return None


def _make(args: Sequence[str]) -> str | None:
    return next((word for word in args if re.match(r"-E|--ev|\.?SHELL\w*\s*[:?+]*=|MAKEFLAGS\s*[:?+]*=", word)), None)


def _awk(args: Sequence[str]) -> str | None:
    """An awk program in the arguments may print and count; it must not run programs or open files."""
    words = iter(args)
    has_file = False
    for word in words:
        if word.startswith(("-f", "--file")):
            has_file = True
            if word in ("-f", "--file"):
                next(words, None)
        elif word in ("-F", "-v", "--field-separator", "--assign"):
            next(words, None)
        elif word.startswith(("-e", "-E", "-i", "-l", "--source", "--exec", "--include", "--load")):
            return word
        elif not word.startswith("-"):
            return word if not has_file and _AWK_UNSAFE.search(word) else None
    return None


def _sed(args: Sequence[str]) -> str | None:
    """A sed script in the arguments must be one that can only print, delete, quit or replace, or sed itself must be held."""
    if "--sandbox" in args:
        return None
    words = iter(args)
    scripts: list[str] = []
    named = False  # whether an option gave the script, so that no operand is one
    for word in words:
        if found := re.fullmatch(r"(?:--e\w*|-[nErsuz]*e)(?:(?<=\w)=)?(.*)", word, re.DOTALL):
            scripts.append(found.group(1) or next(words, ""))
            named = True
        elif re.match(r"--f|-[nErsuz]*f", word):
            named = True
        elif not word.startswith("-") and not named:
            scripts.append(word)
            named = True
    return next((script for script in scripts if not _SED_SAFE.fullmatch(script)), None)


def _rsync(args: Sequence[str]) -> str | None:
    return next((word for word in args if re.match(r"-[^-]*e", word)), None)


def _sqlite(args: Sequence[str]) -> str | None:
    return next((word for word in args if _SQLITE_DOTS.match(word)), None)


_SCRIPTED = frozenset({"awk", "gawk", "mawk", "nawk", "sed", "gsed", "sqlite"})
_RULES: Mapping[str, _Rule] = {
    "git": _git,
    "tar": _tar,
    "bsdtar": _tar,
    "make": _make,
    "gmake": _make,
    **dict.fromkeys("awk gawk mawk nawk".split(), _awk),
    **dict.fromkeys("sed gsed".split(), _sed),
    "sqlite": _sqlite,
    "rsync": _rsync,
}
