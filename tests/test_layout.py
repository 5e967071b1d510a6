"""The project's own rules bite: sizes, layers, banned names, pinned packages, and what ./dev says on a bare machine."""

import ast
import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
VERBS = ("up", "test", "check", "siege", "bench", "setup", "lock", "help")


def run(*command: str | Path, cwd: Path = ROOT, stdin: str = "", **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        input=stdin,
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def write(root: Path, path: str, text: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


def sizes(root: Path) -> list[str]:
    """The places that the size check complains about, as path:line."""
    found = run(sys.executable, ROOT / ".ci/sizes.py", root)
    assert found.returncode == (1 if found.stdout else 0), found.stderr
    return [":".join(line.split(":")[:2]) for line in found.stdout.splitlines()]


# --- sizes ---------------------------------------------------------------------------------------------------------


def test_what_is_too_long_or_unfinished_is_named_with_its_line(tmp_path: Path) -> None:
    write(tmp_path, "src/limpet/long.py", "x = 1\n" * 400)
    write(tmp_path, "src/limpet/wide.py", "@a\n@b\ndef f():\n" + "    x = 1\n" * 44)
    write(tmp_path, "src/limpet/open.py", "x = 1\n# TODO later\n")
    write(tmp_path, "src/limpet/torn.py", "x = 1\nx = (\n")
    write(tmp_path, "tests/test_long.py", "x = 1\n" * 500)
    write(tmp_path, "tests/test_patch.py", "monkeypatch" + ".setattr(a, b)\n")
    write(tmp_path, "README.md", "\nfrom " + "pypi" + ".org\n")

    assert sizes(tmp_path) == [
        "README.md:2",
        "src/limpet/long.py:1",
        "src/limpet/open.py:2",
        "src/limpet/torn.py:2",
        "src/limpet/wide.py:3",
        "tests/test_long.py:1",
        "tests/test_patch.py:1",
    ]


def test_what_is_just_short_enough_passes(tmp_path: Path) -> None:
    write(tmp_path, "src/limpet/long.py", "x = 1\n" * 399)
    write(tmp_path, "src/limpet/wide.py", "@a\n@b\ndef f():\n" + "    x = 1\n" * 43)
    write(tmp_path, "tests/test_long.py", "x = 1\n" * 499)

    assert sizes(tmp_path) == []


def test_a_class_name_in_three_modules_is_named_in_each_underscores_aside(tmp_path: Path) -> None:
    write(tmp_path, "src/limpet/a.py", "x = 1\nclass Call:\n    pass\n")
    write(tmp_path, "src/limpet/b.py", "class _Call:\n    pass\n")
    write(tmp_path, "src/limpet/c/d.py", "class Outer:\n    class __Call:\n        pass\n")

    assert sizes(tmp_path) == ["src/limpet/a.py:2", "src/limpet/b.py:1", "src/limpet/c/d.py:2"]


def test_a_class_name_in_two_modules_passes_and_so_do_tests(tmp_path: Path) -> None:
    write(tmp_path, "src/limpet/a.py", "class Call:\n    pass\nclass _Call:\n    pass\n")
    write(tmp_path, "src/limpet/b.py", "class Call:\n    pass\n")
    for name in ("a", "b", "c"):
        write(tmp_path, f"tests/test_{name}.py", "class Call:\n    pass\n")

    assert sizes(tmp_path) == []


@pytest.mark.skipif(shutil.which("git") is None, reason="this machine has no git")
def test_a_file_that_git_ignores_is_not_read(tmp_path: Path) -> None:
    run("git", "init", "--quiet", tmp_path)
    write(tmp_path, ".gitignore", "/src/limpet/made.py\n")
    write(tmp_path, "src/limpet/made.py", "x = 1\n" * 400)

    assert sizes(tmp_path) == []


# --- layers --------------------------------------------------------------------------------------------------------


def layers(tmp_path: Path, **files: str) -> subprocess.CompletedProcess[str]:
    """What the layer contracts say of a package that holds these modules (`core__ids` is core/ids.py)."""
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    write(tmp_path, "limpet/__init__.py", "")
    for name, text in files.items():
        path = Path("limpet", *name.split("__")).with_suffix(".py")
        write(tmp_path, str(path.parent / "__init__.py"), "")
        write(tmp_path, str(path), text)
    program = Path(sys.executable).with_name("lint-imports")
    return run(program, "--no-logo", "--no-cache", cwd=tmp_path, PYTHONPATH=str(tmp_path))


UPWARDS = {
    "plain": "from limpet.server import app\n",
    "for_types_only": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from limpet.server import app\n",
    "in_a_function": "def f():\n    from limpet.server import app\n",
}


@pytest.mark.parametrize("text", UPWARDS.values(), ids=UPWARDS.keys())
def test_an_import_up_the_layers_fails(tmp_path: Path, text: str) -> None:
    found = layers(tmp_path, core__ids=text, server__app="")

    assert found.returncode == 1
    assert "limpet.core is not allowed to import limpet.server" in found.stdout


def test_an_import_down_the_layers_passes(tmp_path: Path) -> None:
    found = layers(tmp_path, core__ids="", server__app="from limpet.core import ids\n")

    assert found.returncode == 0, found.stdout + found.stderr


def test_neighbours_in_a_layer_may_not_know_each_other(tmp_path: Path) -> None:
    found = layers(tmp_path, guard__policy="", store__records="from limpet.guard import policy\n")

    assert found.returncode == 1
    assert "limpet.store is not allowed to import limpet.guard" in found.stdout


def test_a_folder_that_is_in_no_layer_fails(tmp_path: Path) -> None:
    found = layers(tmp_path, core__ids="", helpers__strings="")

    assert found.returncode == 1
    assert "limpet.helpers" in found.stdout


def test_two_files_that_want_each_other_fail(tmp_path: Path) -> None:
    found = layers(tmp_path, core__ids="from limpet.core import clock\n", core__clock="from limpet.core import ids\n")

    assert found.returncode == 1
    assert "No two files want each other BROKEN" in found.stdout


def test_the_public_face_is_not_imported_from_inside(tmp_path: Path) -> None:
    found = layers(tmp_path, core__ids="import limpet\n")

    assert found.returncode == 1
    assert "Nothing inside imports the package's public face BROKEN" in found.stdout


# --- banned names --------------------------------------------------------------------------------------------------


def lint(path: str, text: str) -> str:
    program = Path(sys.executable).with_name("ruff")
    return run(program, "check", "--output-format=concise", "--stdin-filename", path, "-", stdin=text).stdout


@pytest.mark.parametrize("name", ["httpx", "uvloop", "litellm", "unittest.mock"])
def test_a_banned_package_is_refused(name: str) -> None:
    assert "TID251" in lint("src/limpet/core/ids.py", f'"""Ids."""\n\nimport {name}\n\nprint({name})\n')


def test_only_wiring_loads_by_name() -> None:
    text = '"""Loads."""\n\nimport importlib\n\nloaded = importlib.import_module("json")\n'

    assert "TID251" in lint("src/limpet/server/app.py", text)
    assert "TID251" not in lint("src/limpet/wiring/__init__.py", text)


def test_the_agent_stays_within_python_3_9() -> None:
    text = '"""Runs inside the box."""\n\nmatch 1:\n    case _:\n        pass\n'

    assert "invalid-syntax" in lint("src/limpet/runtimes/agent/agent.py", text)
    assert "invalid-syntax" not in lint("src/limpet/runtimes/bubblewrap/box.py", text)


# --- packages ------------------------------------------------------------------------------------------------------


def pins(name: str) -> dict[str, str]:
    """Package to `==version` and its markers; fails where a line is neither a pin, a hash nor a comment."""
    found = {}
    for line in (ROOT / "requirements" / name).read_text().replace("\\\n", "").splitlines():
        package, _, rest = line.partition("==")
        assert re.fullmatch(r"\S+==[^=]+( ; .*?)?(\s+--hash=sha256:[0-9a-f]{64})+\s*", line), line
        found[package] = rest.partition("--hash")[0].strip()
    return found


def test_every_package_is_pinned_and_hashed_and_both_sets_agree() -> None:
    everything, served = pins("dev.txt"), pins("run.txt")

    assert served.items() <= everything.items()


def imported(root: Path) -> Iterator[str]:
    for path in root.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(), filename=str(path))):
            if isinstance(node, ast.Import):
                yield from (alias.name.split(".")[0] for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module:
                yield node.module.split(".")[0]


def normal(package: str) -> str:
    return re.sub(r"[-_.]+", "-", package).lower()


def test_what_the_source_imports_is_declared() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"].values()
    declared = {normal(re.split(r"[^\w.-]", line)[0]) for line in sum(extras, project["dependencies"])}
    homes = importlib.metadata.packages_distributions()
    foreign = {name for name in imported(ROOT / "src") if name not in {*sys.stdlib_module_names, "limpet"}}

    assert {name for name in foreign if not declared & {normal(home) for home in homes.get(name, [])}} == set()


# --- ./dev ---------------------------------------------------------------------------------------------------------


def bare_machine(tmp_path: Path, *programs: str) -> dict[str, str]:
    """A copy of what ./dev reads, and a PATH that holds bash, coreutils and these programs only: nothing can be installed."""
    for name in ("dev", "pyproject.toml", "requirements"):
        source = ROOT / name
        (shutil.copytree if source.is_dir() else shutil.copy)(source, tmp_path / name)
    (tmp_path / "bin").mkdir()
    for name in ("bash", "env", "cat", "dirname", "head", "id", "rm", "sha256sum", *programs):
        found = shutil.which(name)
        if found is None:
            pytest.skip(f"this machine has no {name} to build a bare machine from")
        (tmp_path / "bin" / name).symlink_to(found)
    return {"PATH": str(tmp_path / "bin"), "LIMPET_PYTHON": ""}


def test_help_names_every_verb() -> None:
    shown = run("./dev", "help").stdout

    assert [verb for verb in VERBS if not re.search(rf"^  {verb}\b", shown, re.MULTILINE)] == []


def test_an_unknown_verb_is_refused() -> None:
    refused = run("./dev", "serve")

    assert (refused.returncode, refused.stderr.splitlines()[-1]) == (1, "dev: there is no verb serve.")


LACKS = {"up": "bubblewrap", "bench": "bubblewrap", "test": "bubblewrap procps", "setup": "bubblewrap procps"}


@pytest.mark.parametrize("verb", LACKS)
def test_a_machine_without_python_and_bubblewrap_is_told_what_it_lacks(tmp_path: Path, verb: str) -> None:
    refused = run(tmp_path / "dev", verb, **bare_machine(tmp_path))

    assert refused.returncode == 1
    assert refused.stderr.startswith(f"dev: this machine lacks python3-venv {LACKS[verb]};")
    assert len(refused.stderr.splitlines()) == 1
    assert not (tmp_path / ".venv").exists()


def test_a_python_that_is_not_there_is_named(tmp_path: Path) -> None:
    refused = run(tmp_path / "dev", "setup", **{**bare_machine(tmp_path), "LIMPET_PYTHON": "python-of-mine"})

    assert (refused.returncode, refused.stderr) == (
        1,
        "dev: LIMPET_PYTHON names python-of-mine, which is not a program.\n",
    )
