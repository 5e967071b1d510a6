"""Copies of JSON values. Pure."""

from copy import deepcopy
from typing import Any


def json_copy(value: Any) -> Any:
    """A copy that shares no list and no object with `value`; some five times as fast as `copy.deepcopy`, which must keep track of what
    it has met. An item with a thousand files takes a millisecond: others wait for the event loop meanwhile."""
    match value:
        case dict():
            return {name: json_copy(each) for name, each in value.items()}
        case list():
            return [json_copy(each) for each in value]
        case str() | int() | float() | None:
            return value
        case _:
            return deepcopy(value)
