"""Starting a shell without forking the agent: posix_spawn(3) of a tiny program (the trampoline), which execs the shell.

A fork of the agent costs 0.8 ms more than the shell itself, as its page tables are copied. posix_spawn copies nothing (glibc uses
CLONE_VM and CLONE_VFORK), but it cannot make its child a subreaper, and PR_SET_CHILD_SUBREAPER is not inherited by fork, though it is
kept by exec (PR_SET_CHILD_SUBREAPER(2const)). So the program in between sets it for itself and then execs what its arguments name.
The agent is suspended until the trampoline is executed (vfork), so nothing else may live in the box at that time: a process of the same
user could stop the child, and the agent with it.
"""

from __future__ import annotations

import errno
import os
import resource
import struct

from limpet.runtimes.agent.launch import IGNORED, LaunchedProcess, LaunchSettings, end_at_once, within_hard_limit

_DONE = 63  # the descriptor that closes when the shell is executed

# By architecture: its number in an ELF header (e_machine, elf(5)), and the machine code of these calls, in this order:
#   prctl(PR_SET_CHILD_SUBREAPER, 1)         the reason for the program
#   fcntl(_DONE, F_SETFD, FD_CLOEXEC)        dup2 cleared the flag; now exec of the shell, and not of this program, closes _DONE
#   rt_sigaction(n, _NOTHING, 0, 8)          for the signals 32 and 33, which posix_spawn of glibc leaves ignored, and exec keeps that
#   execve(argv[0], argv, envp)              the kernel leaves argc, argv and envp on the stack, in this order (System V ABI)
#   exit(127)                                only if execve failed
# The results of the first three are not checked: if one failed, the shell would start all the same.
_CODE = {
    "x86_64": (
        62,
        "b89d000000 bf24000000 be01000000 0f05"  # mov eax, 157; mov edi, 36; mov esi, 1; syscall
        "b848000000 bf3f000000 be02000000 ba01000000 0f05"  # mov eax, 72; mov edi, 63; mov esi, 2; mov edx, 1; syscall
        "b80d000000 bf20000000 be78004000"  # mov eax, 13; mov edi, 32; mov esi, 0x400078
        "31d2 41ba08000000 0f05"  # xor edx, edx; mov r10d, 8; syscall
        "b80d000000 bf21000000 0f05"  # mov eax, 13; mov edi, 33; syscall
        "488b0c24 488d742408 488b3e"  # mov rcx, [rsp]; lea rsi, [rsp+8]; mov rdi, [rsi]
        "488d54cc10 b83b000000 0f05"  # lea rdx, [rsp+rcx*8+16]; mov eax, 59; syscall
        "b83c000000 bf7f000000 0f05",  # mov eax, 60; mov edi, 127; syscall
    ),
    "aarch64": (
        183,
        "800480d2 210080d2 e81480d2 010000d4"  # mov x0, #36; mov x1, #1; mov x8, #167; svc #0
        "e00780d2 410080d2 220080d2 280380d2 010000d4"  # mov x0, #63; mov x1, #2; mov x2, #1; mov x8, #25; svc #0
        "000480d2 010f80d2 0108a0f2"  # mov x0, #32; mov x1, #0x78; movk x1, #0x40, lsl #16
        "020080d2 030180d2 c81080d2 010000d4"  # mov x2, #0; mov x3, #8; mov x8, #134; svc #0
        "200480d2 010000d4"  # mov x0, #33; svc #0
        "e90340f9 e1230091 200040f9"  # ldr x9, [sp]; add x1, sp, #8; ldr x0, [x1]
        "220c098b 42200091 a81b80d2 010000d4"  # add x2, x1, x9, lsl #3; add x2, x2, #8; mov x8, #221; svc #0
        "e00f80d2 a80b80d2 010000d4",  # mov x0, #127; mov x8, #93; svc #0
    ),
}
_AT = 0x400000  # where the segment is loaded; the code above names addresses in it
_HEADERS = 64 + 56
_NOTHING = bytes(32)  # struct sigaction of zeros (SIG_DFL); at 0x400078, behind the headers and before the code
_FOR_NOW = (errno.EAGAIN, errno.ENOMEM, errno.ESRCH)  # no room, or it was killed: the next time may go well


def program(architecture: str) -> bytes | None:
    """The trampoline as an ELF executable with one segment, readable and executable; None for an architecture without code above."""
    if architecture not in _CODE:
        return None
    machine, text = _CODE[architecture]
    content = _NOTHING + bytes.fromhex(text)
    size = _HEADERS + len(content)
    magic = b"\x7fELF\x02\x01\x01".ljust(16, b"\0")
    entry = _AT + _HEADERS + len(_NOTHING)
    head = struct.pack("<16sHHIQQQIHHHHHH", magic, 2, machine, 1, entry, 64, 0, 0, 64, 56, 1, 0, 0, 0)
    segment = struct.pack("<IIQQQQQQ", 1, 5, 0, _AT, _AT, size, size, 0x10000)
    return head + segment + content


class SpawnTrampoline:
    """The program, ready to be started, as long as this machine lets it."""

    def __init__(self) -> None:
        self._path: str | None = None
        self._is_possible = True

    def start(
        self, argv: list[str], settings: LaunchSettings, *, env: dict[str, str], handed: tuple[int, ...]
    ) -> LaunchedProcess | None:
        """As `launch.start`, in the agent's own directory and without input; None where `launch.start` must. Nothing else may live
        in the box."""
        if not self._is_possible or _DONE in handed:
            return None
        try:
            self._path = self._path or _in_memory()
            return _spawn(self._path, argv, settings, env=env, handed=handed)
        except OSError as error:
            self._is_possible = error.errno in _FOR_NOW
            return None


def _in_memory() -> str:
    """The program in a memfd, as a path in /proc. OSError for an architecture that has none; executing it may be forbidden as well."""
    content = program(os.uname().machine)
    if content is None:
        raise OSError("no step for this architecture")
    descriptor = os.memfd_create("step", os.MFD_CLOEXEC)
    os.write(descriptor, content)
    return f"/proc/self/fd/{descriptor}"


def _spawn(
    path: str, argv: list[str], settings: LaunchSettings, *, env: dict[str, str], handed: tuple[int, ...]
) -> LaunchedProcess:
    pipes = [os.pipe() for _ in range(3)]
    null = os.open("/dev/null", os.O_RDONLY)
    theirs = (null, *(write for _, write in pipes))
    try:
        for descriptor in handed:
            os.set_inheritable(descriptor, True)
        # dup2 makes copies without close-on-exec: 0, 1 and 2 for the shell, and _DONE, on which the trampoline sets the flag again.
        places = [(os.POSIX_SPAWN_DUP2, ours, at) for ours, at in zip(theirs, (0, 1, 2, _DONE))]
        pid = os.posix_spawn(path, argv, env, file_actions=places, setsid=True, setsigmask=(), setsigdef=IGNORED)
        try:
            # posix_spawn has no limits. The shell may run by now, but it has no script yet, so no command runs without them.
            for name, limit in settings.limits.items():
                number = getattr(resource, name)
                resource.prlimit(pid, number, within_hard_limit(number, limit))
        except OSError:
            end_at_once(pid)
            raise
    except OSError:
        for read, _ in pipes:
            os.close(read)
        raise
    finally:
        for descriptor in theirs:
            os.close(descriptor)
    (out, _), (error, _), (done, _) = pipes
    for descriptor in (out, error, done):
        os.set_blocking(descriptor, False)
    return LaunchedProcess(pid, {out: 1, error: 2}, None, done)
