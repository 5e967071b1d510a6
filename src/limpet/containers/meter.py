"""What containers tell whoever counts. Counts nothing itself."""

from typing import Protocol


class Meter(Protocol):
    """Told as things happen; times in seconds. Never raises and never waits."""

    def waited(self, seconds: float) -> None:
        """Somebody waited so long for a box to be allowed to live, or gave up after it."""
        ...

    def booted(self, seconds: float, *, is_wake: bool) -> None:
        """A box booted; `is_wake` where its container had had one before."""
        ...

    def boot_failed(self) -> None:
        """A box could not be had."""
        ...

    def captured(self, seconds: float) -> None:
        """A container's files were looked through for what changed."""
        ...


class NullMeter:
    """Nobody counts."""

    def waited(self, seconds: float) -> None: ...

    def booted(self, seconds: float, *, is_wake: bool) -> None: ...

    def boot_failed(self) -> None: ...

    def captured(self, seconds: float) -> None: ...
