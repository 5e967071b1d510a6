"""docs/shell-cmd-tool.md says what the code does."""

import re
from pathlib import Path
from typing import get_args

from limpet.core.command import Aborted, Lost, TimedOut, exit_code
from limpet.tools.shell_cmd.config import AI_COMMANDS, ShellCmdConfig
from limpet.tools.shell_cmd.executions import Status
from limpet.tools.shell_cmd.refusal import Code

TEXT = (Path(__file__).parents[3] / "docs/shell-cmd-tool.md").read_text("utf-8")


def test_every_kind_of_refusal_stands_in_the_table_and_no_other() -> None:
    assert set(re.findall(r"^\| `(\w+)` \|", TEXT, re.MULTILINE)) == set(get_args(Code))


def test_states_programs_codes_and_settings_are_those_of_the_code() -> None:
    for name in (*get_args(Status), *AI_COMMANDS):
        assert f"`{name}`" in TEXT
    codes = [exit_code(outcome) for outcome in (TimedOut(), Aborted(), Lost("x"))]
    assert "A timeout is exit code {}, a cancelled command {}, a lost one {}.".format(*codes) in " ".join(TEXT.split())
    assert f"{ShellCmdConfig().preview} characters" in TEXT
    assert f"{ShellCmdConfig().most_output >> 20} MiB" in TEXT
    for setting in ("strict_syntax=", "working_directory=", "also_trusted"):
        assert setting in TEXT
        assert setting.rstrip("=") in ShellCmdConfig.__slots__
