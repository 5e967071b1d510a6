"""As much of a sandbox's walls as can be built without a file system of its own: Landlock and a filter of system calls. Starts nothing.

Of these only the one against writing holds whatever a command does: nothing outlives a refused write, and there is no way to ask
another process of the host for one. A program that may not be executed can still be loaded by the loader; one that is hidden, or a
path that is, can still be asked of a service of the host.
"""

import errno
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from limpet.core.ports import Offer, SandboxSpec, Walls
from limpet.runtimes.agent.walls import version
from limpet.runtimes.elf import Tree, closure
from limpet.runtimes.local.paths import LocalPaths
from limpet.runtimes.programs import executable, masked
from limpet.runtimes.syscalls import allowing_rules, compiled, numbers_of, pyseccomp

LEAST = 5  # from which on also the controls of devices are covered
_EXECUTE, _WRITE, _READ, _LIST, _REFER, _TRUNCATE, _DEVICES = 1, 1 << 1, 1 << 2, 1 << 3, 1 << 13, 1 << 14, 1 << 15
_CHANGES = sum(1 << bit for bit in range(4, 13))  # make and remove, of every kind
_WRITES = _WRITE | _CHANGES | _REFER | _TRUNCATE | _DEVICES
_ALL = (1 << 16) - 1
_HARMLESS = ("/dev/null", "/dev/zero", "/dev/full", "/dev/tty", "/dev/pts", "/dev/ptmx", "/dev/random", "/dev/urandom")
_SYSTEM = "/usr /bin /sbin /lib /lib32 /lib64 /libx32 /etc /opt /proc /sys/devices/system /dev".split()
_OWN = ("/tmp", "/var/tmp", "/dev/shm")
# Changes that Landlock does not cover, and ways to ask another process to make them.
_OF_METADATA = (
    "chmod fchmod fchmodat fchmodat2 chown lchown fchown fchownat utime utimes futimesat utimensat"
    " setxattr lsetxattr fsetxattr setxattrat removexattr lremovexattr fremovexattr removexattrat file_setattr"
)
_ROADS = (
    "socket io_uring_setup io_uring_enter io_uring_register mount umount2 move_mount open_tree open_tree_attr fsopen fsmount"
    " fsconfig fspick mount_setattr pivot_root chroot unshare setns bpf perf_event_open init_module finit_module delete_module"
    " kexec_load kexec_file_load swapon swapoff acct quotactl quotactl_fd reboot iopl ioperm keyctl add_key request_key"
    " open_by_handle_at process_vm_writev pidfd_getfd ptrace"
)
_OF_FILES = (
    ord("f"),
    ord("X"),
    ord("v"),
    ord("r"),
    0x94,
)  # kinds of ioctl: flags, attributes, seals of files and file systems
_INTO_TERMINALS = (0x5412, 0x541C)


@dataclass(frozen=True, slots=True)
class Landlock:
    """For the agent (`agent.walls.raise_layers`): layers of rights that are handled, each with the paths that have them; a filter."""

    layers: tuple[tuple[int, tuple[tuple[str, int], ...]], ...] = ()
    filter: bytes = b""

    def __bool__(self) -> bool:
        return bool(self.layers or self.filter)


def offers() -> frozenset[Offer]:
    """The walls that hold on this host."""
    return frozenset({Offer.WALL_READONLY} if version() >= LEAST and pyseccomp is not None else ())


def fence_of(spec: SandboxSpec, *, place: LocalPaths, shell: str, host: Mapping[str, str]) -> Landlock:
    """What can be built of a sandbox's walls here; nothing on a kernel without Landlock. `host` are this process's own variables.
    Blocking."""
    walls = spec.walls
    if walls == Walls() or version() < LEAST:
        return Landlock()
    env = {**place.environment(host), **spec.env}
    tree, search = Tree(Path("/")), tuple(env["PATH"].split(":"))
    layers: list[tuple[int, tuple[tuple[str, int], ...]]] = []
    if walls.programs is not None:
        files = executable(tree, walls.programs, search) + tuple(closure(tree, [os.path.realpath(shell)], search))
        layers.append((_EXECUTE | _REFER, (("/", _REFER), *((path, _EXECUTE) for path in files))))
    if hidden := masked(tree, walls.hidden, search):
        layers.append((_EXECUTE | _READ | _REFER, (("/", _REFER), *_all_but(frozenset(hidden), _EXECUTE | _READ))))
    if walls.paths is not None:
        own = [*map(str, place.roots.values()), *map(place.on_host, walls.paths)]
        layers.append((_ALL, _confined(own, search)))
    if walls.is_read_only:
        layers.append((_WRITES, tuple((path, _WRITE | _DEVICES | _TRUNCATE) for path in _HARMLESS)))
    has_filter = walls.is_read_only and pyseccomp is not None
    return Landlock(tuple(layers), _filter() if has_filter else b"")


def _confined(own: list[str], search: tuple[str, ...]) -> tuple[tuple[str, int], ...]:
    system = [*_SYSTEM, *search, *(home for place in search if (home := _environment_of(place)) is not None)]
    rules = [("/", _REFER), *((path, _ALL) for path in (*own, *_OWN))]
    rules += [(path, _EXECUTE | _READ | _LIST) for path in system]
    return (*rules, *((path, _WRITE | _READ | _DEVICES | _TRUNCATE) for path in _HARMLESS))


def _environment_of(directory: str) -> str | None:
    """Where the programs of a directory have the rest of themselves: an environment of Python or conda, a version of node, what
    switches between versions (pyenv, rbenv, asdf). Never a root or a home as a whole."""
    above = os.path.dirname(directory.rstrip("/"))
    if above in ("", "/", os.path.expanduser("~")):
        return None
    marks = ("pyvenv.cfg", "conda-meta", "lib/node_modules", "shims")
    return above if any(os.path.exists(os.path.join(above, mark)) for mark in marks) else None


def _all_but(hidden: frozenset[str], rights: int) -> list[tuple[str, int]]:
    """Rules for everything but these files: what lies beside them, and beside the directories on their way."""
    ways = {str(parent) for path in hidden for parent in Path(path).parents}
    rules = []
    for way in sorted(ways):
        for name in os.listdir(way):
            path = os.path.join(way, name)
            if path not in ways and path not in hidden and not os.path.islink(path):
                rules.append((path, rights))
    return rules


def _filter() -> bytes:
    rules = allowing_rules("local")
    for number in numbers_of(_OF_METADATA):
        rules.add_rule(pyseccomp.ERRNO(errno.EROFS), number)
    for number in numbers_of(_ROADS):
        rules.add_rule(pyseccomp.ERRNO(errno.EPERM), number)
    requests = [(0xFFFFFFFF, request) for request in _INTO_TERMINALS] + [(0xFF00, kind << 8) for kind in _OF_FILES]
    for mask, request in requests:
        rules.add_rule(pyseccomp.ERRNO(errno.EPERM), "ioctl", pyseccomp.Arg(1, pyseccomp.MASKED_EQ, mask, request))
    return compiled(rules)
