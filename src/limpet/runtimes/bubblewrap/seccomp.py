"""Which system calls a box may not make: those that reach parts of the kernel that no command needs, or that name spaces don't cover.

A list of refusals, not of permissions: programs keep working, and the walls are the namespaces. Calls of another architecture
end the process, since the list would not be the same there.
"""

import errno
import itertools
import socket
from functools import cache

from limpet.runtimes.bubblewrap.settings import NAME
from limpet.runtimes.syscalls import allowing_rules, compiled, numbers_of, pyseccomp

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
    # Nodes' memory; the old library loader; segments of 16-bit programs.
    "move_pages migrate_pages lookup_dcookie uselib modify_ldt",
)
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
_NEW_NAMESPACES = 0x7E020000  # CLONE_NEW*: ns, cgroup, uts, ipc, user, pid, net
_FAMILIES = frozenset({socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK})
_LAST_FAMILY = 64
# Transports of the internet families that few programs use, whose modules the kernel would load for a command: DCCP, L2TP, SCTP.
_RARE_PROTOCOLS = (33, 115, 132)
# fallocate(2) without this flag takes up disk that nobody is seen to write; libraries then write instead.
_PUNCH_HOLE = 2
_TYPE_INTO_TERMINAL = 0x5412
_PASTE_INTO_TERMINAL = 0x541C


@cache
def program(*, denies_memory_files: bool = False) -> bytes:
    """The filter, as bubblewrap reads it from a descriptor. RuntimeUnavailable without the system's libseccomp.

    `denies_memory_files`: a file in memory has no place, so no mount says that nothing in it may be executed.
    """
    rules = allowing_rules(NAME)
    for number in numbers_of(" ".join(_REFUSED) + (" memfd_create" if denies_memory_files else "")):
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
    allocates = pyseccomp.Arg(1, pyseccomp.MASKED_EQ, _PUNCH_HOLE, 0)
    rules.add_rule(pyseccomp.ERRNO(errno.EOPNOTSUPP), "fallocate", allocates)
    for request in (_TYPE_INTO_TERMINAL, _PASTE_INTO_TERMINAL):
        rules.add_rule(
            pyseccomp.ERRNO(errno.EPERM), "ioctl", pyseccomp.Arg(1, pyseccomp.MASKED_EQ, 0xFFFFFFFF, request)
        )
    for family in range(_LAST_FAMILY):
        if family not in _FAMILIES:
            rules.add_rule(pyseccomp.ERRNO(errno.EAFNOSUPPORT), "socket", pyseccomp.Arg(0, pyseccomp.EQ, family))
    rules.add_rule(pyseccomp.ERRNO(errno.EAFNOSUPPORT), "socket", pyseccomp.Arg(0, pyseccomp.GE, _LAST_FAMILY))
    for family, protocol in itertools.product((socket.AF_INET, socket.AF_INET6), _RARE_PROTOCOLS):
        named = pyseccomp.Arg(0, pyseccomp.EQ, family)
        asked = pyseccomp.Arg(2, pyseccomp.MASKED_EQ, 0xFFFFFFFF, protocol)
        rules.add_rule(pyseccomp.ERRNO(errno.EPROTONOSUPPORT), "socket", named, asked)
    return compiled(rules)


def _spare_the_agent(rules: "pyseccomp.SyscallFilter") -> None:
    """A command that starved or bounded the agent would brick the box. Only the lower half counts: pids have 32 bits."""
    for name, place in _OF_PROCESS_1.items():
        named = pyseccomp.Arg(place, pyseccomp.MASKED_EQ, 0xFFFFFFFF, 1)
        rules.add_rule(pyseccomp.ERRNO(errno.EPERM), name, named)
    for name, which in _OF_A_USER.items():
        meant = pyseccomp.Arg(0, pyseccomp.MASKED_EQ, 0xFFFFFFFF, which)
        rules.add_rule(pyseccomp.ERRNO(errno.EPERM), name, meant)
