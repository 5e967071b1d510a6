"""Seed 02's configuration block, as it stands."""

from typing import Any

import pytest

from limpet.core.errors import ConfigInvalid
from limpet.guard.policy.policy import Policy
from limpet.tools.bash.config import BashConfig, shell_config_from

# The seed's YAML, its indentation put back.
SEED: dict[str, Any] = {
    "tools": {
        "modules": {
            "shell": {
                "config": {
                    "shell": None,
                    "timeout_default": 300,
                    "max_output_lines": 10000,
                    "extra_sensitive_patterns": [],
                    "allowed_roots": ["{{workdir}}", "/tmp"],
                    "blocked_commands": ["shutdown", "reboot"],
                },
                "constraints": {"readonly": False},
            }
        }
    }
}


@pytest.mark.statement("s2-the-config-block-is-accepted", "s2-allowed-roots-are-expanded", "s2-shell-null-is-bin-bash")
def test_the_example_of_the_seed_is_taken_as_it_stands() -> None:
    read = shell_config_from(SEED)

    assert read.policy == Policy(
        blocked_commands=frozenset({"shutdown", "reboot"}), allowed_paths=("/mnt/data", "/tmp")
    )
    assert read.bash == BashConfig()


@pytest.mark.parametrize("levels", [1, 2, 3])
def test_the_block_may_begin_at_any_level(levels: int) -> None:
    block = SEED
    for name in ("tools", "modules", "shell")[:levels]:
        block = block[name]

    assert shell_config_from(block) == shell_config_from(SEED)


def test_other_modules_beside_it_are_their_own_affair() -> None:
    modules = {"filesystem": {"config": {}}, **SEED["tools"]["modules"]}

    assert shell_config_from({"tools": {"modules": modules}}) == shell_config_from(SEED)


def test_all_constraints_reach_the_policy() -> None:
    read = shell_config_from(
        {
            "config": {
                "blocked_commands": ["nc"],
                "extra_sensitive_patterns": ["INT-[0-9]+"],
                "redaction_names": False,
            },
            "constraints": {
                "allowed_commands": ["git", "ls"],
                "blocked_commands": ["curl"],
                "allowed_paths": ["/srv"],
                "readonly": True,
            },
        },
        workdir="/work",
    )

    assert read.policy == Policy(
        allowed_commands=frozenset({"git", "ls"}),
        blocked_commands=frozenset({"nc", "curl"}),
        readonly=True,
        allowed_paths=("/srv",),
    )
    assert (read.redaction.patterns, read.redaction.names) == (("INT-[0-9]+",), False)


@pytest.mark.statement("s2-unrestricted-lifts-confinement")
def test_unrestricted_disables_confinement_and_nothing_else() -> None:
    read = shell_config_from({"constraints": {"unrestricted": True, "blocked_commands": ["nc"]}})

    assert (read.policy.allowed_paths, read.policy.blocked_commands) == (None, frozenset({"nc"}))


def test_nothing_at_all_is_the_defaults_with_paths_confined() -> None:
    read = shell_config_from({})

    assert (read.policy, read.bash) == (Policy(allowed_paths=()), BashConfig())


@pytest.mark.parametrize(
    "block, says",
    [
        ({"config": {"time_default": 3}}, "config.time_default: is not known; the nearest is timeout_default"),
        ({"config": {"readonly": True}}, "config.readonly: belongs to constraints"),
        ({"constraints": {"shell": "/bin/sh"}}, "constraints.shell: belongs to config"),
        ({"tools": {"modules": {"shel": {}}}}, "tools.modules.shel: is not known; the nearest is shell"),
        ({"tool": SEED["tools"]}, "tool: is not known"),
        ({"tools": {"modules": None}}, "tools.modules: should be a table"),
        ({"timeout_default": 300}, "put it into config or constraints"),
        ({"config": {"timeout_default": 0}}, "should be a number from 1 to 1800"),
        ({"config": {"timeout_default": "long"}}, "should be a number"),
        ({"config": {"max_output_lines": True}}, "should be a number"),
        ({"config": {"shell": "bash"}}, "absolute path of a shell"),
        ({"config": {"allowed_roots": "/tmp"}}, "should be a list of texts"),
        ({"constraints": {"readonly": "yes"}}, "should be true or false"),
        ({"constraints": []}, "should be a table"),
        ({"config": {"extra_sensitive_patterns": ["("]}}, ""),
    ],
)
def test_what_is_wrong_is_refused_with_what_would_be_right(block: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigInvalid) as wrong:
        shell_config_from(block)
    assert says in str(wrong.value)
