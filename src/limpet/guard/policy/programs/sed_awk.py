"""Programs in small languages of their own: what scripts for sed and awk may do beyond reading. Pure."""

import re

# --- sed -----------------------------------------------------------------------------------------------------------

_REGEX = r"/(?:[^/\\\n\[]|\\[^\n]|\[\^?\]?[^\]/\\\n]*\])*/[IM]*"
_ADDRESS = re.compile(rf"(?:(?:\d+(?:~\d+)?|\$|{_REGEX})[ \t]*(?:,[ \t]*(?:[+~]?\d+|\$|{_REGEX}))?[ \t]*!?[ \t]*)?")
_BETWEEN = re.compile(r"[\s;}]*")
_ENDED = re.compile(r"[ \t]*(?=[;}\n#]|$)")
_ALONE = re.compile(r"(?:[pPdDgGhHxnNz=F]|[qQl][ \t]*\d*|[btT][ \t]*\w*|:[ \t]*\w+)")
_TEXT = re.compile(r"[aic](?:\\\n)?[^\n\\]*(?=\n|$)")
_FLAGS = re.compile(r"[gpIiMm0-9]*")


def sed_only_prints(script: str) -> bool:
    """Whether a sed script neither runs a program (e, s///e) nor touches another file (w, W, r, R). What this small grammar does
    not know counts as a no."""
    at = 0
    while True:
        at = _end(_BETWEEN, script, at)
        if at >= len(script):
            return True
        if script[at] == "#":
            at = script.find("\n", at) if "\n" in script[at:] else len(script)
            continue
        at = _end(_ADDRESS, script, at)
        if script[at : at + 1] == "{":
            at += 1
            continue
        after = _sed_command(script, at)
        if after is None or after == at:
            return False
        at = after


def _sed_command(script: str, at: int) -> int | None:
    """Where the command ends; None for one that may do more than print."""
    if found := _TEXT.match(script, at):
        return found.end()
    if script[at : at + 1] in ("s", "y"):
        end = _substitution(script, at)
    else:
        found = _ALONE.match(script, at)
        end = found.end() if found else None
    if end is None:
        return None
    ended = _ENDED.match(script, end)
    return ended.end() if ended else None


def _substitution(script: str, at: int) -> int | None:
    """s/a/b/flags and y/a/b/. The mark must not stand in brackets, where sed and this would count differently."""
    mark = script[at + 1 : at + 2]
    if not mark or mark.isalnum() or mark in "\\\n;[]{} ":
        return None
    seen = 0
    here = at + 2
    while here < len(script) and seen < 2:
        if script[here] == "\\":
            here += 1
        elif script[here] == mark:
            seen += 1
        elif script[here] == "[" and seen == 0 and _hides(script, here, mark):
            return None
        here += 1
    if seen < 2:
        return None
    flags = _end(_FLAGS, script, here)
    return flags if script[at] == "s" or flags == here else None


def _hides(script: str, at: int, mark: str) -> bool:
    """Whether a bracket expression holds the mark."""
    end = script.find("]", at + 2)
    return end < 0 or mark in script[at:end]


def _end(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    return found.end() if found else at


# --- awk -----------------------------------------------------------------------------------------------------------

_STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"')
_ACTS = re.compile(
    r"system|getline|\||>|@|close|fflush|ARG[VC]|ENVIRON|PROCINFO|SYMTAB|FUNCTAB|extension|/inet|include|load"
)


def awk_only_prints(program: str) -> bool:
    """Whether an awk program neither runs a program nor opens another file. A > counts as a redirection, since awk itself tells
    it from a comparison by brackets only."""
    if "/" not in program and "\\" not in program and "#" not in program:
        program = _STRING.sub('""', program)  # else a quote may stand in a regular expression or a comment
    return _ACTS.search(program.replace("||", " ").replace(">=", " ")) is None
