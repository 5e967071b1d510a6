"""`python -m bench [names…]`: runs the benchmarks and prints one table."""

import argparse
import os
import platform
import sys
from collections.abc import Awaitable, Callable

import anyio

from bench import (
    bash_tool,
    boot,
    captures,
    containers,
    egress,
    engine,
    files,
    hosted,
    idle,
    images,
    journal,
    many,
    output,
    peers,
    redaction,
    relay,
    streams,
    turn,
    verdict,
    warm,
    wires,
)
from bench.gateway import home
from bench.table import Line, NotMeasured, Scale, as_table
from limpet.core.errors import LimpetError

BENCHMARKS: dict[str, Callable[[Scale], Awaitable[list[Line]]]] = {
    "warm": warm.rows,
    "hosted": hosted.rows,
    "boot": boot.rows,
    "images": images.rows,
    "output": output.rows,
    "many": many.rows,
    "idle": idle.rows,
    "journal": journal.rows,
    "turn": turn.rows,
    "turns": turn.rows_at_once,
    "relay": relay.rows,
    "wires": wires.rows,
    "streams": streams.rows,
    "engine": engine.rows,
    "verdict": verdict.rows,
    "redaction": redaction.rows,
    "files": files.rows,
    "captures": captures.rows,
    "containers": containers.rows,
    "egress": egress.rows,
    "bash": bash_tool.rows,
    "peers": peers.rows,
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which: {', '.join(BENCHMARKS)}; all by default")
    parser.add_argument("--quick", action="store_true", help="a tenth of the measurements")
    parser.add_argument("--runtime", default="bubblewrap", help="what runs the commands")
    asked = parser.parse_args()
    if unknown := set(asked.names) - set(BENCHMARKS):
        parser.error(f"there is no benchmark {', '.join(sorted(unknown))}; there are {', '.join(BENCHMARKS)}")
    with home() as directory:
        scale = Scale(is_quick=asked.quick, runtime=asked.runtime, home=directory)
        lines = anyio.run(_measure, asked.names or list(BENCHMARKS), scale)
    print(
        f"{platform.machine()}, {os.cpu_count()} cores, Linux {platform.release()}, Python {platform.python_version()}"
    )
    print(as_table(lines))
    return 1 if any(isinstance(line, NotMeasured) and not line.is_optional for line in lines) else 0


async def _measure(names: list[str], scale: Scale) -> list[Line]:
    lines: list[Line] = []
    for name in names:
        print(f"{name} …", file=sys.stderr, flush=True)
        try:
            lines += await BENCHMARKS[name](scale)
        except LimpetError as error:
            lines.append(NotMeasured(name=name, reason=error.message))
    return lines


if __name__ == "__main__":
    raise SystemExit(main())
