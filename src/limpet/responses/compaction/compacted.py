"""What a `compaction` item of this gateway holds, sealed: the items that stand for the conversation up to it.

It opens with this gateway's key (or the one before), for the tenant that it was made for, and for no other.
"""

import base64
import binascii
import hashlib
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from limpet.core.errors import LimpetError
from limpet.store.sealing import SealBroken, Sealer

Json = dict[str, Any]
PREFIX = "limpet.1."  # tells what this gateway, or another of its kind, sealed from what providers seal
MAX_CHARACTERS = 20_971_520  # of `encrypted_content`, in OpenAI's schema
MOST_PLAIN = 64 << 20  # bytes of JSON in one item, and in those of one input together
_DIGEST = 8  # bytes


class CompactedContext(msgspec.Struct, kw_only=True):
    """`items` stand for all before the item; `covered` are digests of what they stand for, so that a client that sends those too has
    them told once."""

    items: list[Json]
    covered: list[str]


class CompactionTooLarge(LimpetError):
    """What is left of a conversation does not fit into one item, or what the items of an input hold is more than is opened."""

    def __init__(self) -> None:
        super().__init__(
            f"What stays of this conversation is larger than a compaction item may be ({MAX_CHARACTERS} characters sealed, "
            f"{MOST_PLAIN} bytes before). Send smaller files or images, or fewer items."
        )


class ContextSealer:
    """Seals for one tenant."""

    def __init__(self, sealer: Sealer, *, tenant: str) -> None:
        self._sealer = sealer
        self._row = f"compaction {tenant}"

    def seal(self, context: CompactedContext) -> str:
        """The text for `encrypted_content`. Takes seconds for a large one: call it in a thread. Raises CompactionTooLarge."""
        plain = msgspec.json.encode(context)
        if len(plain) > MOST_PLAIN:
            raise CompactionTooLarge
        return self.sealed(zlib.compress(plain, 6))

    def sealed(self, packed: bytes) -> str:
        """The text for what is compressed already. Raises CompactionTooLarge."""
        text = PREFIX + base64.urlsafe_b64encode(self._sealer.seal(packed, row=self._row)).decode().rstrip("=")
        if len(text) > MAX_CHARACTERS:
            raise CompactionTooLarge
        return text

    def unsealed(self, text: object) -> bytes | None:
        """What was compressed and sealed; None for what this gateway did not seal for this tenant."""
        if not is_sealed_here(text):
            return None
        assert isinstance(text, str)
        encoded = text.removeprefix(PREFIX)
        try:
            sealed = base64.b64decode(encoded + "=" * (-len(encoded) % 4), altchars=b"-_", validate=True)
            return self._sealer.unseal(sealed, row=self._row)
        except (binascii.Error, ValueError, SealBroken):
            return None


class ContextOpener:
    """Opens the items of one input: no more than MOST_PLAIN bytes of them together, since a few bytes may be packed from very many."""

    def __init__(self, sealer: ContextSealer) -> None:
        self._sealer = sealer
        self._left = MOST_PLAIN

    def open(self, text: object) -> CompactedContext | None:
        """What was sealed; None for what this gateway did not seal for this tenant. Raises CompactionTooLarge, from then on for each."""
        packed = self._sealer.unsealed(text)
        if packed is None:
            return None
        try:
            plain = zlib.decompressobj().decompress(packed, self._left + 1)
            if len(plain) > self._left:
                self._left = 0
                raise CompactionTooLarge
            self._left -= len(plain)
            return msgspec.json.decode(plain, type=CompactedContext)
        except (ValueError, zlib.error):
            return None


def is_sealed_here(text: object) -> bool:
    """Whether a gateway of this kind sealed it, this one or another."""
    return isinstance(text, str) and text.startswith(PREFIX)


def digest(item: Mapping[str, Any]) -> str:
    """What tells an item, in whatever form a client sends it back: calls and outputs by their call id, the rest by what they say."""
    kind = item.get("type")
    if item.get("call_id") is not None:
        essence: list[Any] = [kind, item["call_id"]]
    elif kind == "message":
        essence = ["message", item.get("role"), _texts(item.get("content"))]
    else:
        essence = [kind, {key: value for key, value in sorted(item.items()) if key not in ("id", "status")}]
    made = hashlib.sha256(msgspec.json.encode(essence, order="sorted")).digest()
    return base64.urlsafe_b64encode(made[:_DIGEST]).decode().rstrip("=")


def digests(items: Sequence[Mapping[str, Any]]) -> list[str]:
    """Of each item once."""
    return list(dict.fromkeys(map(digest, items)))


def _texts(content: object) -> list[Any]:
    if isinstance(content, str):
        return [content]
    if not isinstance(content, list):
        return []
    return [part.get("text") or part.get("refusal") or part.get("image_url") or part.get("type") for part in content]
