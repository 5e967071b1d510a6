"""Explains an exit code in words, for a model that would otherwise guess. Pure."""

import re
import signal

from limpet.core import exit_codes

_NO_MATCH = frozenset({"grep", "egrep", "fgrep", "zgrep", "rg", "ag", "ack"})
_DIFFER = frozenset({"diff", "cmp", "comm", "colordiff"})
_LAST = re.compile(r"&&|\|\||[;|\n]")
_LOCK = "index.lock"


def exit_code_meaning(code: int | None, command: str, stderr: str = "") -> str | None:
    """One sentence on a code that is not 0; None where there is nothing to say beyond the number."""
    if code is None or code == 0:
        return None
    program = last_program(command)
    if _LOCK in stderr and "git" in command:
        return "Another git process holds the repository's lock, or one that died left it: wait, or remove .git/index.lock if no git runs."
    if code == 1 and program in _NO_MATCH:
        return "No line matched. That is an answer, not a failure."
    if code == 1 and program in _DIFFER:
        return "The inputs differ. That is an answer, not a failure."
    if code == 1 and program in ("test", "[", "[["):
        return "The condition is false."
    if code == 255 and program in ("ssh", "scp", "sftp"):
        return "The connection failed, or the remote command did."
    return _usual(code)


def _usual(code: int) -> str | None:
    match code:
        case 2:
            return "Usually a wrong use: a syntax error, an unknown option or a missing argument."
        case exit_codes.TIMED_OUT:
            return "The time was over and it was killed, with everything that it had started."
        case exit_codes.LOST:
            return "How it ended is unknown: its sandbox was lost while it ran."
        case exit_codes.CANNOT_RUN:
            return "It was found but cannot be executed: not a program, or no permission."
        case exit_codes.NOT_FOUND:
            return "The command was not found. Check the name, or install it."
        case exit_codes.INTERRUPTED:
            return "It was interrupted (SIGINT)."
        case exit_codes.KILLED:
            return "It was killed (SIGKILL), often because memory ran out."
        case _ if 128 < code <= 192:
            return _death(code - 128)
        case _:
            return None


def _death(number: int) -> str:
    try:
        name = signal.Signals(number).name
    except ValueError:
        name = f"signal {number}"
    return f"It was ended by {name}."


def last_program(command: str) -> str:
    """The name of the last program in a command, as its exit code is usually that one's; a guess by words, for hints only."""
    words = _LAST.split(command.strip())[-1].split()
    while words and ("=" in words[0] or words[0] in ("sudo", "time", "env", "command", "!")):
        words.pop(0)
    return words[0].rsplit("/", 1)[-1] if words else ""
