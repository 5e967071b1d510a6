"""Which system calls a box may not make: those to parts of the kernel that no command needs, or that namespaces do not cover.

A deny list, so that programs keep working; the isolation itself is done by the namespaces. Calls of another architecture kill the
process, since call numbers mean something else there. A filter sees the registers of a call and no memory (seccomp(2)): a call whose
flags are in memory (clone3) can only be refused as a whole. bubblewrap loads the filter just before it executes
the agent, with no_new_privs set; every process of the box inherits it, and none can remove it.
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
    # What is opened and executed on shared file systems, by the host and by other boxes: inotify tells less, and is needed.
    "fanotify_init fanotify_mark",
    # Files by handle, past every directory.
    "open_by_handle_at name_to_handle_at",
    # Into other processes: their memory, their descriptors, where these lie in the kernel. What a debugger needs of its own child stays.
    "process_vm_readv process_vm_writev process_madvise pidfd_getfd kcmp",
    # Nodes' memory; the old library loader; segments of 16-bit programs.
    "move_pages migrate_pages lookup_dcookie uselib modify_ldt",
)
# ENOSYS, as a kernel without them says, so that programs go another way: asynchronous input and output, whose contexts are counted for
# the whole host (fs.aio-max-nr); memory that the kernel can neither move nor write out; what of a shared file others have read.
_ABSENT = "io_setup io_submit io_cancel io_destroy io_getevents io_pgetevents memfd_secret cachestat"
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
# Of netlink what programs ask about interfaces, sockets and devices; for the rest the kernel would load modules at a command's wish.
_LAST_OF_NETLINK = 15
_NETLINK = frozenset({0, 4, _LAST_OF_NETLINK})  # NETLINK_ROUTE, NETLINK_SOCK_DIAG, NETLINK_KOBJECT_UEVENT
# Transports of the internet families that few programs use, whose modules the kernel would load for a command: DCCP, L2TP, SCTP.
_RARE_PROTOCOLS = (33, 115, 132)
# fallocate(2) without this flag allocates disk that no counter of written bytes shows; refused, libraries write zeros instead.
_PUNCH_HOLE = 2
# Programs for the kernel's own machine (SO_ATTACH_FILTER, SO_ATTACH_BPF, SO_ATTACH_REUSEPORT_CBPF and _EBPF): what they are compiled to
# is bounded for the whole host by net.core.bpf_jit_limit, and where that is used up no box can be given its filter.
_SOCKET_LEVEL = 1
_PROGRAMS_OF_SOCKETS = (26, 50, 51, 52)
# The same memory by filters of system calls. EINVAL is what a kernel without them says, and what programs go on from.
_SET_SECCOMP, _MODE_FILTER, _SET_MODE_FILTER = 22, 2, 1
# fcntl(2): F_SETLEASE and F_SETDELEG block any process that opens the file, the gateway too, for fs.lease-break-time (45 s); F_NOTIFY
# reports changes of shared directories. EINVAL, as where leases and dnotify are switched off.
_LEASES_AND_NOTICES = (1024, 1040, 1026)
_CORE = 4  # RLIMIT_CORE
# ioctl(2): into a terminal (TIOCSTI, TIOCLINUX); a subvolume or snapshot of btrfs, which no quota of the directory around it bounds.
_REFUSED_REQUESTS = (0x5412, 0x541C, 0x50009401, 0x5000940E, 0x50009417, 0x50009418)
# fallocate by other names (FS_IOC_RESVSP, FS_IOC_RESVSP64, FS_IOC_ZERO_RANGE, XFS_IOC_ALLOCSP, XFS_IOC_ALLOCSP64), and
# FS_IOC_ADD_ENCRYPTION_KEY, whose keys belong to the file system.
_UNSUPPORTED_REQUESTS = (0x40305828, 0x4030582A, 0x40305839, 0x4030580A, 0x40305824, 0xC0506617)
_LOWER_HALF = 0xFFFFFFFF  # arguments that the kernel takes as int: libraries may leave anything in the upper half


@cache
def program(*, denies_memory_files: bool = False) -> bytes:
    """The filter, as bubblewrap reads it from a descriptor. RuntimeUnavailable without the system's libseccomp.

    `denies_memory_files`: a file in memory has no place, so no mount says that nothing in it may be executed.
    """
    rules = allowing_rules(NAME)
    for number in numbers_of(" ".join(_REFUSED) + (" memfd_create" if denies_memory_files else "")):
        rules.add_rule(pyseccomp.ERRNO(errno.EPERM), number)
    for number in numbers_of(_ABSENT):
        rules.add_rule(pyseccomp.ERRNO(errno.ENOSYS), number)
    _spare_the_agent(rules)
    _keep_namespaces(rules)
    _refuse_requests(rules)
    _keep_kernel_programs_out(rules)
    _hold_core_dumps(rules)
    _bound_sockets(rules)
    return compiled(rules)


def _int(place: int, value: int) -> "pyseccomp.Arg":
    return pyseccomp.Arg(place, pyseccomp.MASKED_EQ, _LOWER_HALF, value)


def _spare_the_agent(rules: "pyseccomp.SyscallFilter") -> None:
    """A command that starved or bounded the agent would brick the box. Only the lower half counts: pids have 32 bits."""
    for name, place in _OF_PROCESS_1.items():
        rules.add_rule(pyseccomp.ERRNO(errno.EPERM), name, _int(place, 1))
    for name, which in _OF_A_USER.items():
        rules.add_rule(pyseccomp.ERRNO(errno.EPERM), name, _int(0, which))
    for request in (_ATTACH, _SEIZE):
        rules.add_rule(pyseccomp.ERRNO(errno.EPERM), "ptrace", pyseccomp.Arg(0, pyseccomp.EQ, request))


def _keep_namespaces(rules: "pyseccomp.SyscallFilter") -> None:
    for bit in range(32):
        if _NEW_NAMESPACES & (1 << bit):
            flag = pyseccomp.Arg(0, pyseccomp.MASKED_EQ, 1 << bit, 1 << bit)
            rules.add_rule(pyseccomp.ERRNO(errno.EPERM), "clone", flag)
    # Its flags lie in memory, where a filter cannot look. ENOSYS, not EPERM: libraries then fall back to clone.
    rules.add_rule(pyseccomp.ERRNO(errno.ENOSYS), "clone3")


def _refuse_requests(rules: "pyseccomp.SyscallFilter") -> None:
    """Of calls that do many things, those by which disk is taken up unseen, and what reaches others."""
    allocates = pyseccomp.Arg(1, pyseccomp.MASKED_EQ, _PUNCH_HOLE, 0)
    rules.add_rule(pyseccomp.ERRNO(errno.EOPNOTSUPP), "fallocate", allocates)
    for request in _REFUSED_REQUESTS:
        rules.add_rule(pyseccomp.ERRNO(errno.EPERM), "ioctl", _int(1, request))
    for request in _UNSUPPORTED_REQUESTS:
        rules.add_rule(pyseccomp.ERRNO(errno.EOPNOTSUPP), "ioctl", _int(1, request))
    for request in _LEASES_AND_NOTICES:
        rules.add_rule(pyseccomp.ERRNO(errno.EINVAL), "fcntl", _int(1, request))


def _keep_kernel_programs_out(rules: "pyseccomp.SyscallFilter") -> None:
    for option in _PROGRAMS_OF_SOCKETS:
        rules.add_rule(pyseccomp.ERRNO(errno.EPERM), "setsockopt", _int(1, _SOCKET_LEVEL), _int(2, option))
    rules.add_rule(pyseccomp.ERRNO(errno.EINVAL), "prctl", _int(0, _SET_SECCOMP), _int(1, _MODE_FILTER))
    rules.add_rule(pyseccomp.ERRNO(errno.EINVAL), "seccomp", _int(0, _SET_MODE_FILTER))


def _hold_core_dumps(rules: "pyseccomp.SyscallFilter") -> None:
    """RLIMIT_CORE stays what `box.without_core_dumps` set. Setting it is answered as done: programs that want no dump give up where
    they are refused."""
    done = pyseccomp.ERRNO(0)
    rules.add_rule(done, "setrlimit", _int(0, _CORE))
    sets = pyseccomp.Arg(2, pyseccomp.NE, 0)
    rules.add_rule(done, "prlimit64", _int(1, _CORE), sets, pyseccomp.Arg(3, pyseccomp.EQ, 0))
    # The former limit is wanted too, and nothing here could write it.
    rules.add_rule(pyseccomp.ERRNO(errno.EPERM), "prlimit64", _int(1, _CORE), sets, pyseccomp.Arg(3, pyseccomp.NE, 0))


def _bound_sockets(rules: "pyseccomp.SyscallFilter") -> None:
    for family in range(_LAST_FAMILY):
        if family not in _FAMILIES:
            rules.add_rule(pyseccomp.ERRNO(errno.EAFNOSUPPORT), "socket", pyseccomp.Arg(0, pyseccomp.EQ, family))
    rules.add_rule(pyseccomp.ERRNO(errno.EAFNOSUPPORT), "socket", pyseccomp.Arg(0, pyseccomp.GE, _LAST_FAMILY))
    unsupported = pyseccomp.ERRNO(errno.EPROTONOSUPPORT)
    for family, protocol in itertools.product((socket.AF_INET, socket.AF_INET6), _RARE_PROTOCOLS):
        rules.add_rule(unsupported, "socket", pyseccomp.Arg(0, pyseccomp.EQ, family), _int(2, protocol))
    netlink = pyseccomp.Arg(0, pyseccomp.EQ, socket.AF_NETLINK)
    rules.add_rule(unsupported, "socket", netlink, pyseccomp.Arg(2, pyseccomp.GT, _LAST_OF_NETLINK))
    for protocol in set(range(_LAST_OF_NETLINK)) - _NETLINK:
        rules.add_rule(unsupported, "socket", netlink, pyseccomp.Arg(2, pyseccomp.EQ, protocol))
