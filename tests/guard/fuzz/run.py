"""Generates scripts, asks a judge, runs in a box what it allowed, and tells which of them ran the forbidden program."""

import random
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import anyio

from limpet.core.command import Command, Script
from limpet.guard.policy.bash.parser import Parser
from limpet.guard.policy.judge import Judge
from limpet.guard.policy.policy import Policy
from limpet.guard.policy.verdict import Allowed
from tests.guard.fuzz.allowed import ALLOWED
from tests.guard.fuzz.box import Box, Deed, opened_box
from tests.guard.fuzz.expand import FORBIDDEN, Source
from tests.guard.fuzz.weak import Weak

POLICIES: Mapping[str, Policy] = {
    "allowed_commands": Policy(allowed_commands=ALLOWED),
    "blocked_commands": Policy(allowed_commands=ALLOWED | {FORBIDDEN}, blocked_commands=frozenset({FORBIDDEN})),
    "readonly": Policy(readonly=True),
}
# What says of a script which policies let it run.
Asks = Callable[[str], Awaitable[Sequence[str]]]
# The guard without its doubts: where no rule is strict, what cannot be resolved runs. The fuzzer must find this out.
WITHOUT_DOUBTS: Mapping[str, Policy] = {"without doubts": Policy(blocked_commands=frozenset({FORBIDDEN}))}
BATCH = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Escape:
    """A script that ran what it must not, although these policies allowed it."""

    grammar: str
    script: str
    policies: tuple[str, ...]


@dataclass(slots=True, kw_only=True)
class Report:
    """Counts by grammar. `unreadable` are those of the allowed that bash calls no script."""

    generated: Counter[str] = field(default_factory=Counter)
    allowed: Counter[str] = field(default_factory=Counter)
    unreadable: Counter[str] = field(default_factory=Counter)
    late: Counter[str] = field(default_factory=Counter)
    escapes: list[Escape] = field(default_factory=list)

    def allowed_share(self, grammar: str | None = None) -> float:
        if grammar is not None:
            return self.allowed[grammar] / max(1, self.generated[grammar])
        return self.allowed.total() / max(1, self.generated.total())


def guard(parser: Parser, policies: Mapping[str, Policy] = POLICIES) -> Asks:
    """Asks the guard under each of these policies."""
    judges = {name: Judge(policy, parser=parser) for name, policy in policies.items()}

    async def asks(text: str) -> Sequence[str]:
        command = Command(what=Script(text))
        return [name for name, judge in judges.items() if await judge.judge(command) == Allowed()]

    return asks


def weakened(name: str, weak: Weak) -> Asks:
    async def asks(text: str) -> Sequence[str]:
        return [name] if weak(text, ALLOWED) else []

    return asks


async def everything(text: str) -> Sequence[str]:
    """Allows whatever comes: what the box holds without any guard."""
    return ["everything"]


async def fuzz(
    grammars: Iterable[Source], *, seed: int, count: int, asks: Asks, stops_at: int | None = None, batch: int = BATCH
) -> Report:
    """`count` scripts of each grammar, so many in a batch. Two boxes share the work. `stops_at` ends it after the batch with so many
    escapes."""
    report = Report()
    pieces = [
        (grammar, number, min(batch, count - number)) for number in range(0, count, batch) for grammar in grammars
    ]
    waiting = iter(pieces)

    async def work() -> None:
        async with opened_box() as box:
            for grammar, number, size in waiting:
                if stops_at is not None and len(report.escapes) >= stops_at:
                    return
                # A batch depends on the seed, its grammar and its number, not on who runs it or what ran before.
                chance = random.Random(f"{seed} {grammar.name} {number}")
                await _batch(report, grammar, [grammar.script(chance) for _ in range(size)], asks, box)

    async with anyio.create_task_group() as tasks:
        for _ in range(2):
            tasks.start_soon(work)
    return report


async def _batch(report: Report, grammar: Source, scripts: Sequence[str], asks: Asks, box: Box) -> None:
    verdicts = [(script, tuple(await asks(script))) for script in scripts]
    allowed = [(script, policies) for script, policies in verdicts if policies]
    deeds = await box.run([script for script, _ in allowed])
    report.generated[grammar.name] += len(scripts)
    report.allowed[grammar.name] += len(allowed)
    report.unreadable[grammar.name] += sum(deed.error for deed in deeds)
    report.late[grammar.name] += sum(deed.late for deed in deeds)
    for (script, policies), deed in zip(allowed, deeds, strict=True):
        if broken := _broken(policies, deed):
            report.escapes.append(Escape(grammar=grammar.name, script=script, policies=broken))


def _broken(policies: tuple[str, ...], deed: Deed) -> tuple[str, ...]:
    """The policies that this deed goes against; under readonly no file may change either."""
    if deed.ran:
        return policies
    return ("readonly",) if "readonly" in policies and deed.changed else ()
