"""What reads the events of one translated answer."""

from collections.abc import Iterable, Iterator
from typing import Any, Protocol

from limpet.upstreams.upstream import TurnEvent


class StreamedError(Exception):
    """The provider says within its answer that something went wrong. `error` is its error object, or what stands in its place; `status`
    of HTTP is what it would have been before the answer, where that is known."""

    def __init__(self, error: object, *, status: int | None = None) -> None:
        super().__init__("The provider ended the answer with an error.")
        self.error = error
        self.status = status


class AnswerReader(Protocol):
    """Of one wire; `read` for each event, in order, then `end` once."""

    @property
    def has_finished(self) -> bool:
        """Whether the provider has said that its answer is whole."""
        ...

    def read(self, event: dict[str, Any]) -> Iterable[TurnEvent]:
        """What one event says. Raises StreamedError, and any of TypeError, AttributeError, LookupError and ValueError for an event that is
        not of the wire."""
        ...

    def end(self) -> Iterator[TurnEvent]:
        """Close what is open and end the turn. Raises as `read` does."""
        ...
