"""The extension point of engines, which execute runs. Its docstrings are the manual, as those of `core/ports.py`."""

from collections.abc import Awaitable, Callable
from typing import Literal, Protocol

RunState = Literal["running", "ended", "unknown"]


class Engine(Protocol):
    """Executes runs. A run is identified by its response's id; its whole state is in the store, so that any engine can take it over.

    `start` and `recover` call the `carry` function given to the engine with that id; it does all steps itself, in order, and
    reads the journal first (docs/architecture.md, "The journal").
    """

    async def start(self, run_id: str) -> None:
        """Begin a run; returns when it is accepted. Idempotent while the run is being executed."""
        ...

    async def cancel(self, run_id: str) -> None:
        """Stop the run: its commands are killed within 2 s. Returns when it has stopped; quiet if it is not being executed here."""
        ...

    async def status(self, run_id: str) -> RunState: ...

    async def recover(self) -> list[str]:
        """At start: deal with runs whose process died (orphans). Returns their ids."""
        ...

    async def close(self) -> None:
        """Stop accepting runs and release those that are being executed; their stored state stays as it is."""
        ...


Carry = Callable[[str], Awaitable[None]]
