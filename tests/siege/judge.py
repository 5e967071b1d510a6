"""What a siege measured and whether the promise held. Pure: values in, verdicts and a table out.

Two kinds of complaint: a fault (a process that ended, a wrong answer, memory that did not come back, a claim that does not hold) is final;
a delay may be the machine's, and counts where it comes each of `TRIES` times, also once the machine was calm before it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

MIB = 1 << 20
COMMAND_BOUND = 1.0  # seconds: p99 of the other tenants' commands
LIVEZ_BOUND = 0.1  # seconds: p99 of /livez, each time on a new connection
LOG_BOUND = MIB
TRIES = 3  # of an attack during which others waited too long
MEMORY_BOUND = 64 * MIB  # how much larger the gateway may stay after an attack: what its allocator keeps


@dataclass(frozen=True, slots=True, kw_only=True)
class Durations:
    """How long each of something took, in seconds."""

    seconds: tuple[float, ...]

    def at(self, share: float) -> float:
        """The duration that this share of all did not exceed (nearest rank); infinite where there was none."""
        if not self.seconds:
            return math.inf
        return sorted(self.seconds)[max(0, math.ceil(share * len(self.seconds)) - 1)]

    @property
    def longest(self) -> float:
        return max(self.seconds, default=math.inf)


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """What the other tenants saw in one stretch of time. `failures` are their commands that did not end as they must, in words."""

    commands: Durations
    livez: Durations
    failures: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Siege:
    """One attack: what was seen meanwhile, the gateway's memory and what it logged in bytes, the processes of others that it
    ended, what of the attack's own claims did not hold, and which of them did not hold in time. It took `seconds` in all. `began_calm`: the
    machine was seen to be calm right before."""

    attack: str
    user: str
    during: Window
    memory_before: int
    memory_peak: int
    memory_after: int
    logged: int = 0
    ended: tuple[str, ...] = ()
    broken: tuple[str, ...] = ()
    late: tuple[str, ...] = ()
    seconds: float = 0.0
    began_calm: bool = True


def complaints(siege: Siege) -> list[str]:
    """Everything that the siege should not have shown; empty where the promise held."""
    return [*faults(siege), *delays(siege)]


def faults(siege: Siege) -> list[str]:
    """What no busy machine explains."""
    found = [f"{name} ended" for name in siege.ended]
    found += siege.broken
    if siege.during.failures:
        count = len(siege.during.failures)
        found.append(f"{count} commands of others failed, the first: {siege.during.failures[0]}")
    if (more := siege.memory_after - siege.memory_before) > MEMORY_BOUND:
        found.append(f"{more / MIB:.0f} MiB of memory did not come back (bound {MEMORY_BOUND / MIB:.0f})")
    if siege.logged > LOG_BOUND:
        found.append(f"{siege.logged / MIB:.1f} MiB were logged (bound {LOG_BOUND / MIB:.0f})")
    return found


def delays(siege: Siege) -> list[str]:
    """What took too long; a machine that has other work to do explains it once, not each time."""
    found = list(siege.late)
    if (slow := siege.during.commands.at(0.99)) > COMMAND_BOUND:
        found.append(f"p99 of others' commands is {_s(slow)} (bound {_s(COMMAND_BOUND)})")
    if (slow := siege.during.livez.at(0.99)) > LIVEZ_BOUND:
        found.append(f"p99 of /livez is {_s(slow)} (bound {_s(LIVEZ_BOUND)})")
    return found


def is_calm(window: Window) -> bool:
    """Whether the machine leaves the tenants room enough to measure anything: half of what is promised under attack."""
    in_time = window.commands.at(0.99) <= COMMAND_BOUND / 2 and window.livez.at(0.99) <= LIVEZ_BOUND / 2
    return in_time and not window.failures


def comes_again(sieges: Sequence[Siege], attack: str) -> bool:
    """Whether an attack is tried once more: it has only ever been too slow, and not yet `TRIES` times."""
    tried = [siege for siege in sieges if siege.attack == attack]
    return 0 < len(tried) < TRIES and all(delays(siege) and not faults(siege) for siege in tried)


def red(sieges: Sequence[Siege]) -> set[str]:
    """The attacks for which the promise was broken: by a fault, or by a delay each time that they were tried. Where all tries met a
    machine that was busy with something else nothing is known of delays."""
    held = {siege.attack for siege in sieges if not complaints(siege)}
    late = {siege.attack for siege in sieges if siege.began_calm} - held
    return {siege.attack for siege in sieges if faults(siege) or (delays(siege) and siege.attack in late)}


def table(baseline: Window, sieges: Sequence[Siege]) -> list[str]:
    """A line for each siege, the quiet baseline first, and below each red one its complaints."""
    head = (
        "attack",
        "as",
        "n",
        "p50",
        "p99",
        "max",
        "livez p99",
        "MiB before",
        "peak",
        "after",
        "log KiB",
        "ended",
        "took",
        "",
    )
    rows = [head, ("(quiet)", "", *_times(baseline), "", "", "", "", "", "", "")]
    notes: dict[int, list[str]] = {}
    for siege in sieges:
        found = complaints(siege)
        memory = (f"{size / MIB:.0f}" for size in (siege.memory_before, siege.memory_peak, siege.memory_after))
        verdict = "RED" if faults(siege) else "slow" if found else "holds"
        rows.append(
            (
                siege.attack,
                siege.user,
                *_times(siege.during),
                *memory,
                str(siege.logged >> 10),
                str(len(siege.ended)),
                f"{siege.seconds:.0f} s",
                verdict,
            )
        )
        notes[len(rows) - 1] = found
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    lines = []
    for number, row in enumerate(rows):
        cells = [
            f"{cell:<{width}}" if at < 2 else f"{cell:>{width}}"
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
        lines += [f"    {note}" for note in notes.get(number, [])]
    return lines


def _times(window: Window) -> tuple[str, ...]:
    commands = window.commands
    times = (commands.at(0.5), commands.at(0.99), commands.longest, window.livez.at(0.99))
    return (str(len(commands.seconds)), *map(_s, times))


def _s(seconds: float) -> str:
    return "never" if math.isinf(seconds) else f"{seconds * 1000:.0f} ms"
