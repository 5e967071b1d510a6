"""One command: its output, its input, its time and its end. Kept until it is forgotten."""

from __future__ import annotations

import os
import time
from _collections_abc import Callable  # what collections.abc gives, without loading collections

from limpet.runtimes.agent import launch, tree, wire
from limpet.runtimes.agent.splice_channel import CAN_LEAD, SpliceChannel, pending, widen
from limpet.runtimes.agent.spool import BLOCK, Spool, SpooledOutput

EXITED, TIMED_OUT, ABORTED = wire.OUTCOMES

LINGER = 0.1  # seconds that a command waits for late writers once its shell has ended
CAP = 256 << 20  # bytes kept of one command
BEHIND = 4 << 20  # bytes that a reader may fall behind before the writer waits
_LOOK_FOR_ROOM = 0.5  # seconds between looks at a full disk
_READ_SIZE = 1 << 18
_USUAL_PIPE = 1 << 16
_LITTLE = 1 << 14  # bytes that are not worth a way of their own
_NOTES = 16  # that are told, and how many characters of each
_NOTE = 500
_END_OF_INPUT = b"\x04"


class Process:
    """A command that runs or has ended. The agent feeds it with what its descriptors and the clock say."""

    def __init__(
        self,
        number: int,
        exec_id: str,
        started: launch.LaunchedProcess,
        spool: Spool,
        *,
        terminal: bool,
        read_once: bool,
        release: Callable[[int], None],
    ) -> None:
        self.number = number
        self.exec_id = exec_id
        self.pid = started.pid
        self.outputs = started.outputs
        self.stdin = started.stdin
        self.executed = started.executed  # None once that is known
        self.streams = {1: SpooledOutput(spool), 2: SpooledOutput(spool)}
        self.terminal = terminal
        self.read_once = read_once
        self.found_empty: set[int] = set()  # pipes that go straight, when their reader looked last
        self.pours: set[int] = set()  # pipes that were found full
        self._led = 0  # bytes that went straight
        self._release = release  # closes a descriptor
        self.deadline: float | None = None
        # Until then its outputs are not looked at: most commands end before, and then they are read once, at the end.
        self.quiet_until: float | None = None
        self.outcome: tuple[str, int] | None = None
        self.forgotten = False
        self.began = began()
        self.notes: list[str] = []  # what of the box's bounds it ran into
        self.before_killing: Callable[[Process], None] | None = None
        # reader -> stream -> offset of the next byte for it; the connections' readers keep it.
        self.positions: dict[object, dict[int, int]] = {}
        self._input: list[memoryview] = []  # so that what was written is cut off without a copy of the rest
        self._input_ends = False
        self._status: int | None = None
        self._lingers_until: float | None = None
        self._intent = EXITED
        self._doomed: dict[int, str] = {}

    # Output

    def may_read(self) -> bool:
        """Whether its pipes shall be emptied now: not past the cap, not while a reader is too far behind."""
        if self.forgotten:
            return True
        if any(self._behind(position) > BEHIND for position in self.positions.values()):
            return False
        if not all(stored.settle() for stored in self.streams.values()):
            return False
        return self._kept() < CAP or self._make_room()

    def _behind(self, position: dict[int, int]) -> int:
        return sum(stored.end - position[stream] for stream, stored in self.streams.items())

    def _kept(self) -> int:
        return sum(stored.end - stored.start for stored in self.streams.values())

    def _make_room(self) -> bool:
        """Past the cap, drop the oldest output that every reader has been sent; without a reader nothing is dropped."""
        for stream, stored in self.streams.items():
            read = [position[stream] for position in self.positions.values()]
            while read and self._kept() >= CAP and min(read) - stored.start >= BLOCK:
                stored.drop_oldest()
        return self._kept() < CAP

    def take_output(self, descriptor: int, size: int = _READ_SIZE) -> bool:
        """Read once from one of its pipes. False at the end of it: the descriptor is closed then."""
        try:
            data = os.read(descriptor, size)
        except BlockingIOError:
            return True
        except OSError:
            # Reading the master end answers EIO once no process holds the terminal (pty(7)).
            data = b""
        if data:
            if not self.forgotten:
                self.streams[self.outputs[descriptor]].add(data)
                if len(data) >= _USUAL_PIPE and not self.terminal and descriptor not in self.pours:
                    widen(descriptor)
                    self.pours.add(descriptor)
            return True
        del self.outputs[descriptor]
        self.pours.discard(descriptor)
        if self.stdin == descriptor:
            self.stdin = None
        self._release(descriptor)
        return False

    def goes_straight(self, descriptor: int) -> bool:
        """Which way output goes: to the host and nowhere else, from a pipe that is found full again and again, while it runs, if it
        was started to be read once and one reader is there. Then the pipe is emptied only as fast as that one reads. What comes in
        any other case is kept first."""
        return self.read_once and CAN_LEAD and descriptor in self.pours and self.runs and len(self.positions) == 1

    def lead(self, descriptor: int, passage: SpliceChannel, size: int, head: bytes) -> bool:
        """Let `head` and so much of what lies in a pipe that goes straight into a passage. False where it cannot: what was taken
        is kept then."""
        if size < _LITTLE:
            self.pours.discard(descriptor)
        self.outputs[descriptor] = self.outputs.pop(descriptor)  # behind the other, whose turn is next
        stored = self.streams[self.outputs[descriptor]]
        try:
            instead = passage.take(descriptor, size, head)
        except OSError:
            instead = b""
        if instead is None:
            stored.pass_by(size)
            self._led += size
            return True
        self.pours.discard(descriptor)
        stored.add(instead)
        return False

    def _drain(self) -> None:
        """Take what lies in the pipes now, however far a reader is behind: it was written before the end. Little is taken of what
        something goes on writing."""
        for descriptor in list(self.outputs):
            if not self.take_output(descriptor):
                continue
            left = pending(descriptor)
            while left > 0 and self.take_output(descriptor, min(left, _READ_SIZE)):
                left -= _READ_SIZE
            if descriptor in self.outputs:
                self.take_output(descriptor)

    @property
    def kept(self) -> int:
        """All bytes of its output so far that were kept, for a while at least."""
        return sum(stored.end for stored in self.streams.values()) - self._led

    def told_notes(self) -> list[str]:
        """Its notes as the host takes them."""
        return [note[:_NOTE] for note in self.notes[:_NOTES]]

    # Input

    def add_input(self, data: bytes) -> None:
        if self.stdin is not None and not self._input_ends and data:
            self._input.append(memoryview(data))

    def end_input(self) -> None:
        if self._input_ends:
            return
        self._input_ends = True
        if self.terminal:
            self._input.append(memoryview(_END_OF_INPUT))

    def has_input(self) -> bool:
        return self.stdin is not None and bool(self._input)

    def push_input(self) -> None:
        """Write what the command takes now; closes its input when that was all."""
        while self.stdin is not None and self._input:
            try:
                written = os.write(self.stdin, self._input[0][:_READ_SIZE])
            except BlockingIOError:
                return
            except OSError:
                self._input.clear()
                self._input_ends = True
                break
            rest = self._input[0][written:]
            self._input[:1] = [rest] if rest else []
        if self._input_ends and self.stdin is not None and not self.terminal:
            self._release(self.stdin)
            self.stdin = None

    def resize(self, columns: int, rows: int) -> None:
        if self.terminal and self.stdin is not None:
            launch.resize(self.stdin, columns, rows)

    # The end

    @property
    def runs(self) -> bool:
        return self.outcome is None

    @property
    def is_doomed(self) -> bool:
        """Whether it was killed from here."""
        return bool(self._doomed)

    @property
    def doomed(self) -> dict[int, str]:
        """What of it was killed and may still be dying, with its start times."""
        return self._doomed

    def shell_ended(self, status: int) -> None:
        self._status = status
        self.deadline = self.quiet_until = None
        self._lingers_until = time.monotonic() + LINGER

    def kill(self, intent: str) -> None:
        """Kill it and all below it; does nothing once its shell has ended, since what is left then was left on purpose."""
        if self._status is None and self.outcome is None and not self._doomed:
            self.deadline = None
            if self.before_killing is not None:
                self.before_killing(self)
            self._doomed = tree.kill_tree(self.pid)
            # Nothing found: its shell has ended by itself a moment ago and was not waited for yet.
            self._intent = intent if self._doomed else EXITED

    def signal(self, number: int) -> None:
        """Send a signal to its shell and what that runs in the foreground: the process group."""
        if self._status is None and self.outcome is None:
            try:
                os.killpg(self.pid, number)
            except ProcessLookupError:
                tree.send(self.pid, number)

    def next_time(self) -> float | None:
        """When it wants to be looked at again, at the latest."""
        if not self.runs:
            return None
        if self._doomed and self._status is not None:
            return time.monotonic() + 0.002
        times = [at for at in (self.deadline, self._lingers_until, self.quiet_until) if at is not None]
        if any(stored.waits_for_room for stored in self.streams.values()):
            times.append(time.monotonic() + _LOOK_FOR_ROOM)
        return min(times) if times else None

    def tend(self) -> bool:
        """Do what is due. True when it has just ended."""
        if not self.runs:
            return False
        now = time.monotonic()
        if self.quiet_until is not None and now >= self.quiet_until:
            self.quiet_until = None
        if self.deadline is not None and now >= self.deadline:
            self.kill(TIMED_OUT)
        if self._status is None or self._lingers_until is None:
            return False
        if self._doomed:
            self._doomed = tree.still_there(self._doomed)
            if self._doomed and now < self._lingers_until + 5:
                return False
        self._drain()
        if self.outputs and now < self._lingers_until and self._intent == EXITED:
            return False
        self.outcome = (self._intent, _code(self._status))
        for stored in self.streams.values():
            stored.settle()
        return True

    def close_input(self) -> None:
        """Its shell has ended and reads no more input: drop what has not been written."""
        if self.stdin is not None and not self.terminal:
            self._release(self.stdin)
            self.stdin = None
        self._input.clear()

    def forget(self) -> None:
        """Drop its output. Pipes that something still holds are read on and thrown away, so that it can go on writing."""
        self.forgotten = True
        for stored in self.streams.values():
            stored.clear()


def began() -> int:
    """Now, as the kernel counts the starts of processes: in ticks since the machine started."""
    return int(time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK"))


def _code(status: int) -> int:
    """The exit code as shells report it."""
    if os.WIFSIGNALED(status):
        return 128 + os.WTERMSIG(status)
    return os.WEXITSTATUS(status)
