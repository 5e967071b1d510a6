"""How many tokens a text takes, without asking a provider: a quarter of its bytes in UTF-8, which is about right for prose and code and
too much for most other scripts. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any

PER_ITEM = 4  # what a provider's own frame around an item takes
PER_IMAGE = 1000
_BYTES_PER_TOKEN = 4
# What no model reads, or what is not read as text.
_UNREAD = frozenset(
    {"id", "type", "role", "status", "call_id", "annotations", "logprobs", "encrypted_content", "output_files"}
)


def estimated_tokens(items: Iterable[Mapping[str, Any]]) -> int:
    """Of these items together, shell output at its whole size."""
    return sum(map(tokens_of_item, items))


def tokens_of_item(item: Mapping[str, Any]) -> int:
    return PER_ITEM + tokens_of(item)


def tokens_of(value: object) -> int:
    """Of every text in a JSON value that a model reads. An image or a file in a data URL counts PER_IMAGE whatever its size."""
    match value:
        case str():
            return (
                PER_IMAGE if value.startswith("data:") else -(-len(value.encode(errors="replace")) // _BYTES_PER_TOKEN)
            )
        case Mapping():
            return sum(tokens_of(inner) for key, inner in value.items() if key not in _UNREAD)
        case list() | tuple():
            return sum(map(tokens_of, value))
        case _:
            return 0
