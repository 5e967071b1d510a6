"""Which environment variables secrets may be in. Pure."""

import re

from limpet.guard.policy.environment import is_dangerous

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
# What a shell or the gateway itself sets.
_TAKEN = frozenset("PWD OLDPWD USER LOGNAME TERM LANG LANGUAGE TZ HOSTNAME SHLVL UID EUID PPID _".split())
_TAKEN_PREFIXES = ("LC_", "LIMPET_")


def name_problem(name: str) -> str | None:
    """Why a secret's variable cannot have that name, as the end of a sentence; None where it can."""
    if _NAME.fullmatch(name) is None:
        return "cannot be the name of an environment variable: use letters, digits and underscores, not a digit first"
    if name in _TAKEN or name.startswith(_TAKEN_PREFIXES) or is_dangerous(name):
        return "is a variable that programs read for something else; choose a name such as MY_TOKEN"
    return None
