"""What the box's bounds mean for its commands: which command ran into one, and what goes first where there is no room.

What goes first is what was begun last: of commands the newest, of processes that commands left running those of the newest.
"""

from __future__ import annotations

import os
import sys
import time

from limpet.runtimes.agent import launch, sysv_ipc, tree
from limpet.runtimes.agent.process import EXITED, Process
from limpet.runtimes.agent.wire import HALTED_AT_MOST

KILLED_BY = 9
_SIGCONT = 18
_TOO_LARGE = 25  # SIGXFSZ
_LEFT_EARLIER, _LEFT_LAST = 700, 900  # commands have 500
_WRITES = 1 << 16  # bytes between two looks from which on something counts as writing
_FRESH = 5.0  # seconds for which a look at what was written can be compared with
_REAPED_WITHIN = 1.0
_STOPPED_WITHIN = 1.0
_ROOM = 8  # processes that a new command may need
_OUR_OWN = 2  # bubblewrap's process and the agent
_TURNS = 8
_REMEMBERED = 200  # commands whose beginnings are known


class BoxBounds:
    """`memory` and `processes` are descriptors of the box's counters of killed and of living processes, where it has any."""

    def __init__(self, sizes: dict[str, int], *, memory: int | None, processes: int | None) -> None:
        self._sizes = sizes
        self._memory = memory
        self._processes = processes
        self._kills = self._memory_kills()
        self._unsaid: list[str] = []
        self._written: dict[tuple[str, int], tuple[int, int, int]] = {}
        self._looked: float | None = None
        self._writers: list[tuple[str, int]] = []  # between the two last looks
        self._begun: list[int] = []  # when commands began, the newest last
        self._left: set[int] = set()  # what was left running, at the last look
        self._halted: dict[int, str] = {}  # what `halt` has stopped, with its start times
        self._halted_before = sys.maxsize  # the number of the first command that began while the box was halted
        self.halted_until: float | None = None

    def tell(self, sentence: str, running: list[Process]) -> None:
        """To every command that runs, or else to the next one."""
        for process in running:
            if sentence not in process.notes:
                process.notes.append(sentence)
        if not running and sentence not in self._unsaid:
            self._unsaid.append(sentence)

    # Memory: the kernel chooses and kills, here it is only noticed.

    def begins(self, process: Process, others: list[Process]) -> None:
        """Look at the counters before the start of a new command is reported."""
        self.look(others)
        self._begun = [*self._begun[-_REMEMBERED:], process.began]
        process.notes += self._unsaid
        self._unsaid = []

    def ends(self, process: Process, others: list[Process]) -> None:
        """Look at the counters before the end of a command is reported; `others` still run."""
        self.look([process, *others])
        if self._memory_note in process.notes and process.outcome == (EXITED, 128 + KILLED_BY):
            process.notes.remove(self._memory_note)
            process.notes.append(f"killed: the box's memory limit of {self._sizes['memory_mb']} MiB was reached.")
        if (largest := self._sizes.get("file_size")) is not None and process.outcome == (EXITED, 128 + _TOO_LARGE):
            process.notes.append(f"killed: a file reached the size limit of {_megabytes(largest)}.")

    def rank_survivors(self, spared: set[int]) -> None:
        """When memory runs out, what the newest command left running goes before what earlier ones left, and that before commands
        that run; as far as the kernel, which also asks for the size, lets itself be told."""
        if self._processes is not None and self.living() == 0:
            self._left = set()
            return
        children = (_children() or set()) - spared
        new = children - self._left
        if new:
            for pids, score in ((children & self._left, _LEFT_EARLIER), (new, _LEFT_LAST)):
                for pid in tree.below(*pids):
                    launch.set_oom_score(pid, score)
        self._left = children

    def look(self, running: list[Process]) -> None:
        """Tell of processes that the kernel killed since the last look."""
        kills = self._memory_kills()
        if kills > self._kills:
            self._kills = kills
            self.tell(self._memory_note, running)
            if freed := sysv_ipc.remove_what_fills(self._sizes.get("memory_mb", 0)):
                self.tell(
                    f"what System V keeps without a process was removed, since memory had run out: {_megabytes(freed)} of"
                    " shared memory, message queues and semaphores.",
                    running,
                )

    @property
    def _memory_note(self) -> str:
        size = self._sizes.get("memory_mb")
        return f"the box's memory limit of {size} MiB was reached, and a process of the box was killed."

    def _memory_kills(self) -> int:
        if self._memory is not None:
            for line in os.pread(self._memory, 4096, 0).split(b"\n"):
                if line.startswith(b"oom_kill "):
                    return int(line[9:])
        return 0

    # Processes

    def is_short_of_processes(self) -> bool:
        most = self._sizes.get("processes")
        if most is None:
            return False
        return most - self.living() < min(_ROOM, most // 4)

    def living(self) -> int:
        """How many processes there are beside the agent; zombies count until they are reaped."""
        if self._processes is not None:
            return int(os.pread(self._processes, 32, 0)) - _OUR_OWN
        return sum(name.isdigit() for name in os.listdir("/proc")) - 1

    def is_alone(self) -> bool:
        """Whether nothing lives beside the agent. It adopts orphans, so what lives hangs below one of its children."""
        if self._processes is not None:
            return self.living() == 0
        return _children() == set()

    def make_room(self, spared: set[int]) -> None:
        """Where processes are short, kill what commands left running: first what the newest one left, then that of the one
        before it, and so on."""
        killed = 0
        for turn in range(_TURNS):
            if not self.is_short_of_processes() or not tree.left_behind(spared):
                break
            # In the last turn all of them: something may be replacing what was killed.
            killed += self.end_newest_survivors(spared, every=turn == _TURNS - 1)
        if killed:
            self._unsaid.append(
                f"the box's process limit of {self._sizes['processes']} was reached: {killed} processes that earlier"
                " commands had left running were killed."
            )

    def end_newest_survivors(self, spared: set[int], *, every: bool = False) -> int:
        """Kill what the newest command left running of all that left something, or everything. Returns how many processes."""
        newest = max(map(int, tree.survivors(spared).values()), default=0)
        since = 0 if every else max((at for at in self._begun if at <= newest), default=0)
        return self._kill_survivors(spared, since)

    def _kill_survivors(self, spared: set[int], since: int) -> int:
        doomed = tree.kill_all(lambda: {pid: at for pid, at in tree.survivors(spared).items() if int(at) >= since})
        until = time.monotonic() + _REAPED_WITHIN
        left = set(doomed)
        while left and time.monotonic() < until:
            left = {pid for pid in left if not _is_reaped(pid)}
            time.sleep(0.001)
        return len(doomed)

    def say_if_short(self, process: Process) -> None:
        """Before a command is killed: whether there were no more processes to be had."""
        if self.is_short_of_processes():
            self.tell(f"the box's process limit of {self._sizes['processes']} was reached.", [process])

    # Disk: the host measures, and says when something that writes has to go.

    def stop_writers(self, reason: str, running: list[Process], spared: set[int], *, every: bool) -> int | None:
        """Without a reason nothing is killed: what was written until now is noted. Returns None where something has written since the
        note before; 0 where nothing has. With a reason kill the newest of what wrote between the two last notes (or every one): a
        command with all below it, or a process that one left running. Returns how many.

        Between the notes and the killing the host counts: what removes very many names writes too, to directories and their journal.
        """
        running, dying = _apart(running)
        commands = {process.number: process for process in running}
        survivors = {pid: at for pid, at in tree.left_behind(spared).items() if dying.get(pid) != at}
        if not reason:
            self._note_what_is_written(commands, survivors)
            return None if self._writers else 0
        writers, self._writers = self._writers, []
        there = [key for key in writers if (commands if key[0] == "command" else survivors).get(key[1])]
        killed = 0
        for kind, key in self._newest_first(there, commands, survivors):
            if kind == "command":
                self.tell(f"killed: {reason}.", [commands[key]])
                commands[key].kill(EXITED)
            else:
                tree.kill_tree(key)
                self.tell(f"{reason}: a process that an earlier command had left running was killed.", running)
            killed += 1
            if not every:
                break
        return killed

    def _note_what_is_written(self, commands: dict[int, Process], survivors: dict[int, str]) -> None:
        before, looked = self._written, self._looked
        written = tree.written({*survivors, *(process.pid for process in commands.values())})
        self._written = {("survivor", pid): written[pid] for pid in survivors}
        for number, process in commands.items():
            disk, anything, hidden = written[process.pid]
            self._written["command", number] = (disk + process.kept, anything, hidden)
        self._looked = time.monotonic()
        is_fresh = looked is not None and self._looked - looked <= _FRESH
        self._writers = self._grown(before) if is_fresh else []

    def end_commands(self, reason: str, running: list[Process], spared: set[int]) -> int:
        """Kill all commands and all that earlier ones left running, where it is unknown which of them writes. Returns how many. What began
        while the box was halted has written nothing of what was counted, and is spared."""
        running, dying = _apart([process for process in running if process.number < self._halted_before])
        left = [pid for pid, at in tree.left_behind(spared).items() if dying.get(pid) != at]
        for process in running:
            self.tell(f"killed: {reason}.", [process])
            process.kill(EXITED)
        doomed = tree.kill_all(lambda: tree.survivors(spared))
        if left:
            self.tell(f"{reason}: what earlier commands had left running was killed.", running)
        return len(running) + len(doomed)

    def halt(self, upcoming: int) -> None:
        """Stop whatever runs, so that nothing of the box changes; what a command itself had stopped stays so afterwards. The next command
        that begins will have the number `upcoming`."""
        self._halted_before = upcoming
        stopped_before = {pid for pid in tree.survivors(set()) if tree.is_stopped(pid)}
        stopped = tree.stop_all(lambda: tree.survivors(set()))
        self._halted |= {pid: at for pid, at in stopped.items() if pid not in stopped_before}
        # A signal is on its way until its process has been given a processor.
        until = time.monotonic() + _STOPPED_WITHIN
        while any(map(tree.is_about_to_run, stopped)) and time.monotonic() < until:
            time.sleep(0.001)
        self.halted_until = time.monotonic() + HALTED_AT_MOST

    def resume(self) -> None:
        for pid in tree.still_there(self._halted):
            tree.send(pid, _SIGCONT)
        self._halted = {}
        self._halted_before = sys.maxsize
        self.halted_until = None

    def _grown(self, before: dict[tuple[str, int], tuple[int, int, int]]) -> list[tuple[str, int]]:
        """The commands and survivors that wrote since the last look: to the disk; where none did, to anything (the kernel does not count
        writes to a file system in memory as writes to a disk); where none did that either, those whose counters cannot be read."""
        nothing = (0, 0, 0)
        for measure in (0, 1):
            grew = [
                key
                for key, amounts in self._written.items()
                if amounts[measure] - before.get(key, nothing)[measure] >= _WRITES
            ]
            if grew:
                return grew
        return [key for key, amounts in self._written.items() if amounts[2] and before.get(key, nothing)[2]]

    def _newest_first(
        self, grown: list[tuple[str, int]], commands: dict[int, Process], survivors: dict[int, str]
    ) -> list[tuple[str, int]]:
        def began(key: tuple[str, int]) -> tuple[int, int]:
            return commands[key[1]].began if key[0] == "command" else int(survivors[key[1]]), key[1]

        return sorted(grown, key=began, reverse=True)


def _apart(running: list[Process]) -> tuple[list[Process], dict[int, str]]:
    """Those that were not killed yet; and the processes of the others that are dying, which look as if they had been left running."""
    dying = {pid: at for process in running for pid, at in process.doomed.items()}
    return [process for process in running if not process.is_doomed], dying


def _megabytes(size: int) -> str:
    return f"{size >> 20} MiB" if size >= 1 << 20 else f"{size} bytes"


def _children() -> set[int] | None:
    """Of this process, the dead ones too (proc_pid_task_children(5)); None on a kernel without that file."""
    try:
        with open(f"/proc/self/task/{os.getpid()}/children", "rb", buffering=0) as file:
            return set(map(int, file.read().split()))
    except OSError:
        return None


def _is_reaped(pid: int) -> bool:
    """Wait for it if it has died: its parent may have died before it and left it to this process."""
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return not os.path.exists(f"/proc/{pid}")
