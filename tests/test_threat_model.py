"""Holds docs/threat-model.md to the tests: each that it names exists and is not given up, and every promise names one."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from limpet.testing.run import ALL_CASES
from tests.support.runtimes import NAMES

ROOT = Path(__file__).resolve().parents[1]
DOCUMENT = (ROOT / "docs/threat-model.md").read_text("utf-8")
HEADER = "| promise | holds for | kind | how | tests |"
HOLDS_FOR = {"every box", "root's boxes", "user's boxes", "gateway"}
# Those that run once more as an ordinary user where root runs them.
_BOXES = (
    "essentials users promises bounds effects hostile_survivors seccomp"
    " walls bricks hosts hazards namespace_bounds time_limits"
).split()
AS_BOTH = (
    *(f"tests/runtimes/bubblewrap/test_{name}.py" for name in _BOXES),
    "tests/runtimes/agent_client/test_protocol.py",
    "tests/images/test_boxes_of_images.py",
    "tests/images/test_unpacking.py",
    "tests/images/test_stored_images.py",
    "tests/runtimes/test_supervision.py",
    "tests/faults/test_orphans.py",
    "tests/workspace/test_network.py",
)
CASE_OF_A_RUNTIME = "tests/contract/test_runtimes.py::test_promise"
NODE = re.compile(r"`(tests/[\w/]+\.py(?:::\w+)+)(?:\[([^\]]+)\])?`")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One promise of the document: what it says, for whom and how, and the tests by their node ids."""

    promise: str
    holds_for: str
    kind: str
    how: str
    tests: tuple[str, ...]


def rows_in(text: str) -> Iterator[Row]:
    """Every row of every table of promises."""
    within = False
    for line in text.splitlines():
        within = line == HEADER or (within and line.startswith("|"))
        if within and line != HEADER and not line.startswith("|---"):
            cells = [cell.strip() for cell in line.strip("|").split(" | ")]
            promise, holds_for, kind, how, tests = cells
            yield Row(
                promise=promise,
                holds_for=holds_for,
                kind=kind,
                how=how,
                tests=tuple(found[1] for found in NODE.finditer(tests)),
            )


ROWS = list(rows_in(DOCUMENT))


def nodes_of(path: Path) -> dict[str, bool]:
    """The node ids of a file's tests, without parameters, and whether each is run without an `xfail` or unconditional `skip`."""
    name = path.relative_to(ROOT).as_posix()
    tree = ast.parse(path.read_text("utf-8"))
    found = {}
    for holder, body in [("", tree.body), *((f"{n.name}::", n.body) for n in tree.body if isinstance(n, ast.ClassDef))]:
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test"):
                found[f"{name}::{holder}{node.name}"] = not any(map(_gives_up, node.decorator_list))
    return found


def _gives_up(decorator: ast.expr) -> bool:
    return any(isinstance(part, ast.Attribute) and part.attr in ("skip", "xfail") for part in ast.walk(decorator))


def named() -> Iterator[tuple[str, str | None]]:
    """Every node id in the document and its parameters."""
    for found in NODE.finditer(DOCUMENT):
        yield found[1], found[2]


def test_every_test_that_the_document_names_exists() -> None:
    exist: dict[str, bool] = {}
    for path in sorted({node.partition("::")[0] for node, _ in named()}):
        if (ROOT / path).is_file():
            exist |= nodes_of(ROOT / path)
    assert sorted({node for node, _ in named()} - exist.keys()) == []


def test_every_name_of_a_test_is_written_so_that_it_is_found() -> None:
    assert DOCUMENT.count("tests/") == len(list(named()))


def test_cases_of_the_conformance_suite_are_named_with_their_runtime() -> None:
    cases = {f"{runtime}-{case.name}" for runtime in NAMES for case in ALL_CASES}
    parameters = {given for node, given in named() if node == CASE_OF_A_RUNTIME}
    assert parameters <= cases
    assert [node for node, given in named() if given is not None and node != CASE_OF_A_RUNTIME] == []


def test_every_promise_is_said_in_full_and_names_a_test_that_is_run() -> None:
    assert len(ROWS) == sum(line.startswith("| ") and line.count(" | ") == 4 for line in DOCUMENT.splitlines()) - (
        DOCUMENT.count(HEADER)
    )
    incomplete = [
        row.promise
        for row in ROWS
        if not (row.promise and row.how and row.tests)
        or row.kind not in ("wall", "guard rail")
        or row.holds_for not in HOLDS_FOR
    ]
    assert incomplete == []
    runs = {
        node: alive
        for row in ROWS
        for test in row.tests
        for node, alive in nodes_of(ROOT / test.partition("::")[0]).items()
    }
    assert [(row.promise, test) for row in ROWS for test in row.tests if not runs[test]] == []


@pytest.mark.parametrize("row", [row for row in ROWS if row.holds_for == "every box"], ids=lambda row: row.promise)
def test_what_holds_for_every_box_is_tried_as_root_and_as_a_user(row: Row) -> None:
    assert any(test.startswith(AS_BOTH) for test in row.tests)


def test_a_row_without_a_test_and_a_test_that_is_given_up_are_found() -> None:
    [row] = rows_in(
        f"{HEADER}\n|---|---|---|---|---|\n| It holds | gateway | wall | somehow | soon |\n\n| other | table |\n"
    )
    assert (row.promise, row.tests) == ("It holds", ())
    source = ast.parse(
        "@pytest.mark.xfail(strict=True)\ndef test_a(): ...\n@pytest.mark.anyio\ndef test_b(): ...\n"
    ).body
    given_up = [any(map(_gives_up, node.decorator_list)) for node in source if isinstance(node, ast.FunctionDef)]
    assert given_up == [True, False]
