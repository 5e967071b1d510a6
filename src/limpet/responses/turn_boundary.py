"""Where a model turn may be left without tearing an item apart. Pure."""

from collections.abc import Set as AbstractSet

from limpet.core import events as ev
from limpet.upstreams.upstream import CallBegun, CallMade, Emit, TurnEvent

_ENDS_OF_ITEMS = frozenset({ev.ITEM_ADDED, ev.ITEM_DONE})


class TurnBoundary:
    """Follows the events of one turn. A turn in which the client was given a call is not left: its end says that the client must act.
    `clients_calls` are the types of such items; without `has_own_shell` shell calls are the client's too."""

    def __init__(self, clients_calls: AbstractSet[str], *, has_own_shell: bool) -> None:
        self._clients_calls = clients_calls
        self._has_own_shell = has_own_shell
        self._open: set[object] = set()
        self._is_clients = False

    def is_before(self, event: TurnEvent) -> bool:
        """Whether the turn may be left before this event, the next one: it begins an item, and no other is open."""
        if isinstance(event, Emit):
            return event.type in _ENDS_OF_ITEMS and self._is_before_item(event)
        is_boundary = False
        match event:
            case CallBegun(index=index):
                is_boundary = self._begin(index)
            case CallMade(index=index):
                is_boundary = index not in self._open and self._begin(index)
                self._open.discard(index)
                self._is_clients |= not self._has_own_shell
        return is_boundary

    def _is_before_item(self, event: Emit) -> bool:
        index = event.data.get("output_index")
        if event.type == ev.ITEM_ADDED:
            return self._begin(index)
        self._open.discard(index)
        item = event.data.get("item")
        self._is_clients |= isinstance(item, dict) and item.get("type") in self._clients_calls
        return False

    def _begin(self, index: object) -> bool:
        is_boundary = not self._open and not self._is_clients
        self._open.add(index)
        return is_boundary
