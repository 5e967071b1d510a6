"""A policy that is written wrongly is refused where it is written: it must never hold less than was meant."""

import re
from pathlib import Path
from typing import Any

import pytest

from limpet.core.errors import ConfigInvalid
from limpet.guard.policy.policy import Policy


@pytest.mark.parametrize(
    "rule, given, says",
    [
        ("allowed_commands", "ls", 'a set of names such as {"ls", "cat"}, not \'ls\''),
        ("allowed_commands", 5, 'a set of names such as {"ls", "cat"}, not 5'),
        ("allowed_commands", ["ls", 5], "5 is none of these"),
        ("blocked_commands", "rm", 'a set of names such as {"ls", "cat"}, not \'rm\''),
        ("blocked_commands", None, "a set of names"),
        ("blocked_commands", {" "}, "' ' is none of these"),
        ("environment", "PATH", "a set of names"),
        ("allowed_paths", "/data", "a sequence of absolute directories such as (\"/srv/data\",), not '/data'"),
        ("allowed_paths", ["data"], "'data' is not absolute"),
        ("readonly", "false", "must be True or False, not 'false'"),
        ("confirm_destructive", 1, "must be True or False, not 1"),
        ("max_duration", "5", "must be seconds above 0, not '5'"),
        ("max_duration", -1, "must be seconds above 0, not -1"),
        ("max_duration", float("nan"), "must be seconds above 0, not nan"),
        ("enforce", "walls", 'must be "guard" or "wall", not \'walls\''),
    ],
)
def test_a_rule_that_is_no_such_value_is_refused_and_what_is_right_is_named(rule: str, given: Any, says: str) -> None:
    with pytest.raises(ConfigInvalid, match=re.escape(says)) as refused:
        Policy(**{rule: given})
    assert refused.value.key == rule


def test_lists_sets_and_paths_are_taken_for_what_they_mean() -> None:
    given: dict[str, Any] = {"allowed_commands": ["ls"], "blocked_commands": ("rm",), "allowed_paths": [Path("/srv")]}

    assert Policy(**given) == Policy(
        allowed_commands=frozenset({"ls"}), blocked_commands=frozenset({"rm"}), allowed_paths=("/srv",)
    )
