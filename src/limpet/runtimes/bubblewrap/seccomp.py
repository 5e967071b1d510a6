"""Which system calls a box may not make: those that reach parts of the kernel that no command needs, or that name spaces don't cover.

A list of refusals, not of permissions: programs keep working, and the walls are the namespaces. Calls of another architecture
end the process, since the list would not be the same there.
"""

import errno
import os
import socket
import struct
from functools import cache

from limpet.core.errors import RuntimeUnavailable
from limpet.runtimes.bubblewrap.settings import NAME

try:
    import pyseccomp  # type: ignore[import-untyped]  # 0.1.2 has annotations but no marker
except RuntimeError:  # the package is there, the system's library is not
    pyseccomp = None

# Each group, and why. EPERM, as the kernel itself would say to a user without the capability.
_REFUSED = (
    # Mounts and namespaces: the box's view of the file system is final.
    "mount umount2 pivot_root chroot unshare setns fsopen fsmount fsconfig fspick move_mount open_tree open_tree_attr"
    " mount_setattr",
    # Modules, kexec, time, swap, accounting: the host's.
    "kexec_load kexec_file_load init_module finit_module delete_module reboot settimeofday clock_settime clock_adjtime adjtimex",
    "swapon swapoff acct quotactl quotactl_fd syslog iopl ioperm nfsservctl vhangup",
    # Large, young or often broken parts of the kernel.
    "bpf perf_event_open userfaultfd io_uring_setup io_uring_enter io_uring_register",
    # The kernel's keyrings know no namespaces.
    "keyctl add_key request_key",
    # Files by handle, past every directory.
    "open_by_handle_at name_to_handle_at",
    # Into other processes: their memory, their descriptors, where these lie in the kernel. What a debugger needs of its own child stays.
    "process_vm_readv process_vm_writev process_madvise pidfd_getfd kcmp",
    # Nodes' memory; the old library loader.
    "move_pages migrate_pages lookup_dcookie uselib",
)
# The same on every architecture, for libraries that are older than the call (libseccomp 2.5.4 of Debian 12 does not know all).
_NUMBERS = {
    "io_uring_setup": 425,
    "io_uring_enter": 426,
    "io_uring_register": 427,
    "open_tree": 428,
    "move_mount": 429,
    "fsopen": 430,
    "fsconfig": 431,
    "fsmount": 432,
    "fspick": 433,
    "pidfd_getfd": 438,
    "process_madvise": 440,
    "mount_setattr": 442,
    "quotactl_fd": 443,
    "open_tree_attr": 467,
}
# Nobody has judged calls that are younger than Linux 6.17: they are not there. Programs ask for that and go another way.
_LAST_KNOWN = 469
_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
# Attaching to a process that is not one's child and did not ask for it.
_ATTACH, _SEIZE = 16, 0x4206
# Limits and priorities of the agent, which is process 1 and has the commands' own user: by which argument it would be named.
_OF_PROCESS_1 = {
    "prlimit64": 0,
    "sched_setaffinity": 0,
    "sched_setattr": 0,
    "sched_setparam": 0,
    "sched_setscheduler": 0,
    "setpriority": 1,
    "ioprio_set": 1,
}
# The first argument that means all processes of a user, so the agent too.
_OF_A_USER = {"setpriority": 2, "ioprio_set": 3}
# Classic BPF (linux/filter.h): code, jumps when true and when false, value; seccomp(2).
_LOAD, _EQUAL, _GREATER, _AT_LEAST, _RETURN = 0x20, 0x15, 0x25, 0x35, 0x06
_ANSWER_WITH = 0x00050000  # SECCOMP_RET_ERRNO
_OTHER_NUMBERS = 0x40000000
_NEW_NAMESPACES = 0x7E020000  # CLONE_NEW*: ns, cgroup, uts, ipc, user, pid, net
_FAMILIES = frozenset({socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK})
_LAST_FAMILY = 64
_TYPE_INTO_TERMINAL = 0x5412
_PASTE_INTO_TERMINAL = 0x541C


@cache
def program(*, denies_memory_files: bool = False) -> bytes:
    """The filter, as bubblewrap reads it from a descriptor. RuntimeUnavailable without the system's libseccomp.

    `denies_memory_files`: a file in memory has no place, so no mount says that nothing in it may be executed.
    """
    if pyseccomp is None:
        raise RuntimeUnavailable(NAME, "the library libseccomp.so.2 is missing.", "apt-get install libseccomp2")
    rules = pyseccomp.SyscallFilter(pyseccomp.ALLOW)
    rules.set_attr(pyseccomp.Attr.ACT_BADARCH, pyseccomp.KILL_PROCESS)
    names = " ".join(_REFUSED).split() + (["memfd_create"] if denies_memory_files else [])
    for name in names:
        number = pyseccomp.resolve_syscall(pyseccomp.Arch.NATIVE, name)
        if number < 0:
            number = _NUMBERS.get(name, -1)
        if number >= 0:
            rules.add_rule(pyseccomp.ERRNO(errno.EPERM), number)
    _spare_the_agent(rules)
    for request in (_ATTACH, _SEIZE):
        rules.add_rule(pyseccomp.ERRNO(errno.EPERM), "ptrace", pyseccomp.Arg(0, pyseccomp.EQ, request))
    for bit in range(32):
        if _NEW_NAMESPACES & (1 << bit):
            flag = pyseccomp.Arg(0, pyseccomp.MASKED_EQ, 1 << bit, 1 << bit)
            rules.add_rule(pyseccomp.ERRNO(errno.EPERM), "clone", flag)
    # Its flags lie in memory, where a filter cannot look; without it, libraries take clone.
    rules.add_rule(pyseccomp.ERRNO(errno.ENOSYS), "clone3")
    for request in (_TYPE_INTO_TERMINAL, _PASTE_INTO_TERMINAL):
        rules.add_rule(
            pyseccomp.ERRNO(errno.EPERM), "ioctl", pyseccomp.Arg(1, pyseccomp.MASKED_EQ, 0xFFFFFFFF, request)
        )
    for family in range(_LAST_FAMILY):
        if family not in _FAMILIES:
            rules.add_rule(pyseccomp.ERRNO(errno.EAFNOSUPPORT), "socket", pyseccomp.Arg(0, pyseccomp.EQ, family))
    rules.add_rule(pyseccomp.ERRNO(errno.EAFNOSUPPORT), "socket", pyseccomp.Arg(0, pyseccomp.GE, _LAST_FAMILY))
    return _without_younger_calls() + _exported(rules)


def _spare_the_agent(rules: "pyseccomp.SyscallFilter") -> None:
    """A command that starved or bounded the agent would brick the box. Only the lower half counts: pids have 32 bits."""
    for name, place in _OF_PROCESS_1.items():
        named = pyseccomp.Arg(place, pyseccomp.MASKED_EQ, 0xFFFFFFFF, 1)
        rules.add_rule(pyseccomp.ERRNO(errno.EPERM), name, named)
    for name, which in _OF_A_USER.items():
        meant = pyseccomp.Arg(0, pyseccomp.MASKED_EQ, 0xFFFFFFFF, which)
        rules.add_rule(pyseccomp.ERRNO(errno.EPERM), name, meant)


def _without_younger_calls() -> bytes:
    """Instructions before all others: a call of this architecture behind the last known one, and of no second set of numbers
    (x32), answers ENOSYS; everything else goes on. libseccomp has no rule for a range."""
    architecture = _ARCHITECTURES.get(os.uname().machine)
    if architecture is None:
        return b""
    program = (
        (_LOAD, 0, 0, 4),  # the architecture
        (_EQUAL, 0, 4, architecture),
        (_LOAD, 0, 0, 0),  # the call's number
        (_AT_LEAST, 2, 0, _OTHER_NUMBERS),
        (_GREATER, 0, 1, _LAST_KNOWN),
        (_RETURN, 0, 0, _ANSWER_WITH | errno.ENOSYS),
    )
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in program)


def _exported(rules: "pyseccomp.SyscallFilter") -> bytes:
    descriptor = os.memfd_create("seccomp", os.MFD_CLOEXEC)
    with open(descriptor, "w+b") as file:
        rules.export_bpf(file)
        file.seek(0)
        return file.read()
