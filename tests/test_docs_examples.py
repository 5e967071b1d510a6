"""Every example of README.md and docs/*.md runs as it stands.

An example is a fenced block marked python, sh, toml, yaml or json. A block marked text right below one is what it prints. Only a comment
above it, `<!-- not run here: the reason -->`, takes an example out. `http://127.0.0.1:8420` is a gateway of the test's.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from limpet.config import load_config
from limpet.tools import shell_config_from
from tests.support.gateway import Gateway, running
from tests.support.homes import home_apart

ROOT = Path(__file__).parents[1]
ADDRESS = "http://127.0.0.1:8420"
LANGUAGES = ("python", "sh", "toml", "yaml", "json")
# As `python -m asyncio` does: `async with` and `await` may stand at the top.
RUNNER = """
import ast, asyncio, inspect, sys
code = compile(sys.stdin.read(), "example", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
names = {"__name__": "__main__"}
if code.co_flags & inspect.CO_COROUTINE:
    asyncio.run(eval(code, names))
else:
    exec(code, names)
"""
_BLOCK = re.compile(
    r"(?:^<!-- not run here: (?P<reason>[^\n]+) -->\n)?^(?P<fence>```+|~~~+)(?P<language>\w*)\n(?P<text>.*?)^(?P=fence)\n",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Example:
    place: str
    language: str
    text: str
    prints: str | None
    reason: str | None


def examples() -> Iterator[Example]:
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))):
        text = page.read_text("utf-8")
        blocks = list(_BLOCK.finditer(text))
        for number, block in enumerate(blocks):
            following = blocks[number + 1] if number + 1 < len(blocks) else None
            if block["language"] not in LANGUAGES:
                continue
            prints = None
            if following is not None and following["language"] == "text" and following["fence"] == "```":
                prints = following["text"] if not text[block.end() : following.start()].strip() else None
            line = text.count("\n", 0, block.start("fence")) + 1
            place = f"{page.relative_to(ROOT)}:{line}"
            yield Example(place, block["language"], block["text"], prints, block["reason"])


ALL = list(examples())
# Those of other people's frameworks are run, and what they print is looked at, by tests/integrations/test_manual.py.
RUN_HERE = [each for each in ALL if not each.place.startswith("docs/integrations.md:")]


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with running(tmp_path_factory.mktemp("docs")) as gateway:
        yield gateway


@pytest.fixture
def home() -> Iterator[Path]:
    with home_apart() as home:
        yield home


@pytest.fixture
def text(request: pytest.FixtureRequest, example: Example) -> str:
    """The example, with the address of a gateway that is there."""
    if ADDRESS not in example.text:
        return example.text
    gateway: Gateway = request.getfixturevalue("gateway")
    return example.text.replace(ADDRESS, gateway.url)


PASTED = [each for each in ALL if each.language == "python" and each.place.startswith("docs/library.md")]
_PROMPTS = re.compile(r"(?:>>> |\.\.\. )+")


@pytest.mark.parametrize("example", PASTED, ids=[example.place for example in PASTED])
def test_an_example_of_the_library_can_be_pasted_into_the_console(example: Example, home: Path, tmp_path: Path) -> None:
    """A blank line ends a block there: none may stand within one, and one must stand behind it."""
    environment = {**os.environ, "LIMPET_HOME": str(home)}
    done = subprocess.run(
        [sys.executable, "-m", "asyncio"],
        check=False, input=f"{example.text}\n\n", capture_output=True, text=True, timeout=60, cwd=tmp_path, env=environment,
    )  # fmt: skip
    assert "Error" not in done.stderr, done.stderr
    shown = iter(_PROMPTS.sub("", done.stdout).splitlines())
    # The console also shows what expressions give: the example's own lines come between those, in order.
    assert [line for line in (example.prints or "").splitlines() if line not in shown] == []


@pytest.mark.parametrize("example", RUN_HERE, ids=[example.place for example in RUN_HERE])
def test_the_example_runs_as_it_stands(example: Example, text: str, home: Path, tmp_path: Path) -> None:
    if example.reason is not None:
        pytest.skip(f"the page says why it is not run: {example.reason}")
    match example.language:
        case "python":
            printed = ran([sys.executable, "-c", RUNNER], home, tmp_path, given=text)
        case "sh":
            printed = ran(["bash", "-euc", text], home, tmp_path)
        case "json":
            printed = use(json.loads(text), home, tmp_path)
        case "yaml":
            printed = read(yaml.safe_load(text))
        case _:
            printed = configure(text, home, tmp_path)
    if example.prints is not None:
        assert printed == example.prints


def test_whatever_is_left_out_says_why() -> None:
    left_out = [example for example in ALL if example.reason is not None]
    assert all(len(example.reason or "") > 20 for example in left_out)
    assert len(left_out) <= len(ALL) // 4


def ran(words: list[str], home: Path, directory: Path, *, given: str = "") -> str:
    """What it prints. Its programs are those of this environment; its home is its own."""
    path = f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}"
    done = subprocess.run(
        words, input=given, capture_output=True, text=True, timeout=60, check=False, cwd=directory,
        env={"PATH": path, "LANG": "C.UTF-8", "LIMPET_HOME": str(home)},
    )  # fmt: skip
    if missing := re.search(r"ModuleNotFoundError: No module named '(?!limpet)(\w+)", done.stderr):
        pytest.skip(f"{missing[1]} is not installed here")
    assert done.returncode == 0, done.stderr
    return done.stdout


def use(settings: Any, home: Path, directory: Path) -> str:
    """The settings of an MCP client: each server starts, and ends with its input."""
    servers = settings["mcpServers"].values()
    return "".join(ran([server["command"], *server["args"]], home, directory) for server in servers)


def read(block: Any) -> str:
    """Seed 02's block."""
    shell_config_from(block)
    return ""


def configure(text: str, home: Path, directory: Path) -> str:
    """The rules of `limpet mcp`, or a gateway's settings."""
    file = directory / "limpet.toml"
    file.write_text(text)
    if "[tools.modules.shell" in text:
        return ran(["limpet", "mcp", "--config", str(file)], home, directory)
    environ = dict.fromkeys(re.findall(r"\$\{(\w+)\}", text), "as-it-stands")
    load_config(file, environ={**environ, "LIMPET_HOME": str(home)})
    return ""
