"""How much one request may unpack in all: bytes, files and time. Counted while it unpacks, not by what archives declare."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from limpet.core.errors import RequestTooLarge

MIB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class UnpackLimits:
    """`max_bytes` unpacked and `max_files` of all skills of one request, and of one container; `seconds` for all the work on them."""

    max_bytes: int = 200 * MIB
    max_files: int = 5000
    seconds: float = 30.0


class UnpackBudget:
    """What is left of the limits for one request. Used by one thread at a time."""

    def __init__(self, limits: UnpackLimits | None = None, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.limits = limits or UnpackLimits()
        self._monotonic = monotonic
        self._bytes = self.limits.max_bytes
        self._files = self.limits.max_files
        self._until = monotonic() + self.limits.seconds

    def take_file(self, param: str) -> None:
        """One more file. Raises RequestTooLarge."""
        self._files -= 1
        if self._files < 0:
            raise self._exceeded(f"more than {self.limits.max_files} files", param)
        self.check_time(param)

    def take_bytes(self, size: int, param: str) -> None:
        """So many bytes more. Raises RequestTooLarge."""
        self._bytes -= size
        if self._bytes < 0:
            raise self._exceeded(f"more than {self.limits.max_bytes} bytes unpacked", param)
        self.check_time(param)

    def check_time(self, param: str) -> None:
        """Raises RequestTooLarge once the time is over."""
        if self._monotonic() > self._until:
            raise self._exceeded(f"more than {self.limits.seconds:g} s of unpacking", param)

    def _exceeded(self, what: str, param: str) -> RequestTooLarge:
        return RequestTooLarge(
            f"The skills of one request may not take {what}, all of them together. Send fewer or smaller ones.",
            param=param,
            code="skill_too_large",
        )
