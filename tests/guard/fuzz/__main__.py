"""`python -m tests.guard.fuzz --seed 7 --count 2000 --grammar quoting`: the fuzzer at any seed. Exits 1 where something got through."""

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import anyio

from limpet.guard.policy.bash.parser import Parser
from limpet.runtimes.bubblewrap import BubblewrapRuntime
from tests.guard.fuzz.expand import FORBIDDEN, Source
from tests.guard.fuzz.grammars.all import GRAMMARS
from tests.guard.fuzz.run import WITHOUT_DOUBTS, Report, everything, fuzz, guard, weakened
from tests.guard.fuzz.walled import WALLS, behind_walls, made_image
from tests.guard.fuzz.weak import WEAK
from tests.support.homes import short_home


def main() -> int:
    """The table of one run."""
    parser = argparse.ArgumentParser(prog="python -m tests.guard.fuzz", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=500, help="scripts of each grammar")
    parser.add_argument("--grammar", choices=sorted(GRAMMARS), action="append", help="only these")
    parser.add_argument("--judge", choices=["guard", "without-doubts", "everything", *WEAK], default="guard")
    parser.add_argument("--stop", type=int, default=None, help="after so many that got through")
    parser.add_argument("--show", type=int, default=40, help="so many that got through")
    parser.add_argument(
        "--walls", choices=sorted(WALLS), help="run all of them in boxes with these walls, and ask no judge"
    )
    asked = parser.parse_args()
    grammars = [GRAMMARS[name] for name in asked.grammar or GRAMMARS]
    begun = time.monotonic()
    if asked.walls is not None:
        guilty = anyio.run(_run_walled, grammars, asked)
        sys.stdout.writelines(f"one of {batch!r}\n" for batch in guilty)
        made = len(grammars) * asked.count
        sys.stdout.write(
            f"{made} scripts, {len(guilty)} batches that ran {FORBIDDEN}, {time.monotonic() - begun:.1f} s\n"
        )
        return 1 if guilty else 0
    report = anyio.run(_run, grammars, asked)
    _print(report, grammars, asked.show)
    sys.stdout.write(f"{time.monotonic() - begun:.1f} s\n")
    return 1 if report.escapes else 0


async def _run(grammars: Sequence[Source], asked: argparse.Namespace) -> Report:
    async with Parser() as parser:
        asks = guard(parser)
        if asked.judge == "everything":
            asks = everything
        elif asked.judge == "without-doubts":
            asks = guard(parser, WITHOUT_DOUBTS)
        elif asked.judge != "guard":
            asks = weakened(asked.judge, WEAK[asked.judge])
        return await fuzz(grammars, seed=asked.seed, count=asked.count, asks=asks, stops_at=asked.stop)


async def _run_walled(grammars: Sequence[Source], asked: argparse.Namespace) -> list[Sequence[str]]:
    with tempfile.TemporaryDirectory(prefix="lf-") as directory, short_home() as home:
        Path(directory).chmod(0o755)
        image = made_image(Path(directory))
        if image is None:
            sys.exit("There is no C compiler here for the stand-in.")
        async with BubblewrapRuntime(home=home) as runtime:
            return await behind_walls(runtime, image, WALLS[asked.walls], grammars, seed=asked.seed, count=asked.count)


def _print(report: Report, grammars: Sequence[Source], most: int) -> None:
    out = sys.stdout.write
    for escape in report.escapes[:most]:
        out(f"{escape.grammar} ({', '.join(escape.policies)}): {escape.script!r}\n")
    out(f"{'grammar':<14}{'made':>8}{'allowed':>9}{'share':>7}{'no bash':>9}{'late':>6}{'through':>9}\n")
    for grammar in grammars:
        name = grammar.name
        through = sum(escape.grammar == name for escape in report.escapes)
        out(f"{name:<14}{report.generated[name]:>8}{report.allowed[name]:>9}{report.allowed_share(name):>7.0%}")
        out(f"{report.unreadable[name]:>9}{report.late[name]:>6}{through:>9}\n")
    total = report.generated.total()
    out(f"{'all':<14}{total:>8}{report.allowed.total():>9}{report.allowed_share():>7.0%}")
    out(f"{report.unreadable.total():>9}{report.late.total():>6}{len(report.escapes):>9}\n")


if __name__ == "__main__":
    sys.exit(main())
