from typing import Any

import pytest

from limpet.responses.item_resources import INCLUDABLE, shown_item
from limpet.responses.items import input_items

PARTS: list[Any] = ["x", 7, None, ["x"], {"type": ["x"]}, {"no": "type"}]


@pytest.mark.parametrize("field", ["content", "output"])
@pytest.mark.parametrize("include", [(), INCLUDABLE])
def test_items_that_the_gateway_does_not_read_are_shown_as_they_came(field: str, include: tuple[str, ...]) -> None:
    for kind in ("foo", "reasoning", "computer_call_output", "web_search_call"):
        (item,) = input_items([{"type": kind, field: PARTS}])
        assert shown_item(item, "one", include=include)[field] == PARTS


def test_a_message_of_a_provider_with_parts_of_no_kind_is_shown() -> None:
    message = {"type": "message", "role": "assistant", "content": PARTS}
    assert shown_item(message, "one")["content"] == PARTS
