"""The rules that the command line and its file give a session."""

from pathlib import Path

import pytest

from tests.cli.conftest import Limpet, limpet
from tests.mcp.conftest import Connect, text_of

__all__ = ["limpet"]
CONFIG = """
[tools.modules.shell.config]
timeout_default = 1
extra_sensitive_patterns = ["ACME-[0-9]+"]

[tools.modules.shell.constraints]
allowed_commands = ["echo", "sleep"]
unrestricted = true
"""


@pytest.mark.anyio
async def test_only_allowed_commands_run_and_paths_stay_inside(stdio: Connect) -> None:
    async with stdio(
        "--allow", "cat", "--allow", "echo", "--allowed-path", "/usr/share", "--max-duration", "30"
    ) as client:
        answers = {
            command: await client.call_tool("Bash", {"command": command})
            for command in ("echo yes", "ls", "cat /etc/passwd", "echo $(id)")
        }
    assert {command: answer.is_error for command, answer in answers.items()} == {
        "echo yes": False, "ls": True, "cat /etc/passwd": True, "echo $(id)": True
    }  # fmt: skip
    assert "allowed_paths" in text_of(answers["cat /etc/passwd"])


@pytest.mark.anyio
async def test_a_file_gives_policy_redaction_and_the_settings_of_bash(stdio: Connect, tmp_path: Path) -> None:
    file = tmp_path / "rules.toml"
    file.write_text(CONFIG)
    async with stdio("--config", str(file)) as client:
        hidden = await client.call_tool("Bash", {"command": "echo ACME-12"})
        denied = await client.call_tool("Bash", {"command": "id"})
        late = await client.call_tool("Bash", {"command": "sleep 60"})
    assert "ACME" not in hidden.structured_content["stdout"]
    assert "[REDACTED" in hidden.structured_content["stdout"]
    assert (denied.is_error, late.structured_content["timed_out"]) == (True, True)


@pytest.mark.parametrize(
    "text, word",
    [("[tools.modules.shell.constraints]\nreadonyl = true", "readonly"), ("[tools", "cannot be read")],
)
def test_a_file_that_is_wrong_is_refused_with_what_is_right(
    limpet: Limpet, tmp_path: Path, text: str, word: str
) -> None:
    (tmp_path / "rules.toml").write_text(text)
    done = limpet("mcp", "--config", "rules.toml")
    assert (done.returncode, word in done.stderr) == (2, True)


def test_a_file_has_all_rules_or_none(limpet: Limpet, tmp_path: Path) -> None:
    (tmp_path / "rules.toml").write_text(CONFIG)
    done = limpet("mcp", "--config", "rules.toml", "--readonly")
    assert (done.returncode, "--readonly" in done.stderr) == (2, True)


@pytest.mark.parametrize("carrier", [(), ("--http", "127.0.0.1:0")], ids=["stdio", "http"])
def test_a_rule_that_no_wall_can_hold_is_refused_where_walls_are_asked_for(
    limpet: Limpet, carrier: tuple[str, ...]
) -> None:
    done = limpet("mcp", "--runtime", "memory", "--readonly", "--enforce", "wall", *carrier)
    assert (done.returncode, "readonly" in done.stderr) == (1, True)
