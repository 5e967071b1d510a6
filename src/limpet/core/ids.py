"""Ids: a prefix that names the kind of object, as in OpenAI's API, and 128 random bits in hex."""

import re
import secrets

RESPONSE = "resp"
MESSAGE = "msg"
REASONING = "rs"
FUNCTION_CALL = "fc"
CUSTOM_CALL = "ctc"
CALL = "call"
SHELL_CALL = "sh"
SHELL_CALL_OUTPUT = "sho"
PATCH_CALL = "apc"
PATCH_CALL_OUTPUT = "apco"
CONVERSATION = "conv"
COMPACTION = "cmp"
CONTAINER = "cntr"
CONTAINER_FILE = "cfile"
REQUEST = "req"
BLOB = "blob"
KEY = "key"
WEBHOOK_ENDPOINT = "we"
EVENT = "evt"
DELIVERY = "whd"
SKILL = "skill"
SKILL_VERSION = "skillver"
# Clients tell a file of the Files API by OpenAI's own spelling of its ids (AI SDK, `fileIdPrefixes`).
FILE = "file-"

_SHAPE = re.compile(r"(?:[a-z]+_|file-)[0-9a-f]{32}")


def new_id(prefix: str) -> str:
    """A new id such as ``cntr_5f0c…`` (32 hex digits after the prefix)."""
    return f"{_start(prefix)}{secrets.token_hex(16)}"


def is_id(text: str, *, prefix: str) -> bool:
    """Whether `text` has the shape of our own ids with this prefix."""
    return text.startswith(_start(prefix)) and _SHAPE.fullmatch(text) is not None


def _start(prefix: str) -> str:
    return prefix if prefix.endswith("-") else f"{prefix}_"
