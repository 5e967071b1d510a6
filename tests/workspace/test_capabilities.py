"""Capabilities in the words of seed 01, and names of workspaces and tools."""

from typing import Any

import pytest

from limpet.core.errors import ConfigInvalid
from limpet.guard.policy.policy import Policy
from limpet.workspace.capabilities import Capabilities, read_capabilities
from limpet.workspace.names import refuse_reserved, refuse_unusable, tool_name


@pytest.mark.parametrize(
    "declared, read",
    [
        (None, Capabilities()),
        ({}, Capabilities(shell=False, files=False)),
        ({"shell": True}, Capabilities(files=False)),
        ({"shell": {}, "fs": {}}, Capabilities()),
        ({"shell": False, "files": True}, Capabilities(shell=False)),
        (
            {"shell": {"allowedCommands": ["ls", "cat", "wc", "grep"], "maxDurationMs": 1_500}, "fs": True},
            Capabilities(allowed_commands=frozenset({"ls", "cat", "wc", "grep"}), max_duration=1.5),
        ),
    ],
)
@pytest.mark.statement("s1-the-shell-capability-is-true-or-an-object")
def test_a_capability_is_true_or_an_object(declared: dict[str, Any] | None, read: Capabilities) -> None:
    assert read_capabilities(declared) == read


@pytest.mark.parametrize(
    "declared, problem",
    [
        ({"shel": True}, "shel: is not a capability, did you mean shell; there are: shell, fs"),
        ({"shell": {"allowedCommand": []}}, r"shell.allowedCommand: is not known, did you mean allowedCommands"),
        ({"fs": {"root": "/"}}, r"fs.root: is not known; it has no settings: give true"),
        ({"shell": "yes"}, "shell: must be true or an object of settings, not 'yes'"),
        ({"shell": {"allowedCommands": "ls"}}, r"must be a list of names such as \[\"ls\", \"cat\"\]"),
        ({"shell": {"allowedCommands": [1]}}, "must be a list of names"),
        ({"shell": {"maxDurationMs": 0}}, "must be a number of milliseconds above 0, not 0"),
        ({"shell": {"maxDurationMs": True}}, "must be a number of milliseconds above 0"),
        ({"shell": {"maxDurationMs": float("nan")}}, "must be a number of milliseconds above 0"),
    ],
)
def test_what_is_wrong_is_named_with_what_is_right(declared: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigInvalid, match=problem):
        read_capabilities(declared)


def test_a_capability_narrows_the_policy_and_never_widens_it() -> None:
    capability = Capabilities(allowed_commands=frozenset({"ls", "cat"}), max_duration=10)

    assert capability.narrow(None) == Policy(allowed_commands=frozenset({"ls", "cat"}), max_duration=10)
    assert capability.narrow(
        Policy(allowed_commands=frozenset({"cat", "rm"}), max_duration=5, readonly=True)
    ) == Policy(allowed_commands=frozenset({"cat"}), max_duration=5, readonly=True)
    assert capability.narrow(Policy(max_duration=60)).max_duration == 10  # type: ignore[union-attr]  # a policy went in
    assert Capabilities().narrow(None) is None


def test_the_tools_of_a_workspace_carry_its_name_and_the_prefix_is_reserved() -> None:
    assert tool_name("box", "run") == "workspace__box__run"
    with pytest.raises(
        ConfigInvalid, match="workspace__mine: names that begin with workspace__ are those of workspaces"
    ):
        refuse_reserved("workspace__mine")
    refuse_reserved("mine")


@pytest.mark.parametrize("name", ["", "a b", "a__b", "x" * 49, "workspace__a", "é", "a\n"])
def test_a_name_that_tool_names_cannot_be_made_of_is_refused(name: str) -> None:
    with pytest.raises(ConfigInvalid):
        refuse_unusable(name)
