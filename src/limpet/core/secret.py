"""A value that must not be seen: a provider's key, a token. Its repr, str and format show nothing; only `reveal` gives it out."""

import hmac
from typing import NoReturn

HIDDEN = "[REDACTED]"
PLACEHOLDER = "LIMPETSECRET"  # begins what a box has in a secret's place, before 40 digits of its own


class Secret:
    """Holds a secret text. `reveal` is called where the value is used and nowhere else; equality takes constant time."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """The value itself. Give it to no log, event, error or file."""
        return self._value

    def __repr__(self) -> str:
        return "Secret(…)"

    def __str__(self) -> str:
        return HIDDEN

    def __format__(self, spec: str) -> str:
        return format(HIDDEN, spec)

    def __bool__(self) -> bool:
        return bool(self._value)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        return hmac.compare_digest(self._value.encode(), other._value.encode())

    def __hash__(self) -> int:
        return hash(self._value)

    def __reduce__(self) -> NoReturn:
        raise TypeError("A Secret is never serialised; reveal it where it is used.")
