"""What the kernel is told before each command of a box with walls (landlock(7)): the agent's own Python is neither to be read nor to
be executed, however a command comes by a way to it, and no process is rewritten through /proc.

The mounts of such a box leave out what is forbidden; this closes what they must leave open for the agent.
"""

from __future__ import annotations

import os
import struct

from limpet.runtimes.agent.libc import prctl, system_call

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446  # the same on every architecture
LEAST = 2  # the version from which on files can be moved between directories at all
_BENEATH = 1
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR, _REFER = 1, 1 << 1, 1 << 2, 1 << 3, 1 << 13
_ALL = _EXECUTE | _WRITE_FILE | _READ_FILE | _READ_DIR | _REFER
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE

_SET_MDWE, _REFUSE_EXEC_GAIN = 65, 1
_standing: list[int] = []  # the descriptor of the one ruleset, where there is one
_no_new_code: list[bool] = []


def version() -> int:
    """Of what this kernel has; 0 where it has none, or was started without."""
    try:
        return system_call(CREATE_RULESET, None, 0, 1)
    except OSError:
        return 0


def raise_up(closed: list[str], *, processes_are_closed: bool, makes_no_code: bool) -> None:
    """Decide what commands will be kept from: all below the directories `closed`, all that is mounted nowhere in the box, and, if
    wanted, writing in /proc and making new code in memory (PR_SET_MDWE(2const), where the kernel has it: Linux 6.3). Once, before
    the first command; OSError where the kernel has no Landlock."""
    handled = struct.pack("=Q", _ALL)
    ruleset = system_call(CREATE_RULESET, handled, len(handled), 0)
    _allow(ruleset, "/", _READ_DIR | _REFER)
    _allow_below(ruleset, "/", closed, processes_are_closed=processes_are_closed)
    _standing.append(ruleset)
    if makes_no_code:
        _no_new_code.append(True)


def are_up() -> bool:
    return bool(_standing)


def stand_behind() -> None:
    """Restrict this process and all that it starts (landlock_restrict_self(2)); called in a command's child before exec. It cannot be
    undone."""
    for ruleset in _standing:
        system_call(RESTRICT_SELF, ruleset, 0)
    if _no_new_code:
        prctl(_SET_MDWE, _REFUSE_EXEC_GAIN)


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
        system_call(ADD_RULE, ruleset, _BENEATH, struct.pack("=Qi", rights, place), 0)
    finally:
        os.close(place)
