"""Which tests carry which promise, read from the source of the tests: nothing is imported or run.

`python -m tests.wire.marks` prints the manifest as a table: id, owner, state, tests.
"""

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.wire.manifest import MANIFEST
from tests.wire.manifest.progress import is_held

ROOT = Path(__file__).resolve().parents[2]
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """One `@pytest.mark.promise(…)`. `test` is the test's node id (`tests/wire/test_x.py::test_y`), empty when the mark is
    on something that pytest does not run; `id` is empty when it is not a plain string. `proves` is false when the test is
    skipped or expected to fail without a condition."""

    id: str
    test: str
    place: str
    proves: bool


def marks_under(root: Path = ROOT, folder: str = "tests", *, name: str = "promise") -> list[Mark]:
    """Every mark of that name in the `.py` files below `root/folder`, in order of file and line."""
    found: list[Mark] = []
    for path in sorted((root / folder).rglob("*.py")):
        found += marks_in(path.read_text("utf-8"), path.relative_to(root).as_posix(), name=name)
    return found


def marks_in(source: str, path: str, *, name: str = "promise") -> list[Mark]:
    """The marks of one file: on functions, on classes (for every test inside), in `pytestmark` and in `pytest.param`."""
    if name not in source:
        return []  # most files: to parse them all takes seconds
    tree = ast.parse(source)
    found, seen = [], set[ast.AST]()
    for test, owners in _tests(tree, path):
        calls = [call for owner in owners for call in _calls(owner, name)]
        seen.update(calls)
        proves = not any(_given_up(owner) for owner in owners)
        found += [mark for call in calls for mark in _read(call, test, path, proves=proves)]
    astray = [call for call in _calls(tree, name) if call not in seen]
    found += [mark for call in astray for mark in _read(call, "", path, proves=False)]
    return found


def proofs() -> dict[str, list[str]]:
    """Promise id -> node ids of the tests that carry it."""
    carried: dict[str, list[str]] = {}
    for mark in marks_under():
        if mark.test:
            carried.setdefault(mark.id, []).append(mark.test)
    return carried


def _tests(tree: ast.Module, path: str) -> Iterator[tuple[str, list[ast.AST]]]:
    """Each test function, with the nodes whose marks count for it."""
    if not Path(path).name.startswith("test_"):
        return
    module = [_pytestmark(tree.body)]
    for node in tree.body:
        if isinstance(node, Function) and node.name.startswith("test"):
            yield f"{path}::{node.name}", [*filter(None, module), *node.decorator_list]
        if isinstance(node, ast.ClassDef) and node.name.startswith("Test"):
            shared = [*filter(None, module), *node.decorator_list, *filter(None, [_pytestmark(node.body)])]
            for method in node.body:
                if isinstance(method, Function) and method.name.startswith("test"):
                    yield f"{path}::{node.name}::{method.name}", [*shared, *method.decorator_list]


def _pytestmark(body: list[ast.stmt]) -> ast.AST | None:
    for statement in body:
        targets = statement.targets if isinstance(statement, ast.Assign) else []
        if any(isinstance(target, ast.Name) and target.id == "pytestmark" for target in targets):
            return statement
    return None


def _calls(node: ast.AST, mark: str) -> list[ast.Call]:
    """Every `….mark.NAME(…)` in a piece of source."""
    return [
        call
        for call in ast.walk(node)
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and call.func.attr == mark
        and isinstance(call.func.value, ast.Attribute)
        and call.func.value.attr == "mark"
    ]


def _given_up(node: ast.AST) -> bool:
    return any(
        isinstance(part, ast.Attribute)
        and part.attr in ("skip", "xfail")
        and isinstance(part.value, ast.Attribute)
        and part.value.attr == "mark"
        for part in ast.walk(node)
    )


def _read(call: ast.Call, test: str, path: str, *, proves: bool) -> Iterator[Mark]:
    place = f"{path}:{call.lineno}"
    if not call.args or call.keywords:
        yield Mark(id="", test=test, place=place, proves=proves)
    for argument in call.args:
        text = argument.value if isinstance(argument, ast.Constant) else None
        yield Mark(id=text if isinstance(text, str) else "", test=test, place=place, proves=proves)


def main() -> None:
    carried = proofs()
    for promise in MANIFEST:
        state = "open" if not is_held(promise) else "proved" if promise.id in carried else "not yet proved"
        sys.stdout.write(f"{promise.id}\t{promise.owed_by}\t{state}\t{' '.join(carried.get(promise.id, ()))}\n")


if __name__ == "__main__":
    main()
