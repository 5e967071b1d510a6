"""The rules that the command line and its file give a session."""

import re
import subprocess
import sys
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


def test_where_the_extra_is_missing_it_says_what_to_install(limpet: Limpet, tmp_path: Path) -> None:
    (tmp_path / "mcp.py").write_text("raise ModuleNotFoundError('No module named mcp', name='mcp')")
    # With input it is started afresh, not forked from a program that has loaded the extra.
    done = limpet("mcp", stdin="\n", PYTHONPATH=str(tmp_path))
    assert (done.returncode, "limpet[mcp]" in done.stderr, done.stderr.count("\n")) == (2, True, 1)


def test_no_other_command_loads_the_protocol(tmp_path: Path) -> None:
    look = "import sys; sys.argv = ['limpet', '--help']\ntry: main()\nexcept SystemExit: print(sorted(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", f"from limpet.cli import main; {look.splitlines()[0]}\n" + "\n".join(look.splitlines()[1:])],
        capture_output=True, text=True, timeout=30, check=True,
    )  # fmt: skip
    assert "'typer'" in done.stdout
    assert "'mcp'" not in done.stdout


def test_the_manual_has_every_option() -> None:
    manual = (Path(__file__).parents[2] / "docs/mcp.md").read_text("utf-8")
    shown = subprocess.run(
        [sys.executable, "-c", "from limpet.cli import main; main()", "mcp", "--help"],
        capture_output=True, text=True, timeout=30, check=True,
    )  # fmt: skip
    options = set(re.findall(r"^  (--[a-z-]+)", shown.stdout, re.MULTILINE)) - {"--help"}
    assert {option for option in options if f"`{option}" not in manual} == set()
