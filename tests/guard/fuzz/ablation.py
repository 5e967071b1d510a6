"""`python -m tests.guard.fuzz.ablation`: takes the parts of the guard's interpreter out, one at a time, and asks the corpora which verdict
hangs on each. docs/decisions/interpreter-measured.md holds what it found.

A part is a whole function (replaced by what does nothing; by a refusal, where it can speak one), a branch, a case, or a statement that
only has an effect. A verdict hangs on a part if, without it, a test of the guard finds another verdict, or a generated script is allowed
that runs the forbidden program. Those scripts are run once, all of them, in boxes, whatever the guard says of them.
"""

import argparse
import ast
import importlib
import json
import os
import random
import re
import signal
import sys
import time
import types
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import anyio
import pytest

from limpet.core.command import Command, Script
from limpet.guard.policy import bash
from limpet.guard.policy.bash.parser import ParsedScript, Parser, Unreadable
from limpet.guard.policy.judge import Judge
from limpet.guard.policy.policy import Policy
from tests.guard.fuzz.box import opened_box
from tests.guard.fuzz.grammars.all import GRAMMARS
from tests.guard.fuzz.run import BATCH, POLICIES

TESTS = Path(__file__).parent.parent
WITHIN = 60  # seconds for one part; what takes longer without it is needed, since it ends something
_READ_ONLY = ("parser", "tree")  # shfmt's answer as values: nothing is decided there


@dataclass(frozen=True, slots=True)
class Case:
    """A command with what the whole guard says of it. `corpus` is the test's file, or "fuzz": then it must be refused."""

    corpus: str
    policy: Policy
    command: Command
    place: str
    held: frozenset[str]
    is_denied: bool
    rest: str = ""


class RememberingParser(Parser):
    """Reads each text once."""

    known: ClassVar[dict[str, ParsedScript | Unreadable]] = {}

    async def parse(self, text: str) -> ParsedScript | Unreadable:
        if text not in self.known:
            self.known[text] = await super().parse(text)
        return self.known[text]


# --- what is asked -------------------------------------------------------------------------------------------------


class _Recorder:
    """A plugin of pytest that keeps every question to a judge, with the test that asked it."""

    def __init__(self) -> None:
        self.cases: dict[tuple[object, ...], Case] = {}
        self._file = ""
        self._judged = Judge._ruling

    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        self._file = item.path.stem
        recorder = self

        async def recorded(judge: Any, command: Command) -> Any:
            found = await recorder._judged(judge, command)
            key = (recorder._file, judge._policy, command.what, command.cwd, tuple(command.env.items()), judge._held)
            made = Case(recorder._file, judge._policy, command, judge._place, judge._held, *_verdict(found))
            recorder.cases.setdefault(key, made)
            return found

        Judge._ruling = recorded  # type: ignore[method-assign,assignment]  # taken back when the tests are over

    def pytest_sessionfinish(self) -> None:
        Judge._ruling = self._judged  # type: ignore[method-assign]  # likewise


def _verdict(found: Any) -> tuple[bool, str]:
    return found.denied is not None, "" if found.denied else f"{found.asks} {sorted(map(str, found.uses))}"


def recorded_cases() -> list[Case]:
    """All that the guard's tests ask."""
    recorder = _Recorder()
    code = pytest.main(
        ["-q", "-n", "0", "-p", "no:cacheprovider", "--ignore", str(TESTS / "fuzz"), str(TESTS)], plugins=[recorder]
    )
    if code != 0:
        sys.exit("The guard's tests do not pass.")
    return list(recorder.cases.values())


async def guilty_scripts(seed: int, count: int) -> list[Case]:
    """Generated scripts that run the forbidden program, or change a file, under each policy which that breaks."""
    found: list[Case] = []
    batches = [(grammar, number) for grammar in GRAMMARS.values() for number in range(0, count, BATCH)]
    async with opened_box() as box:
        for grammar, number in batches:
            chance = random.Random(f"{seed} {grammar.name} {number}")
            scripts = [grammar.script(chance) for _ in range(min(BATCH, count - number))]
            for script, deed in zip(scripts, await box.run(scripts), strict=True):
                broken = POLICIES if deed.ran else {"readonly": POLICIES["readonly"]} if deed.changed else {}
                for policy in broken.values():
                    command = Command(what=Script(script))
                    found.append(Case(f"fuzz {grammar.name}", policy, command, "/mnt/data", frozenset(), True))
    return found


# --- what is taken out ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Part:
    """`apply` changes this process. `what` begins with the module and the function."""

    what: str
    mode: str
    apply: Callable[[], None] = field(compare=False)
    line: int = 0


_NEUTRAL = {
    "None": ("None",), "bool": ("False", "True"), "str": ("''",), "str | None": ("None",), "Out": ("(state, state)",),
    "Values": ("None",), "list[Piece]": ("[('@', '')]",), "ShellState": ("state",), "frozenset[str]": ("frozenset()",),
}  # fmt: skip


def parts(names: Sequence[str]) -> Iterator[Part]:
    """All that can be taken out of these modules."""
    for name in names:
        module = importlib.import_module(f"{bash.__name__}.{name}")  # noqa: TID251  # each module of a folder
        path = Path(str(module.__file__))
        tree = ast.parse(path.read_text())
        for qualified, node in _functions(tree.body, ""):
            live = _live(module, qualified)
            if live is not None:
                yield from _whole(name, qualified, node, live)
                yield from _pieces(name, qualified, node, live, path)


def _functions(body: Sequence[ast.stmt], prefix: str) -> Iterator[tuple[str, ast.FunctionDef]]:
    for node in body:
        if isinstance(node, ast.ClassDef):
            is_protocol = any(isinstance(base, ast.Name) and base.id in ("Protocol", "Inner") for base in node.bases)
            yield from () if is_protocol else _functions(node.body, f"{prefix}{node.name}.")
        elif isinstance(node, ast.FunctionDef) and node.name not in ("__init__", "__hash__"):
            yield prefix + node.name, node


def _live(module: types.ModuleType, qualified: str) -> types.FunctionType | None:
    found: Any = module
    for part in qualified.split("."):
        found = vars(found).get(part)
    found = getattr(found, "fget", None) or getattr(found, "__func__", None) or getattr(found, "__wrapped__", found)
    return found if isinstance(found, types.FunctionType) and not found.__closure__ else None


def _whole(module: str, qualified: str, node: ast.FunctionDef, live: types.FunctionType) -> Iterator[Part]:
    returns = ast.unparse(node.returns) if node.returns else "None"
    names = [arg.arg for arg in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
    given = "iter(())" if returns.startswith("Iterator") else "[]" if returns.startswith("list") else "None"
    for value in _NEUTRAL.get(returns, (given,)):
        if value.count("state") and "state" not in names:
            value = "None"
        copied = ast.parse(ast.unparse(node)).body[0]
        assert isinstance(copied, ast.FunctionDef)
        yield _replaced(f"{module}.{qualified}", f"gives {value}", _with_body(copied, f"return {value}"), live)
        speaker = next((name for name in ("self", "script", "shell") if name in names), None)
        if speaker and (speaker != "self" or qualified.startswith("Interpreter.")) and value != "True":
            doubt = f"{speaker}.analysis.doubt('x', 'x', 'x')"
            yield _replaced(
                f"{module}.{qualified}", f"refuses, gives {value}", _with_body(copied, f"{doubt}\nreturn {value}"), live
            )


def _with_body(node: ast.FunctionDef, body: str) -> ast.FunctionDef:
    return ast.FunctionDef(**{**vars(node), "body": ast.parse(body).body, "decorator_list": [], "returns": None})


def _replaced(what: str, mode: str, made: ast.FunctionDef, live: types.FunctionType, line: int = 0) -> Part:
    def apply() -> None:
        space: dict[str, Any] = {}
        alone = ast.Module(body=[ast.FunctionDef(**{**vars(made), "name": "made"})], type_ignores=[])
        for arg in ast.walk(alone):
            if isinstance(arg, ast.arg):
                arg.annotation = None
        made_defaults = alone.body[0]
        assert isinstance(made_defaults, ast.FunctionDef)
        made_defaults.args.defaults = [ast.Constant(None) for _ in made_defaults.args.defaults]
        made_defaults.args.kw_defaults = [one and ast.Constant(None) for one in made_defaults.args.kw_defaults]
        exec(compile(ast.fix_missing_locations(alone), what, "exec"), space)
        live.__code__ = space["made"].__code__

    return Part(what, mode, apply, line)


def _pieces(module: str, qualified: str, node: ast.FunctionDef, live: types.FunctionType, path: Path) -> Iterator[Part]:
    """Each branch, case and effect of a function, left out."""
    count = sum(1 for _ in _places(node))
    for at in range(count):
        fresh = next(made for name, made in _functions(ast.parse(path.read_text()).body, "") if name == qualified)
        holder, index, kind = list(_places(fresh))[at]
        target = holder[index]
        line = target.pattern.lineno if isinstance(target, ast.match_case) else target.lineno
        text = ast.unparse(target.pattern if isinstance(target, ast.match_case) else target).split("\n")[0][:90]
        if kind == "if":
            holder[index : index + 1] = target.orelse or [ast.Pass()]
        elif kind == "case":
            del holder[index]
        else:
            holder[index] = ast.Pass()
        yield _replaced(f"{module}.{qualified}", f"without `{text}`", fresh_body(fresh), live, line)


def fresh_body(node: ast.FunctionDef) -> ast.FunctionDef:
    node.decorator_list, node.returns = [], None
    return node


def _places(node: ast.AST) -> Iterator[tuple[list[Any], int, str]]:
    for inner in ast.walk(node):
        for name in ("body", "orelse", "finalbody", "cases"):
            held = getattr(inner, name, None)
            if not isinstance(held, list):
                continue
            for index, one in enumerate(held):
                if isinstance(one, ast.If):
                    yield held, index, "if"
                elif isinstance(one, ast.match_case) and len(held) > 1:
                    yield held, index, "case"
                elif _has_effect(one):
                    yield held, index, "effect"


def _has_effect(one: ast.AST) -> bool:
    if isinstance(one, ast.Assign):
        return isinstance(one.targets[0], ast.Attribute | ast.Subscript)
    return isinstance(one, ast.AugAssign) or (isinstance(one, ast.Expr) and isinstance(one.value, ast.Call))


# --- asking --------------------------------------------------------------------------------------------------------


async def changed(cases: Sequence[Case]) -> str:
    """The first case whose verdict is another: its corpus, and what became of it; "" where none is."""
    async with RememberingParser() as parser:
        for case in cases:
            judge = Judge(case.policy, parser=parser, roots=(case.place,), held=case.held)
            judge._place = case.place
            try:
                is_denied, rest = _verdict(await judge._ruling(case.command))
            except Exception as error:  # noqa: BLE001 - the guard is broken without that part: it is needed
                return f"{case.corpus}: {type(error).__name__}"
            if is_denied != case.is_denied:
                return f"{case.corpus}: {'refused' if is_denied else 'allowed'} {_shown(case.command)}"
            if rest != case.rest:
                return f"{case.corpus}: other paths {_shown(case.command)}"
    return ""


def _shown(command: Command) -> str:
    return repr(command.what.text if isinstance(command.what, Script) else command.what.args)[:100]


def asked_without(part: Part | None, corpora: Sequence[Sequence[Case]]) -> list[str]:
    """What changes in each corpus, in a process of its own; asked until one of them has changed."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(WITHIN)
        found: list[str] = []
        if part is not None:
            part.apply()
        for cases in corpora:
            found.append(anyio.run(changed, cases))
            if found[-1] and part is not None:
                break
        os.write(write, json.dumps(found).encode()[:60_000])
        os._exit(0)
    os.close(write)
    with open(read, "rb") as answers:
        answer = answers.read()
    os.waitpid(child, 0)
    return json.loads(answer) if answer else ["did not end"]


async def _baseline(cases: Sequence[Case]) -> list[Case]:
    """Those of which the whole guard says the same here: all but a generated script that it should have refused."""
    kept = []
    for case in cases:
        if (different := await changed([case])) == "":
            kept.append(case)
        else:
            sys.stderr.write(f"left out: {different}\n")
    return kept


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.guard.fuzz.ablation", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=500, help="generated scripts of each grammar")
    parser.add_argument("--module", action="append", help="only these of guard/policy/bash")
    parser.add_argument(
        "--again", type=Path, help="only what was free in an earlier run, whose answer lies in that file"
    )
    parser.add_argument("--corpus", help="only what this file of tests asks, such as test_bypasses")
    parser.add_argument("--only", choices=["functions", "pieces"], help="only whole functions, or only what is in them")
    asked = parser.parse_args()
    names = asked.module or sorted(
        path.stem for path in Path(str(bash.__file__)).parent.glob("[a-z]*.py") if path.stem not in _READ_ONLY
    )
    tests = anyio.run(_baseline, [case for case in recorded_cases() if asked.corpus in (None, case.corpus)])
    fuzz = anyio.run(_baseline, anyio.run(guilty_scripts, asked.seed, asked.count))
    random.Random(asked.seed).shuffle(fuzz)
    sys.stdout.write(f"{len(tests)} questions of tests, {len(fuzz)} of generated scripts that must be refused\n")
    free = (
        None if asked.again is None else set(re.findall(r"^FREE +(\S+?):\d+ (.*) — $", asked.again.read_text(), re.M))
    )
    begun, needed_by, count = time.monotonic(), Counter[str](), 0
    for part in parts(names):
        is_whole = not part.mode.startswith("without")
        if asked.only and is_whole != (asked.only == "functions"):
            continue
        if free is not None and (part.what, part.mode) not in free:
            continue
        count += 1
        reason = next((found for found in asked_without(part, [tests, fuzz]) if found), "")
        corpus = reason.partition(":")[0]
        needed_by["fuzz alone" if corpus.startswith("fuzz") else corpus or "nothing"] += 1
        sys.stdout.write(f"{'needed' if reason else 'FREE':<7}{part.what}:{part.line} {part.mode} — {reason}\n")
        sys.stdout.flush()
    for name, times in needed_by.most_common():
        sys.stdout.write(f"{times:>6} {name}\n")
    sys.stdout.write(f"{count} parts, {time.monotonic() - begun:.0f} s\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
