"""The interface for metrics of containers: what is reported, not how it is counted."""

from typing import Protocol


class Meter(Protocol):
    """Told as things happen; times in seconds. Never raises and never waits."""

    def waited(self, seconds: float) -> None:
        """A caller waited so many seconds to be admitted, or gave up after them."""
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

    def reached(self, result: str, *, sent: int, received: int) -> None:
        """A door decided: `result` is "allowed" or the reason of the refusal; bytes from and to the box, once the connection has ended."""
        ...


class NullMeter:
    """Counts nothing."""

    def waited(self, seconds: float) -> None: ...

    def booted(self, seconds: float, *, is_wake: bool) -> None: ...

    def boot_failed(self) -> None: ...

    def captured(self, seconds: float) -> None: ...

    def reached(self, result: str, *, sent: int, received: int) -> None: ...
