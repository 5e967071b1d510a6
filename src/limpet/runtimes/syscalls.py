"""Filters of system calls as the kernel wants them (seccomp(2)), where libseccomp leaves something out. Pure, but for its library."""

import errno
import os
import struct
from collections.abc import Iterator

from limpet.core.errors import RuntimeUnavailable

try:
    import pyseccomp  # type: ignore[import-untyped]  # 0.1.2 has annotations but no marker
except RuntimeError:  # the package is there, the system's library is not
    pyseccomp = None

__all__ = ["allowing_rules", "compiled", "numbers_of", "pyseccomp"]

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
    "memfd_secret": 447,
    "cachestat": 451,
    "fchmodat2": 452,
    "setxattrat": 463,
    "removexattrat": 466,
    "open_tree_attr": 467,
    "file_setattr": 469,
}
# Calls younger than Linux 6.17 have not been reviewed, so they are answered with ENOSYS; programs handle that and use older calls.
_LAST_KNOWN = 469
_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
# Classic BPF (linux/filter.h): code, jumps when true and when false, value; seccomp(2).
_LOAD, _EQUAL, _GREATER, _AT_LEAST, _RETURN = 0x20, 0x15, 0x25, 0x35, 0x06
_ANSWER_WITH = 0x00050000  # SECCOMP_RET_ERRNO
_OTHER_NUMBERS = 0x40000000


def allowing_rules(runtime: str) -> "pyseccomp.SyscallFilter":
    """A filter that lets everything pass but calls of another architecture. RuntimeUnavailable without the system's libseccomp."""
    if pyseccomp is None:
        raise RuntimeUnavailable(runtime, "the library libseccomp.so.2 is missing.", "apt-get install libseccomp2")
    rules = pyseccomp.SyscallFilter(pyseccomp.ALLOW)
    rules.set_attr(pyseccomp.Attr.ACT_BADARCH, pyseccomp.KILL_PROCESS)
    return rules


def numbers_of(names: str) -> Iterator[int]:
    """Of the calls named there, those that this architecture has."""
    for name in names.split():
        number = pyseccomp.resolve_syscall(pyseccomp.Arch.NATIVE, name)
        number = number if number >= 0 else _NUMBERS.get(name, -1)
        if number >= 0:
            yield number


def compiled(rules: "pyseccomp.SyscallFilter") -> bytes:
    """The filter, and before all its rules: a call of this architecture behind the last known one, and of no second set of numbers
    (x32), answers ENOSYS; everything else goes on. libseccomp has no rule for a range."""
    architecture = _ARCHITECTURES.get(os.uname().machine)
    if architecture is None:
        return _exported(rules)
    program = (
        (_LOAD, 0, 0, 4),  # the architecture
        (_EQUAL, 0, 4, architecture),
        (_LOAD, 0, 0, 0),  # the call's number
        (_AT_LEAST, 2, 0, _OTHER_NUMBERS),
        (_GREATER, 0, 1, _LAST_KNOWN),
        (_RETURN, 0, 0, _ANSWER_WITH | errno.ENOSYS),
    )
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in program) + _exported(rules)


def _exported(rules: "pyseccomp.SyscallFilter") -> bytes:
    descriptor = os.memfd_create("seccomp", os.MFD_CLOEXEC)
    with open(descriptor, "w+b") as file:
        rules.export_bpf(file)
        file.seek(0)
        return file.read()
