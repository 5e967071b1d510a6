"""Holds docs/bash-tool.md to the code: its table, its parameters, its configuration and its example."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from limpet.tools.bash.config import BashConfig, shell_config_from
from limpet.tools.bash.modes import COLUMNS, TABLE, ModeRefused
from limpet.tools.bash.schema import HIDDEN, VISIBLE
from tests.tools.bash.test_config import SEED

MANUAL = (Path(__file__).parents[3] / "docs/bash-tool.md").read_text("utf-8")


def rows(header: str) -> list[list[str]]:
    lines = MANUAL.partition(header)[2].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_the_table_of_combinations_is_that_of_the_code() -> None:
    header = f"| {' | '.join(COLUMNS)} | what happens |"
    said = [("".join(cells[:-1]), cells[-1].partition(":")[0]) for cells in rows(header)]

    assert said == [(row.given, "refused" if isinstance(row.does, ModeRefused) else row.does) for row in TABLE]


def test_the_parameters_are_those_of_the_schema() -> None:
    said = {cells[0].strip("`"): cells[2] for cells in rows("| parameter | type | shown | what it does |")}

    assert said == {**dict.fromkeys(VISIBLE, "yes"), **dict.fromkeys(HIDDEN, "no")}


def test_the_configuration_shown_is_the_seeds() -> None:
    shown = MANUAL.partition("```yaml\n")[2].partition("```")[0]
    inner = SEED["tools"]["modules"]["shell"]
    keys = re.findall(r"^ +(\w+):", shown, re.MULTILINE)

    assert keys == ["modules", "shell", "config", *inner["config"], "constraints", *inner["constraints"]]
    assert shell_config_from(SEED).bash == BashConfig()


@pytest.mark.parametrize(
    "number",
    ["30,000 bytes", "60 MiB", "newest 50 lines", "4,000 characters", "8 MiB", "0.3 s", "At most 100", "30 minutes"],
)
def test_numbers_are_named(number: str) -> None:
    assert number in MANUAL


def test_the_example_runs_as_it_stands(tmp_path: Path) -> None:
    example = MANUAL.partition("```python\n")[2].partition("```")[0]
    done = subprocess.run([sys.executable, "-c", example], capture_output=True, text=True, cwd=tmp_path, check=True)

    assert done.stdout.endswith("0 hello\n\n")
