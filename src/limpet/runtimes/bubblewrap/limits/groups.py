"""Bounds of a whole box by cgroups, version 1 or 2, where this process may make them; and of each process, everywhere.

A box's group lies in `limpet/` below the root of each hierarchy (root) or beside this process's own group where that was
delegated (ordinary users, version 2), so that a later process finds it again.
"""

import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path

from limpet.core.ports import Held, Limits
from limpet.runtimes import procfs
from limpet.runtimes.bubblewrap import capabilities

_PERIOD = 100_000  # microseconds
# What a box needs beside its commands: bubblewrap's own process, the agent, and room for the agent to start one more.
_SPARE_PROCESSES = 8
_NEEDED = ("memory", "pids", "cpu")


@dataclass(frozen=True, slots=True)
class Groups:
    """Where groups can be made: `parents` maps each needed controller to a directory, for version 2 all to the same."""

    version: int
    parents: Mapping[str, Path]

    def directories(self, group: str) -> list[Path]:
        """The directories of a box's group, whether or not they are there."""
        return sorted({parent / group for parent in self.parents.values()})

    def make(self, group: str, limits: Limits) -> list[Path]:
        """Make a box's group; the box joins by its first process writing "0" to each of its `entrances`. OSError if not permitted."""
        for directory in self.directories(group):
            directory.mkdir(exist_ok=True)
        for controller, name, value, required in _settings(self.version, limits):
            with nullcontext() if required else suppress(OSError):
                (self.parents[controller] / group / name).write_text(value)
        return self.directories(group)

    def entrances(self, group: str) -> list[Path]:
        """The files by which a process without threads joins a box's group.

        In version 1 that is the file for one thread: a whole process waits until no processor of the machine may still be starting a
        thread, 4 ms and more for each hierarchy. In version 2 that file admits threads of its own group only.
        """
        return [directory / ("tasks" if self.version == 1 else "cgroup.procs") for directory in self.directories(group)]

    def counters(self, group: str) -> dict[str, int]:
        """Descriptors of a group's counters, for reading: `memory` of what the kernel killed in it, `processes` of what lives
        there. The caller closes them."""
        killed = "memory.oom_control" if self.version == 1 else "memory.events"
        found = {}
        for name, controller, file in (("memory", "memory", killed), ("processes", "pids", "pids.current")):
            with suppress(OSError):
                found[name] = os.open(self.parents[controller] / group / file, os.O_RDONLY | os.O_CLOEXEC)
        return found

    def members(self, group: str) -> set[int]:
        """The processes in it, by pid."""
        found: set[int] = set()
        for directory in self.directories(group):
            found.update(procfs.numbers(procfs.read(str(directory / "cgroup.procs"))))
        return found

    def kill(self, group: str) -> None:
        """Kill every process in it: at one stroke where the kernel can (version 2, Linux 5.14), else one by one, so that this must
        be repeated until it can be removed."""
        if self.version == 2:
            with suppress(OSError):
                # Never made here: on an older kernel, and in a group that is gone, there is no such file.
                with open(self.parents["pids"] / group / "cgroup.kill", "r+") as file:
                    file.write("1")
                return
        for pid in self.members(group):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def remove(self, group: str) -> bool:
        """Remove an empty group; False while something is in it."""
        for directory in self.directories(group):
            try:
                directory.rmdir()
            except FileNotFoundError:
                continue
            except OSError:
                return False
        return True

    def all(self, prefix: str) -> set[str]:
        """The names of groups that begin so."""
        found: set[str] = set()
        for parent in set(self.parents.values()):
            with suppress(FileNotFoundError, NotADirectoryError), os.scandir(parent) as entries:
                found.update(entry.name for entry in entries if entry.name.startswith(prefix) and entry.is_dir())
        return found


def _settings(version: int, limits: Limits) -> Iterator[tuple[str, str, str, bool]]:
    """Controller, file, value, and whether a host without that file is refused."""
    memory, cpus, processes = limits.memory, limits.cpus, limits.processes
    if memory is not None:
        yield ("memory", "memory.limit_in_bytes" if version == 1 else "memory.max", str(memory), True)
        # Swap would double what was granted; hosts without swap accounting have no such file.
        swap = ("memory.memsw.limit_in_bytes", str(memory)) if version == 1 else ("memory.swap.max", "0")
        yield ("memory", *swap, False)
        if version == 1:
            # Version 2 counts what lies in sockets as memory; version 1 only where it is bounded beside it.
            yield ("memory", "memory.kmem.tcp.limit_in_bytes", str(memory), False)
    if processes is not None:
        yield ("pids", "pids.max", str(processes + _SPARE_PROCESSES), True)
    if cpus is not None:
        quota = max(1000, int(cpus * _PERIOD))
        if version == 1:
            yield ("cpu", "cpu.cfs_period_us", str(_PERIOD), True)
            yield ("cpu", "cpu.cfs_quota_us", str(quota), True)
        else:
            yield ("cpu", "cpu.max", f"{quota} {_PERIOD}", True)


def find_groups(*, mounts: Path = Path("/proc/self/mountinfo"), own: Path = Path("/proc/self/cgroup")) -> Groups | None:
    """Where this process may make groups that bound memory, processes and CPU; None if nowhere."""
    hierarchies = list(_hierarchies(mounts))
    first = {name: path for version, path, names in hierarchies if version == 1 for name in names if name in _NEEDED}
    if len(first) == len(_NEEDED):
        parents = {name: path / "limpet" for name, path in first.items()}
        return Groups(1, parents) if all(_makes(parent) for parent in parents.values()) else None
    for version, path, names in hierarchies:
        if version == 2 and set(_NEEDED) <= set(names):
            parent = _below_root(path) or _delegated(path, own)
            return Groups(2, dict.fromkeys(_NEEDED, parent)) if parent else None
    return None


def _hierarchies(mounts: Path) -> Iterator[tuple[int, Path, list[str]]]:
    """Version, mount point and controllers of each cgroup mount (proc_pid_mountinfo(5))."""
    # As bytes and cut at \n only: any user who may mount (FUSE too) chooses the names of mount points.
    for line in procfs.read(str(mounts)).split(b"\n"):
        left, _, right = line.partition(b" - ")
        words, facts = left.split(b" "), right.split(b" ", 2)
        if len(words) < 5 or len(facts) < 3 or facts[0] not in (b"cgroup", b"cgroup2"):
            continue
        path = Path(os.fsdecode(words[4]))
        if facts[0] == b"cgroup":
            yield 1, path, os.fsdecode(facts[2]).split(",")
        elif controllers := procfs.read(str(path / "cgroup.controllers")):
            yield 2, path, os.fsdecode(controllers).split()


def _makes(directory: Path) -> bool:
    try:
        directory.mkdir(exist_ok=True)
    except OSError:
        return False
    return os.access(directory, os.W_OK)


def _enables(directory: Path) -> bool:
    """Hand the controllers down to the groups in a directory (version 2)."""
    try:
        (directory / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in _NEEDED))
    except OSError:
        return False
    return True


def _below_root(root: Path) -> Path | None:
    parent = root / "limpet"
    return parent if _enables(root) and _makes(parent) and _enables(parent) else None


def _delegated(root: Path, own: Path) -> Path | None:
    """Beside this process's own group, where its parent was delegated to this user (systemd: Delegate= with DelegateSubgroup=).

    To put a process there from here, its `cgroup.procs` must be writable in the group above both (cgroup-v2, "Delegation Containment");
    for controllers to be handed down, nothing may run in that group itself ("No Internal Process Constraint").
    """
    for line in procfs.read(str(own)).split(b"\n"):
        if line.startswith(b"0::"):
            above = root / Path(os.fsdecode(line[3:].lstrip(b"/"))).parent
            parent = above / "limpet"
            may_move = os.access(above, os.W_OK) and os.access(above / "cgroup.procs", os.W_OK)
            if may_move and _enables(above) and _makes(parent) and _enables(parent):
                return parent
    return None


def held(groups: Groups | None) -> Held:
    """What the bounds of a box bind where its groups can, or cannot, be made."""
    if groups is None:
        return Held(memory="process", processes="process", cpu="none", disk="sandbox", notes=tuple(_notes(groups)))
    return Held(memory="sandbox", processes="sandbox", cpu="sandbox", disk="sandbox", notes=tuple(_notes(groups)))


def _notes(groups: Groups | None) -> Iterator[str]:
    """What cannot be held here, one sentence each."""
    is_root = os.geteuid() == 0
    if groups is None:
        why = "no cgroup can be made here" if is_root else "no cgroup was delegated to this user"
        yield f"Memory and processes are bounded per process, not per sandbox, since {why}."
        yield "What processes share in memory (mappings, files in memory) is bounded by the host's memory alone."
        yield "CPU is not bounded."
    if not (is_root and capabilities.has(capabilities.SYS_RESOURCE)):
        yield (
            "When memory runs out, commands can make the kernel choose their sandbox's agent: then the sandbox ends, and its files"
            " stay."
        )
    if not is_root:
        yield "On disk, a directory that a command closes to its own user is not counted, nor what processes hold that hide."


def of_each_process(limits: Limits, *, whole_box: bool) -> dict[str, int]:
    """Limits for setrlimit(2) in each command, by the names of Python's `resource`.

    `whole_box` says that a group bounds the box's memory; without one its memory is bounded per process: by RLIMIT_DATA, since
    programs reserve far more address space (RLIMIT_AS) than they use.
    """
    found = {}
    if limits.memory is not None and not whole_box:
        found["RLIMIT_DATA"] = limits.memory
    if limits.processes is not None:
        found["RLIMIT_NPROC"] = limits.processes
    if limits.open_files is not None:
        found["RLIMIT_NOFILE"] = limits.open_files
    if limits.file_size is not None:
        found["RLIMIT_FSIZE"] = limits.file_size
    return found
