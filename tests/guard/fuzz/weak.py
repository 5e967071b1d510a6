"""Judges that are known to be too weak: the fuzzer must find them out, or it proves nothing."""

import re
from collections.abc import Callable, Mapping

from tests.guard.fuzz.expand import FORBIDDEN

Weak = Callable[[str, frozenset[str]], bool]


def first_token(text: str, allowed: frozenset[str]) -> bool:
    """The rule of many tools: the text's first word must be named."""
    return (text.split() or [""])[0] in allowed


def no_such_word(text: str, allowed: frozenset[str]) -> bool:
    """First word named, and the forbidden one nowhere in the text."""
    return first_token(text, allowed) and re.search(rf"\b{FORBIDDEN}\b", text) is None


def each_command(text: str, allowed: frozenset[str]) -> bool:
    """The first word of each piece between separators must be named."""
    steering = "if then else elif fi while until do done for case in esac ! { } time".split()
    for piece in re.split(r"[;&|\n(){}`]|\$\(", text):
        words = [word for word in piece.split() if word not in steering and "=" not in word]
        if words and words[0] not in allowed:
            return False
    return True


WEAK: Mapping[str, Weak] = {"first-token": first_token, "no-such-word": no_such_word, "each-command": each_command}
