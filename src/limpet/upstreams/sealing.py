"""How a translated provider's proof of its reasoning travels in `encrypted_content`: only the provider that gave it gets it back.

Encoded, not encrypted: the proof is the provider's own signature, which only the provider can make.
"""

import base64
import binascii
from typing import Literal

import msgspec


class Seal(msgspec.Struct, frozen=True, kw_only=True):
    """`provider` is its name in the configuration; `made_by`, `id` and `signature` are what it must get back unchanged."""

    provider: str
    made_by: str
    id: str | None = None
    signature: str | None = None
    version: Literal[1] = 1


def sealed(seal: Seal) -> str:
    """The text for `encrypted_content`."""
    return base64.urlsafe_b64encode(msgspec.json.encode(seal)).decode()


def opened(text: object, *, provider: str) -> Seal | None:
    """The seal in `encrypted_content`; None where there is none, or another provider's."""
    if not isinstance(text, str):
        return None
    try:
        seal = msgspec.json.decode(base64.urlsafe_b64decode(text), type=Seal)
    except (binascii.Error, ValueError, RecursionError):
        return None
    return seal if seal.provider == provider else None
