"""`python -m tests.runtimes.bubblewrap.fuzz --seconds 600`: an agent that lies, at any seed. Exits 1 where anything but its own box
noticed, an error of ours was reached, or memory grew."""

import argparse
import sys
import time

import anyio

from tests.runtimes.bubblewrap.fuzz.attack import attacking, memory_used
from tests.support.homes import short_home

_GROWTH = 150  # MiB


def main() -> int:
    """One line, and the findings."""
    parser = argparse.ArgumentParser(prog="python -m tests.runtimes.bubblewrap.fuzz", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="of the first conversation; each further one has the next")
    parser.add_argument("--seconds", type=float, default=30.0)
    asked = parser.parse_args()
    return anyio.run(_run, asked.seed, asked.seconds)


async def _run(seed: int, seconds: float) -> int:
    with short_home() as home:
        async with attacking(home) as attack:
            before, until = memory_used(), time.monotonic() + seconds
            while time.monotonic() < until:
                await attack.one(seed)
                seed += 1
        grown = memory_used() - before
    sys.stdout.write(
        f"{attack.conversations} conversations with a lying agent in {seconds:.0f} s, up to seed {seed - 1}:"
        f" {len(attack.findings)} findings; memory grew by {grown} MiB at most.\n"
    )
    sys.stdout.writelines(f"{finding}\n" for finding in attack.findings[:40])
    return 1 if attack.findings or grown > _GROWTH else 0


if __name__ == "__main__":
    sys.exit(main())
