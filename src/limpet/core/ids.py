"""Ids of everything that has one: a prefix that says what it is, and 128 random bits in hex (DESIGN, rows and ids)."""

import re
import secrets

RESPONSE = "resp"
MESSAGE = "msg"
REASONING = "rs"
FUNCTION_CALL = "fc"
CALL = "call"
SHELL_CALL = "sh"
SHELL_CALL_OUTPUT = "sho"
CONTAINER = "cntr"
CONTAINER_FILE = "cfile"
REQUEST = "req"

_SHAPE = re.compile(r"[a-z]+_[0-9a-f]{32}")


def new_id(prefix: str) -> str:
    """A new id such as ``cntr_5f0c…`` (32 hex digits after the prefix)."""
    return f"{prefix}_{secrets.token_hex(16)}"


def is_id(text: str, *, prefix: str) -> bool:
    """Whether `text` has the shape of our own ids with this prefix."""
    return text.startswith(f"{prefix}_") and _SHAPE.fullmatch(text) is not None
