"""What the kernel is told before each command of a sandbox with walls: Landlock (landlock(7)) and a filter of calls (seccomp(2)).

In a box of its own (`raise_up`) the mounts leave out what is forbidden, and this closes what they must leave open for the agent: its
Python is neither to be read nor to be executed, however a command comes by a way to it, and no process is rewritten through /proc.
Elsewhere (`raise_layers`) the runtime has written the rules.
"""

from __future__ import annotations

import os
import struct

from limpet.runtimes.agent.libc import Memory, prctl, system_call

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446  # the same on every architecture
LEAST = 2  # the version from which on files can be moved between directories at all
_BENEATH = 1
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR, _REFER = 1, 1 << 1, 1 << 2, 1 << 3, 1 << 13
_ALL = _EXECUTE | _WRITE_FILE | _READ_FILE | _READ_DIR | _REFER
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE
_TRUNCATE, _DEVICES = 1 << 14, 1 << 15  # rights for one file as well, which `raise_layers` may be given

_SET_MDWE, _REFUSE_EXEC_GAIN = 65, 1
_SET_NO_NEW_PRIVILEGES, _SET_SECCOMP, _WITH_FILTER = 38, 22, 2
_standing: list[int] = []  # the descriptors of rulesets, in the order in which they are entered
_filters: list[tuple[Memory, int]] = []  # with the number of instructions, 8 bytes each
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


def raise_layers(layers: list[tuple[int, list[tuple[str, int]]]], program: bytes) -> None:
    """Decide what commands will be kept from: of each layer's rights, all that none of its rules (path and rights) allows; and of calls
    what `program`, a filter in the kernel's form, refuses. A path that does not exist allows nothing. Once, before the first command."""
    for handled, rules in layers:
        ruleset = system_call(CREATE_RULESET, struct.pack("=Q", handled), 8, 0)
        for path, rights in rules:
            if not os.path.isdir(path):
                rights &= _OF_FILES | _TRUNCATE | _DEVICES
            if rights & handled:
                _allow(ruleset, path, rights & handled)
        _standing.append(ruleset)
    if program:
        _filters.append((Memory(program), len(program) // 8))


def are_up() -> bool:
    return bool(_standing or _filters)


def stand_behind() -> None:
    """Restrict this process and all that it starts (landlock_restrict_self(2), seccomp(2)); called in a command's child before exec. It
    cannot be undone. OSError where the kernel refuses: then the command must not run."""
    # The kernel asks for it (unless it is root), since a set-user-id program behind walls would not expect them.
    if are_up() and prctl(_SET_NO_NEW_PRIVILEGES, 1) != 0:
        raise OSError("the walls of this sandbox cannot be built")
    for ruleset in _standing:
        system_call(RESTRICT_SELF, ruleset, 0)
    for program, length in _filters:
        # struct sock_fprog: how many instructions, and where they are. The last step, since it may refuse the ones before.
        if prctl(_SET_SECCOMP, _WITH_FILTER, struct.pack("HxxxxxxP", length, program.address)) != 0:
            raise OSError("the walls of this sandbox cannot be built")
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
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # it is not there, or not any more, so there is nothing to allow
    try:
        system_call(ADD_RULE, ruleset, _BENEATH, struct.pack("=Qi", rights, place), 0)
    finally:
        os.close(place)
