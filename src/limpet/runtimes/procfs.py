"""Reads /proc as bytes. Never decodes or trusts what a process may choose: its name, its paths, how long they are.

The kernel escapes newlines in the paths that it shows and nothing else (seq_path, fs/seq_file.c), so lines end at \\n only:
`splitlines` would also cut at \\r, which a file's name may hold. Every function tells a process that is gone, or a line that is not
as documented, from one that is there by returning nothing; none of them raises ValueError or IndexError.
"""

import os
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass

# address range, permissions, offset, device, inode, path (proc_pid_maps(5))
_MAPPING = re.compile(
    rb"([0-9a-f]+-[0-9a-f]+) [-rwxsp]{4} [0-9a-f]+ ([0-9a-f]+):([0-9a-f]+) [0-9]+ .* \(deleted\)", re.DOTALL
)
_NUMBER = re.compile(rb"[0-9]{1,20}")


@dataclass(frozen=True, slots=True)
class Stat:
    """A process as proc_pid_stat(5) shows it. `times_of_children` are of those that were waited for, in the kernel's ticks."""

    state: str
    parent: int
    started: str
    times_of_children: tuple[int, int]

    @property
    def is_dead(self) -> bool:
        return self.state in "ZX"


def stat_of(pid: int) -> Stat | None:
    """None if there is no such process."""
    # The name in brackets may hold anything, brackets too; behind the last one there are numbers only.
    fields = read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    if len(fields) < 20 or not all(_NUMBER.fullmatch(fields[at]) for at in (1, 13, 14, 19)):
        return None
    return Stat(
        state=fields[0].decode("ascii", "replace"),
        parent=int(fields[1]),
        started=fields[19].decode("ascii"),
        times_of_children=(int(fields[13]), int(fields[14])),
    )


def run_times(pid: int) -> frozenset[tuple[int, int]]:
    """Each of its threads, and the nanoseconds that it has run (its schedstat, Documentation/scheduler/sched-stats.rst); where the
    kernel keeps no such count a number that is never the same. Empty if there is no such process.

    proc_pid_stat(5) counts in ticks of 10 ms: a process that writes a little now and then takes minutes to use up one.
    """
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return frozenset()
    return frozenset((int(thread), _run_time(pid, thread)) for thread in threads)


def _run_time(pid: int, thread: str) -> int:
    return next(numbers(read(f"/proc/{pid}/task/{thread}/schedstat")), time.monotonic_ns())


def name_of(pid: int) -> bytes:
    """Its name (proc_pid_comm(5)), which it chooses itself; empty if there is no such process."""
    return read(f"/proc/{pid}/comm").removesuffix(b"\n")


def pid_inside(pid: int) -> int | None:
    """Its pid in its own pid namespace (NSpid of proc_pid_status(5)); None if there is no such process."""
    for line in read(f"/proc/{pid}/status").split(b"\n"):
        if line.startswith(b"NSpid:"):
            found = list(numbers(line))
            return found[-1] if found else None
    return None


def read(path: str) -> bytes:
    """The whole file; empty where it cannot be read, or not any more."""
    try:
        with open(path, "rb", buffering=0) as file:
            return file.read()
    except OSError:
        return b""


def numbers(data: bytes) -> Iterator[int]:
    """Of a file with one number after another, such as cgroup.procs; what is none is passed over."""
    return (int(word) for word in data.split() if _NUMBER.fullmatch(word))


def values(path: str) -> dict[bytes, int]:
    """Of a file with lines of `name: number`; other lines are passed over."""
    found = {}
    for line in read(path).split(b"\n"):
        name, _, value = line.partition(b":")
        if _NUMBER.fullmatch(value := value.strip()):
            found[name] = int(value)
    return found


def mapped_without_a_name(pid: int) -> list[tuple[int, str]]:
    """Of each mapping of a file that has lost its name: its device, and a path that leads root to the file (proc_pid_map_files(5)). A
    file whose own name ends like that counts too."""
    text = read(f"/proc/{pid}/maps")
    if b" (deleted)" not in text:
        return []
    matches = (_MAPPING.fullmatch(line) for line in text.split(b"\n"))
    return [
        (os.makedev(int(found[2], 16), int(found[3], 16)), f"/proc/{pid}/map_files/{_unpadded(found[1])}")
        for found in matches
        if found
    ]


def _unpadded(addresses: bytes) -> str:
    """As map_files names them; maps shows low ones with leading zeros."""
    return "-".join(f"{int(address, 16):x}" for address in addresses.split(b"-"))


def children_of(pid: int) -> set[int]:
    """Every process below this one, for hosts where no cgroup lists them. They may end while they are looked at."""
    found: set[int] = set()
    pending = [pid]
    while pending:
        parent = pending.pop()
        for thread in _threads(parent):
            new = set(numbers(read(f"/proc/{parent}/task/{thread}/children"))) - found
            found |= new
            pending += new
    return found


def _threads(pid: int) -> list[str]:
    try:
        return os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []  # it has ended
