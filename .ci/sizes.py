"""Whether files and functions are small enough, and free of what no file may hold. Reads files, changes nothing.

`python .ci/sizes.py [ROOT]` prints each offence as `path:line: sentence` and exits 1 when there is one.
"""

import ast
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

SOURCE_LINES = 400
TEST_LINES = 500
FUNCTION_LINES = 45
NAMESAKES = 2  # modules of src/ in which one class name may stand

# In pieces, so that this file does not hold what it looks for.
REGISTRY_HOSTS = tuple(
    ".".join(parts)
    for parts in (
        ("pypi", "org"),
        ("python" + "hosted", "org"),
        ("npmjs", "org"),
        ("npmjs", "com"),
        ("yarnpkg", "com"),
        ("crates", "io"),
        ("rubygems", "org"),
        ("proxy", "golang", "org"),
        ("sum", "golang", "org"),
        ("maven", "org"),
        ("packagist", "org"),
        ("nuget", "org"),
        ("anaconda", "org"),
    )
)
REGISTRY = re.compile("|".join(rf"\b{re.escape(host)}\b" for host in REGISTRY_HOSTS), re.IGNORECASE)
UNFINISHED = re.compile(r"\b(?:TODO|FIXME|XXX)\b")
PATCHED = re.compile(r"\bmonkeypatch\.(?:setattr|delattr)\b")


def offences(path: str, text: str) -> Iterator[tuple[int, str]]:
    """The offences of one file, as (line, sentence). `path` is relative to the project and decides which rules hold."""
    if found := _first(REGISTRY, text):
        yield found, "names a package registry's host; indexes are the business of the machine, not of the project"
    if not path.endswith(".py"):
        return
    lines = text.count("\n") + (not text.endswith("\n") and bool(text))
    limit = TEST_LINES if path.startswith("tests/") else SOURCE_LINES
    if lines >= limit:
        yield 1, f"has {lines} lines; fewer than {limit} are allowed, so look for the second idea"
    if path.startswith("src/"):
        yield from _unfinished_or_long(text)
    if path.startswith("tests/") and (found := _first(PATCHED, text)):
        yield found, "patches an attribute; tests use real parts"


def _unfinished_or_long(text: str) -> Iterator[tuple[int, str]]:
    if found := _first(UNFINISHED, text):
        yield found, "holds an unfinished note; finish it or file it"
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        yield error.lineno or 1, "is not Python"
        return
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        # lineno is the line of `def`: decorators don't count, the docstring does.
        lines = (node.end_lineno or node.lineno) - node.lineno + 1
        if lines >= FUNCTION_LINES:
            yield node.lineno, f"{node.name} has {lines} lines; fewer than {FUNCTION_LINES} are allowed"


def _first(pattern: re.Pattern[str], text: str) -> int:
    """The line of the first match, counted from 1; 0 when there is none."""
    match = pattern.search(text)
    return text.count("\n", 0, match.start()) + 1 if match else 0


def classes(path: str, text: str) -> list[tuple[str, int]]:
    """Name, without leading underscores, and line of each class of a module of src/, nested ones too; none where it is not Python."""
    if not (path.startswith("src/") and path.endswith(".py")):
        return []
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return []
    return [(node.name.lstrip("_"), node.lineno) for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]


def namesakes(found: dict[str, dict[str, int]]) -> Iterator[str]:
    """A sentence for each class whose name stands in too many modules. `found`: name -> path -> line."""
    for name, places in sorted(found.items()):
        if len(places) > NAMESAKES:
            for path, line in sorted(places.items()):
                others = ", ".join(sorted(set(places) - {path}))
                yield f"{path}:{line}: a class {name} is in {others} too; at most {NAMESAKES} modules may share a class name"


def project_files(root: Path) -> list[str]:
    """What git holds or would hold; outside a git work tree every file that is not hidden."""
    command = ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, capture_output=True, check=False) if shutil.which("git") else None
    if listed and listed.returncode == 0:
        return sorted({name for name in listed.stdout.decode().split("\0") if name})
    found = (path.relative_to(root) for path in root.rglob("*") if path.is_file())
    return sorted(str(path) for path in found if not any(part.startswith(".") for part in path.parts))


def check(root: Path) -> list[str]:
    """Every offence under `root`, in order of path, then shared class names. Files that are gone or not text are passed over."""
    sentences = []
    found: dict[str, dict[str, int]] = {}
    for name in project_files(root):
        try:
            text = (root / name).read_text(encoding="utf-8")
        except (FileNotFoundError, IsADirectoryError, UnicodeDecodeError):
            continue
        sentences += [f"{name}:{line}: {sentence}" for line, sentence in offences(name, text)]
        for class_name, line in classes(name, text):
            found.setdefault(class_name, {}).setdefault(name, line)
    return sentences + list(namesakes(found))


def main() -> int:
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent
    found = check(root)
    for sentence in found:
        print(sentence)
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
