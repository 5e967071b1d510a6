"""Untrusted patterns for names and for text: all are matched by RE2, whose time is linear in what is searched."""

import posixpath
from collections.abc import Callable, Iterator

import re2  # type: ignore[import-untyped]  # google-re2 has no stubs

from limpet.core.errors import PatternInvalid

MOST_BRACES = 100
_SPECIAL = "*?[{"


def compile_pattern(
    root: str, pattern: str, *, ignore_case: bool = False, shown: str | None = None
) -> Callable[[bytes], bool]:
    """Whether bytes hold a match of the pattern. Raises PatternInvalid in RE2's own words, with what it does not have."""
    options = re2.Options()
    options.log_errors = False
    options.case_sensitive = not ignore_case
    try:
        compiled = re2.compile(pattern.encode(), options)
    except (re2.error, UnicodeEncodeError) as error:
        reason = error.args[0] if error.args and isinstance(error.args[0], (str, bytes)) else error
        text = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        hint = "Patterns are RE2's: no look-around and no back-references; write \\( for a parenthesis that is meant."
        raise PatternInvalid(root, pattern if shown is None else shown, f"{text.rstrip('.')}. {hint}") from error
    return lambda data: compiled.search(data) is not None


def compile_glob(root: str, pattern: str, *, shown: str) -> Callable[[str], bool]:
    """Whether a path, as a whole, matches a glob. Raises PatternInvalid."""
    if pattern.count("{") > MOST_BRACES:
        raise PatternInvalid(root, shown, f"it has more than {MOST_BRACES} braces. Ask for less at once.")
    matches = compile_pattern(root, f"^{_as_regex(pattern)}$", shown=shown)
    return lambda path: matches(path.encode(errors="surrogateescape"))


def literal_head(pattern: str) -> tuple[str, str]:
    """The directory that a pattern names without special characters, and the rest."""
    parts = [part for part in pattern.split("/") if part not in ("", ".")]
    count = next((i for i, part in enumerate(parts) if any(letter in part for letter in _SPECIAL)), len(parts))
    return posixpath.normpath("/" + "/".join(parts[:count])), "/".join(parts[count:])


def _as_regex(pattern: str) -> str:
    """A glob in RE2's syntax, anchored nowhere."""
    parts = list(_split(pattern, "/"))
    made = ""
    for number, part in enumerate(parts):
        last = number == len(parts) - 1
        if part == "**":
            made += "(?s:.+)" if last else "(?:[^/]+/)*"
        else:
            made += _part(part) + ("" if last else "/")
    return made


def _part(part: str) -> str:
    """What stands between two slashes; slashes in braces are meant too."""
    made, at = "", 0
    while at < len(part):
        letter, rest = part[at], part[at + 1 :]
        at += 1
        if letter == "*":
            made += "[^/]*"
        elif letter == "?":
            made += "[^/]"
        elif letter == "[" and (end := rest.find("]", 1)) > 0:
            inside = rest[:end].replace("\\", "\\\\").replace("[", "\\[")
            made += f"[{'^/' + inside[1:] if inside[0] in '!^' else inside}]"
            at += end + 1
        elif letter == "{" and (end := _closing(rest)) >= 0:
            made += "(?:" + "|".join(_as_regex(choice) for choice in _split(rest[:end], ",")) + ")"
            at += end + 1
        else:
            made += re2.escape(letter)
    return made


def _split(text: str, separator: str) -> Iterator[str]:
    """The pieces between separators that stand in no braces."""
    depth, start = 0, 0
    for at, letter in enumerate(text):
        depth += (letter == "{") - (letter == "}" and depth > 0)
        if letter == separator and depth == 0:
            yield text[start:at]
            start = at + 1
    yield text[start:]


def _closing(text: str) -> int:
    """Where the brace closes that was open before `text`; -1 if it does not."""
    depth = 1
    for at, letter in enumerate(text):
        depth += (letter == "{") - (letter == "}")
        if depth == 0:
            return at
    return -1
