"""docs/integrations.md: its examples run as they stand, and are short."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.gateway import Gateway, running

MANUAL = (Path(__file__).parents[2] / "docs/integrations.md").read_text()
EXAMPLES = dict(re.findall(r"^## (.*?):.*?^```python\n(.*?)^```$", MANUAL, re.MULTILINE | re.DOTALL))
LINES = 12


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with running(tmp_path_factory.mktemp("manual")) as gateway:
        yield gateway


def ran(title: str, directory: Path, *, address: str = "") -> str:
    example = EXAMPLES[title].replace("http://127.0.0.1:8420", address)
    done = subprocess.run(
        [sys.executable, "-c", example], capture_output=True, text=True, timeout=100, check=False, cwd=directory
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_each_example_is_run() -> None:
    assert len(EXAMPLES) == MANUAL.count("\n```python\n") == MANUAL.count("\n```\n")


@pytest.mark.parametrize("title", EXAMPLES)
def test_an_example_has_few_lines(title: str) -> None:
    assert len([line for line in EXAMPLES[title].splitlines() if line.strip()]) <= LINES


def test_a_shell_tool_runs_in_a_workspace(gateway: Gateway, tmp_path: Path) -> None:
    assert "42" in ran("OpenAI Agents SDK", tmp_path, address=gateway.url)


def test_an_agent_of_pydantic_ai_has_the_tools(tmp_path: Path) -> None:
    assert set(json.loads(ran("pydantic-ai", tmp_path))["workspace__box__run"]) >= {"stdout", "exitCode"}


def test_a_tool_of_langchain_runs(tmp_path: Path) -> None:
    assert json.loads(ran("LangChain", tmp_path))["stdout"] == "42\n"


def test_an_evaluation_of_inspect_ai_runs_in_a_box(tmp_path: Path) -> None:
    assert ran("inspect_ai", tmp_path).strip() == "42"
