"""Responses with `store: false` that later ones of the same connection may be chained to. They are in memory only and end with it.

Each lane keeps its newest one, with all that it was chained to itself. No I/O.
"""

from collections.abc import Iterable, Mapping

from limpet.store.responses import ResponseRecord


class KeptResponses:
    """Of one connection. What it returns as dropped is to be forgotten by the journal."""

    def __init__(self) -> None:
        self._records: dict[str, ResponseRecord] = {}
        self._previous: dict[str, str | None] = {}
        self._newest: dict[str | None, str] = {}

    def before(self, response_id: str | None) -> Mapping[str, ResponseRecord]:
        """The kept responses that a new one on `response_id` may need: none, where that is not the newest of a lane."""
        return dict(self._records) if response_id in self._newest.values() else {}

    def advance(self, lane: str | None, record: ResponseRecord, *, is_stored: bool) -> None:
        """The lane's newest response has ended and may be chained to."""
        self._newest[lane] = record.id
        self._previous[record.id] = record.previous_response_id
        if not is_stored:
            self._records[record.id] = record

    def evict(self, lane: str | None, response_id: str | None) -> None:
        """A response of the lane that was chained to this one has failed. What another lane has as its newest stays there."""
        if response_id is not None and self._newest.get(lane) == response_id:
            del self._newest[lane]

    def take_unreachable(self, in_use: Iterable[str | None]) -> list[str]:
        """Drop what no lane's newest response leads back to, nor a response `in_use`; the ids of what was dropped."""
        reachable: set[str] = set()
        for start in (*self._newest.values(), *in_use):
            at: str | None = start
            while at is not None and at not in reachable:
                reachable.add(at)
                at = self._previous.get(at)
        self._previous = {each: before for each, before in self._previous.items() if each in reachable}
        dropped = [each for each in self._records if each not in reachable]
        for each in dropped:
            del self._records[each]
        return dropped

    def take_all(self) -> list[str]:
        """Drop everything."""
        self._newest.clear()
        return self.take_unreachable(())
