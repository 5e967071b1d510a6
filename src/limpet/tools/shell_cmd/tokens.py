"""What of a command's words could be a path, and which words are syntax of a shell that is not there. Pure.

The rules are in docs/shell-cmd-tool.md; the bypasses that they must stop are in `tests/tools/shell_cmd`.
"""

import re
from collections.abc import Iterator

from limpet.tools.shell_cmd.refusal import CommandRefusal

# Refused wherever they stand in a word (docs/shell-cmd-tool.md): models write them for a shell, and there is none.
_CONTROL = re.compile(r"&&|\|\||\$\(|[&|;<>`\n\r]")
# What a shell would still expand or unquote in the name of a program.
_EXPANDED = re.compile(r"[$*?~{}()\[\]\\'\"#!^%]|[^\S ]|[\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]")
_VARIABLE = re.compile(r"\$(\{[A-Za-z_]\w*\}|[A-Za-z_]\w*)(/.*)?", re.DOTALL)
_WINDOWS = re.compile(r"[A-Za-z]:[\\/]|\\\\")
_OPTION_WITH_PATH = re.compile(r"-{1,2}[A-Za-z0-9_-]*?([~/.\\].*)", re.DOTALL)
_PARTS = re.compile(r"[:,;]")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_PATH_IN_LIST = re.compile(r"@?(/(?!/[^/])|~(/|$)|\.\.(/|$))")
_LONGEST_CLUSTER = 16
_DEEPEST = 4  # values within values, as in --form=file=@path


def refuse_command(command: str) -> CommandRefusal | None:
    """Why `command` is not the name of one program, or None."""
    if found := _CONTROL.search(command):
        return control(found.group(), "command")
    words = command.split()
    if len(words) > 1:
        return CommandRefusal(
            "not_one_command",
            command,
            f"holds {len(words)} words, and command is the program alone",
            f"give command {words[0]!r} and the other words in parameters, one for each",
        )
    if command != "[" and (found := _EXPANDED.search(command)):
        return CommandRefusal(
            "control_syntax",
            found.group(),
            "in command is shell syntax, and there is no shell",
            "write the program's name as it is",
        )
    return None


def refuse_parameter(place: int, word: str) -> CommandRefusal | None:
    """Why this parameter is refused where the syntax is strict: without a shell it is inert, but it shows a misunderstanding."""
    if found := _CONTROL.search(word):
        return control(found.group(), f"parameters[{place}]")
    if found := _VARIABLE.fullmatch(word):
        return CommandRefusal(
            "control_syntax",
            word,
            f"in parameters[{place}] is a variable, and no shell expands it",
            "write the value itself",
        )
    return None


def control(found: str, where: str) -> CommandRefusal:
    shown = {"\n": "line break", "\r": "carriage return"}.get(found, found)
    return CommandRefusal(
        "control_syntax",
        shown,
        f"in {where} is shell control syntax (chaining, pipes, redirection, substitution, background), which is not run",
        "run one program per call and give its arguments in parameters",
    )


def unquoted(command: str) -> str:
    """`command` without white space around it, and without one pair of quotes around it."""
    command = command.strip(" \t")
    if len(command) > 1 and command[0] == command[-1] and command[0] in "'\"":
        return command[1:-1]
    return command


def possible_paths(word: str, *, depth: int = 0) -> Iterator[str]:
    """What of one parameter a program could take for a path that is worth a check: the word itself, the value after `=`, `@` and
    `file:`, what hangs on a short option, and the parts of lists. May name the same twice."""
    if depth > _DEEPEST:
        return
    if word.lower().startswith("file:"):
        yield _of_file_url(word)
        return
    yield word
    if word.startswith("@"):
        yield from possible_paths(word[1:], depth=depth + 1)
    if word.startswith("-"):
        yield from _attached(word, depth)
    name, equals, value = word.partition("=")
    if equals and value and "/" not in name:
        yield from possible_paths(value, depth=depth + 1)
    if not _SCHEME.match(word):
        yield from (part.lstrip("@") for part in _PARTS.split(word)[1:] if _PATH_IN_LIST.match(part))
        yield from (_of_file_url(part) for part in re.findall(r"(?i)\bfile:\S*", word))


def _attached(word: str, depth: int) -> Iterator[str]:
    """What may be the value of a short option in its own word: `-I/include`, `-xf../x.tar`, `-d@file`, `-flink`."""
    if found := _OPTION_WITH_PATH.fullmatch(word):
        yield found.group(1)
    if word.startswith("--"):
        return
    yield from possible_paths(word[2:], depth=depth + 1)
    if len(word) <= _LONGEST_CLUSTER:
        yield from (word[place:] for place in range(3, len(word)) if word[place] != "/")


def looks_like_path(word: str) -> bool:
    """Whether the word names a path whatever the program is: a slash, a dot, a tilde at its start."""
    return word in ("~", ".", "..") or "/" in word or "\\" in word or word.startswith("~")


def of_another_system(word: str) -> bool:
    """`C:\\x` and `\\\\server\\x`: outside, on whatever system they would mean something."""
    return _WINDOWS.match(word) is not None


def _of_file_url(word: str) -> str:
    """The path of `file:///x`, `file://host/x`, `file:/x` and `file:x`."""
    rest = word[len("file:") :]
    if rest.startswith("//"):
        rest = "/" + rest[2:].partition("/")[2]
    return re.sub(r"%([0-9A-Fa-f]{2})", lambda found: chr(int(found.group(1), 16)), rest)
