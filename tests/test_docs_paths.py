"""docs/architecture.md and CONTRIBUTING.md name paths that exist, functions that are in them, and the layers that are enforced."""

import ast
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "src/limpet"
ARCHITECTURE = ROOT / "docs/architecture.md"
PAGES = (ARCHITECTURE, ROOT / "CONTRIBUTING.md")
_CODE = re.compile(r"`([^`\n]+)`")
_LINK = re.compile(r"\]\(([^)#]+)(?:#[^)]*)?\)")
# A name in brackets behind a file: `containers/container.py` (`plan_expiry` decides)
_INSIDE = re.compile(r"`([\w/]+\.py)` \(`(\w+)`")


def paths(text: str) -> list[str]:
    """What is written as a path of the repository or of the package: no address, no command, no placeholder."""
    found = []
    for word in _CODE.findall(text):
        is_path = ("/" in word or word.endswith((".py", ".md", ".toml"))) and not word.startswith(("/", "http"))
        if is_path and not re.search(r"[\s<>:…]|NAME", word):
            found.append(word)
    return found


def exists(path: str) -> bool:
    return any((base / path).exists() for base in (ROOT, SOURCES))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_path_and_link_of_the_page_exists(page: Path) -> None:
    text = page.read_text()
    named = paths(text)

    assert len(named) > 10
    assert [path for path in named if not exists(path)] == []
    assert [link for link in _LINK.findall(text) if not (page.parent / link).exists()] == []


def test_a_path_that_is_gone_is_noticed() -> None:
    assert paths("`store/gone.py`, `./dev check`, `/v1/files` and `changes/<topic>.md`") == ["store/gone.py"]
    assert not exists("store/gone.py")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_function_is_in_the_file_that_the_page_names(page: Path) -> None:
    for path, name in _INSIDE.findall(page.read_text()):
        tree = ast.parse((SOURCES / path).read_text())
        defined = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
        assert name in defined, f"{page.name}: {name} is not in {path}"


def test_the_road_of_a_request_names_modules() -> None:
    road = ARCHITECTURE.read_text().partition("## The road of a request")[2].split("```")[1]
    modules = [line.split()[0] for line in road.splitlines() if line.startswith(" ")]

    assert len(modules) > 5
    assert [module for module in modules if not exists(module) and not exists(f"{module}.py")] == []


def test_the_table_of_layers_is_the_one_that_is_enforced() -> None:
    table = ARCHITECTURE.read_text().partition("| layer |")[2].partition("\n\n")[0]
    told = [set(_CODE.findall(row.split("|")[1])) for row in table.splitlines()[2:]]
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = next(contract["layers"] for contract in contracts if contract["type"] == "layers")
    folders = [{name for name in re.findall(r"\w+", layer) if (SOURCES / name).is_dir()} for layer in layers]

    assert told == [layer for layer in folders if layer]
