"""A box from nothing to its first output, beside bare bubblewrap and a bare Python."""

import shlex
import shutil
import statistics
import time
from functools import partial

from bench import bare
from bench.table import Line, NotMeasured, Row, Scale, by_turns, compared
from limpet import open_workspace

BWRAP = shlex.split(
    "--unshare-all --die-with-parent --ro-bind /usr /usr --symlink usr/bin /bin --symlink usr/lib /lib "
    "--symlink usr/lib64 /lib64 --proc /proc --dev /dev"
)


async def rows(scale: Scale) -> list[Line]:
    name = f"boot to first output, {scale.runtime}"
    bwrap = shutil.which("bwrap")
    if bwrap is None:
        return [NotMeasured(name=name, reason="There is no bwrap on this host to stand beside.")]
    python = shutil.which("python3", path="/usr/bin") or "python3"
    bubblewrap = partial(bare.run, bwrap, *BWRAP, "/bin/true")
    interpreter = partial(bare.run, python, "-I", "-S", "-c", "pass")
    booted: list[float] = []
    whole, bwraps, pythons = await by_turns(partial(_life, scale, booted), bubblewrap, interpreter, n=scale.of(40))
    first = booted[1:]  # as in the others, the first round does not count
    return [
        compared(name, first, "bare bwrap … true", bwraps, target="≤ 50 ms"),
        _slowest(f"{name}, 95th of 100", first, "bare bwrap … true, likewise", bwraps),
        compared(name, first, f"bare {python} -I -S -c pass", pythons),
        compared(f"boot, one command and end, {scale.runtime}", whole, "bare bwrap … true", bwraps),
    ]


def _slowest(name: str, ours: list[float], beside: str, floor: list[float]) -> Row:
    """What 95 of 100 stay below."""
    ours_p95, floor_p95 = (statistics.quantiles(times, n=20)[-1] for times in (ours, floor))
    return Row(name=name, ours=ours_p95, beside=beside, floor=floor_p95, unit="ms", n=len(ours), target="≤ 90 ms")


async def _life(scale: Scale, booted: list[float]) -> None:
    """One box from its beginning to its end; the milliseconds to its first output go to `booted`."""
    begun = time.perf_counter()
    arrivals: list[float] = []

    async def note(data: bytes) -> None:
        arrivals.append((time.perf_counter() - begun) * 1000)

    async with open_workspace("bench", runtime=scale.runtime, home=scale.home) as box:
        result = await box.run("echo", on_stdout=note)
        if result.stdout != b"\n":
            raise RuntimeError(f"The box printed {result.stdout!r} and {result.stderr!r}.")
    booted.append(arrivals[0])
