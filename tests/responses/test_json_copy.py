"""Copies of JSON values."""

from limpet.responses.json_copy import json_copy


def test_a_copy_is_equal_and_shares_nothing_that_can_change() -> None:
    value = {"text": "a", "none": None, "yes": True, "number": 1.5, "list": [{"inner": [1]}, []], "empty": {}}

    copy = json_copy(value)
    copy["list"][0]["inner"].append(2)
    copy["empty"]["new"] = copy["list"][1].append(3)

    assert value == {"text": "a", "none": None, "yes": True, "number": 1.5, "list": [{"inner": [1]}, []], "empty": {}}
    assert copy["list"] == [{"inner": [1, 2]}, [3]]
