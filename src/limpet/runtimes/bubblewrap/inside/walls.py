"""What the kernel is told before each command of a box with walls (landlock(7)): the agent's own Python is neither to be read nor to
be executed, however a command comes by a way to it, and no process is rewritten through /proc.

The mounts of such a box leave out what is forbidden; this closes what they must leave open for the agent.
"""

from __future__ import annotations

import ctypes
import os
import struct

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446  # the same on every architecture
LEAST = 2  # the version from which on files can be moved between directories at all
_BENEATH = 1
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR, _REFER = 1, 1 << 1, 1 << 2, 1 << 3, 1 << 13
_ALL = _EXECUTE | _WRITE_FILE | _READ_FILE | _READ_DIR | _REFER
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE

_libc = ctypes.CDLL(None, use_errno=True)
_SET_MDWE, _REFUSE_EXEC_GAIN = 65, 1
_standing: list[int] = []  # the descriptor of the one ruleset, where there is one
_no_new_code: list[bool] = []


def version() -> int:
    """Of what this kernel has; 0 where it has none, or was started without."""
    return max(0, int(_libc.syscall(ctypes.c_long(CREATE_RULESET), None, ctypes.c_size_t(0), ctypes.c_uint(1))))


def raise_up(closed: list[str], *, processes_are_closed: bool, makes_no_code: bool) -> None:
    """Decide what commands will be kept from: all below the directories `closed`, all that is mounted nowhere in the box, and, if
    wanted, writing in /proc and making new code in memory (PR_SET_MDWE(2const), where the kernel has it: Linux 6.3). Once, before
    the first command; OSError where the kernel has no Landlock."""
    handled = ctypes.create_string_buffer(struct.pack("=Q", _ALL))
    ruleset = _call(CREATE_RULESET, handled, ctypes.c_size_t(8), ctypes.c_uint(0))
    _allow(ruleset, "/", _READ_DIR | _REFER)
    _allow_below(ruleset, "/", closed, processes_are_closed=processes_are_closed)
    _standing.append(ruleset)
    if makes_no_code:
        _no_new_code.append(True)


def are_up() -> bool:
    return bool(_standing)


def stand_behind() -> None:
    """In a command's process, before it is executed, and for all that it starts. No way back."""
    for ruleset in _standing:
        _call(RESTRICT_SELF, ctypes.c_int(ruleset), ctypes.c_uint(0))
    if _no_new_code:
        _libc.prctl(
            _SET_MDWE, ctypes.c_ulong(_REFUSE_EXEC_GAIN), ctypes.c_ulong(0), ctypes.c_ulong(0), ctypes.c_ulong(0)
        )


def _allow_below(ruleset: int, directory: str, closed: list[str], *, processes_are_closed: bool) -> None:
    for name in os.listdir(directory):
        path = os.path.join(directory, name)
        if path in closed or os.path.islink(path):
            continue
        if any(one.startswith(path + "/") for one in closed):
            _allow_below(ruleset, path, closed, processes_are_closed=processes_are_closed)
        elif path == "/proc" and processes_are_closed:
            _allow(ruleset, path, _READ_FILE | _READ_DIR)
        else:
            _allow(ruleset, path, _ALL if os.path.isdir(path) else _OF_FILES)


def _allow(ruleset: int, path: str, rights: int) -> None:
    place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        rule = ctypes.create_string_buffer(struct.pack("=Qi", rights, place))
        _call(ADD_RULE, ctypes.c_int(ruleset), ctypes.c_int(_BENEATH), rule, ctypes.c_uint(0))
    finally:
        os.close(place)


def _call(number: int, *arguments: object) -> int:
    result = int(_libc.syscall(ctypes.c_long(number), *arguments))
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result
