"""What a request's items must fit to: the calls before them."""

from typing import Any

import pytest

from limpet.core.errors import RequestInvalid
from limpet.responses.history import check_outputs


class CountedItem(dict[str, Any]):
    """An item that counts how often its call is looked at."""

    looks = 0

    def __getitem__(self, key: str) -> Any:
        CountedItem.looks += key == "call_id"
        return super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        CountedItem.looks += key == "call_id"
        return super().get(key, default)


def test_each_item_is_looked_at_a_few_times_however_many_outputs_there_are() -> None:
    calls = [CountedItem(type="function_call", call_id=f"call_{number}") for number in range(400)]
    outputs = [CountedItem(type="function_call_output", call_id="call_399") for _ in range(400)]
    CountedItem.looks = 0
    check_outputs(calls, outputs)
    check_outputs([], [*calls, *outputs])
    assert 0 < CountedItem.looks <= 4 * 2 * (len(calls) + len(outputs))


@pytest.mark.parametrize(
    "call, output, fits",
    [
        ("shell_call", "shell_call_output", True),
        ("shell_call", "function_call_output", True),
        ("function_call", "function_call_output", True),
        ("function_call", "shell_call_output", False),
        ("custom_tool_call", "custom_tool_call_output", True),
        ("custom_tool_call", "function_call_output", False),
    ],
)
def test_an_output_belongs_to_a_call_of_its_kind_before_it(call: str, output: str, fits: bool) -> None:
    items = [{"type": call, "call_id": "one"}, {"type": output, "call_id": "one"}]
    with pytest.raises(RequestInvalid, match="No tool call found"):
        check_outputs([], [items[1], items[0]])
    with pytest.raises(RequestInvalid, match="No tool call found"):
        check_outputs(items[:1], [{"type": output, "call_id": "two"}])
    if fits:
        check_outputs(items[:1], items[1:])
        check_outputs([], items)
    else:
        with pytest.raises(RequestInvalid, match="No tool call found"):
            check_outputs([], items)
