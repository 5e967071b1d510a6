"""A script longer than the kernel's limit for one argument, for a real `bash -c`.

The kernel takes no argument of more than 128 KiB (MAX_ARG_STRLEN, execve(2)), but about 2 MiB in all, and it places the arguments and
then the variables side by side in the new program's memory. So:

1. bash is executed with room for the script: a filler as the last argument, and fillers as the first variables, which continue it.
2. Before its script bash reads the file that BASH_ENV names. That is a pipe of ours, so bash blocks there.
3. The script is written over the room through /proc/PID/mem, also over the NULs between the pieces, which makes it one argument.
4. The pipe tells bash to unset the variables, and to do what it would have done with a BASH_ENV or a POSIXLY_CORRECT of the command's own;
   then it runs what is, to it, its one argument: messages, line numbers, `$0` and traps are those of `bash -c`.

Step 3 must not begin before bash reads the pipe: until then it copies its arguments, and one that grows meanwhile would overrun the
copy. If any step fails, the guard in the room makes the shell kill itself and nothing of the script has run.
"""

from __future__ import annotations

import fcntl
import os
import select
import sys
import time

LONGEST_ARGUMENT = 128 * 1024 - 1
_PIECE = 120 * 1024
_GUARD = b"kill -9 $$ #"  # fail closed: a shell that runs before its room was filled kills itself
_VARIABLE = "LIMPET_ROOM_"
_PATIENCE = 5.0  # seconds for exec, and for bash to count its arguments
_A_LITTLE = 0.0005
_UNREAD = 0x541B  # FIONREAD: how many bytes wait in a pipe (ioctl_list(2))
_ITSELF = b"BASH_EXECUTION_STRING"


_POSIX = "POSIXLY_CORRECT"  # with it bash reads no BASH_ENV: it is set once ours was read, and then means the same


def is_long(script: bytes) -> bool:
    """Whether the script needs room."""
    return len(script) > LONGEST_ARGUMENT


_EXPANDED = frozenset('$`"\\')  # in the name of a file that BASH_ENV gives: what bash would have to work out first


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


class ScriptHandover:
    """What to execute bash with, so that `give` can hand it the script. The descriptor `orders_end` goes with it, under its number."""

    def __init__(self, name: str, script: bytes, env: dict[str, str]) -> None:
        self._script = script
        self.orders_end, self._orders = os.pipe()
        first = _GUARD.ljust(_PIECE, b"#").decode()
        count = len(script) // _PIECE
        self._names = [f"{_VARIABLE}{number}" for number in range(count)]
        rooms = dict.fromkeys(self._names, "#" * _PIECE)
        self.argv = [name, "-c", first]
        # The order is the one in which they lie in memory: the rooms follow the argument.
        self._own = env
        given = {name: value for name, value in env.items() if name != _POSIX}
        self.env = {**rooms, **given, "BASH_ENV": f"/dev/fd/{self.orders_end}"}
        pieces = [first, *(f"{each}={value}" for each, value in rooms.items())]
        self._empty = "\0".join(pieces).encode() + b"\0"
        self._before = len(os.fsencode(name)) + len("\0-c\0")

    def give(self, pid: int, executed: int) -> bool:
        """Hand the script to the shell of that pid; `executed` tells by its end that exec was reached. False where the shell is not as
        expected: then it ends itself by SIGKILL, and nothing ran. Blocks for some milliseconds."""
        until = time.monotonic() + _PATIENCE
        try:
            if not select.select([executed], [], [], _PATIENCE)[0] or not self._fill(pid, until):
                return False
            self._tell(self._orders_of().encode("utf-8", "surrogateescape"), until)
        except OSError:
            return False
        finally:
            self.close()
        return True

    def _orders_of(self) -> str:
        """What bash does before the script, and leaves no trace of. It noted what it runs when that was not there yet."""
        words = [f"exec {self.orders_end}<&-", f"unset BASH_ENV {_ITSELF.decode()} {' '.join(self._names)}"]
        if _ITSELF in self._script:
            words.append(f"{_ITSELF.decode()}={_quoted(self._script.decode('utf-8', 'surrogateescape'))}")
        if (starts := self._own.get("BASH_ENV")) is not None:
            words.append(f"export BASH_ENV={_quoted(starts)}")
        if _POSIX in self._own:
            words.append(f"export {_POSIX}={_quoted(self._own[_POSIX])}")
        elif starts and os.path.isabs(starts) and not set(starts) & _EXPANDED:
            words.append(f"[[ ! -e $BASH_ENV ]] || . {_quoted(starts)}")
        return "\n".join([*words, "SECONDS=0", f": {self.argv[0]}\n"])

    def _tell(self, orders: bytes, until: float) -> None:
        """All of it, as bash takes it. OSError where it does not in time."""
        os.set_blocking(self._orders, False)
        while orders:
            if not select.select([], [self._orders], [], max(0.0, until - time.monotonic()))[1]:
                raise TimeoutError
            orders = orders[os.write(self._orders, orders) :]

    def close(self) -> None:
        """Close the pipe; a shell whose room was not filled then kills itself."""
        for descriptor in (self.orders_end, self._orders):
            if descriptor >= 0:
                os.close(descriptor)
        self.orders_end = self._orders = -1

    def _fill(self, pid: int, until: float) -> bool:
        os.write(self._orders, b"\n")
        begins = self._begins(pid, until)
        if begins is None or not self._is_read(until):
            return False
        memory = os.open(f"/proc/{pid}/mem", os.O_RDWR)
        try:
            at = begins + self._before
            if os.pread(memory, len(self._empty), at) != self._empty:
                return False
            text = self._script.ljust(len(self._empty), b"\0")
            return os.pwrite(memory, text, at) == len(text)
        finally:
            os.close(memory)

    def _is_read(self, until: float) -> bool:
        """Whether bash has begun to read the pipe: FIONREAD of it falls to 0 once bash has taken the newline that `_fill` wrote."""
        while time.monotonic() < until:
            if not int.from_bytes(fcntl.ioctl(self._orders, _UNREAD, bytes(4)), sys.byteorder):
                return True
            time.sleep(_A_LITTLE)
        return False

    def _begins(self, pid: int, until: float) -> int | None:
        """Where its arguments begin (arg_start, proc_pid_stat(5)); None where it is dead.

        exec closes our descriptor before the kernel has set arg_start to env_end: until these are there, look again."""
        while time.monotonic() < until:
            with open(f"/proc/{pid}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
            begins, _, variables, ends = map(int, fields[45:49])
            if fields[0] in (b"Z", b"X"):
                return None
            if ends > variables:
                return begins
            time.sleep(_A_LITTLE)
        return None
