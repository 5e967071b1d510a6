"""What the host may ask of a box, and the commands that it asked for."""

from __future__ import annotations

import os
import time
from _collections_abc import Callable  # what collections.abc gives, without loading collections

from limpet.runtimes.agent import launch, long_script, wire
from limpet.runtimes.agent.bounds import KILLED_BY, BoxBounds
from limpet.runtimes.agent.connection import MOMENT, Connection, OutputReader
from limpet.runtimes.agent.hostile_survivors import HostileSurvivors, resume
from limpet.runtimes.agent.process import ABORTED, Process
from limpet.runtimes.agent.spool import Spool
from limpet.runtimes.agent.warm_shell import WarmShells


class Requests:
    """The box's commands by number and by exec id, and an answer to each frame."""

    def __init__(
        self,
        boot_id: object,
        settings: launch.LaunchSettings,
        spool: Spool,
        bounds: BoxBounds,
        release: Callable[[int], None],
    ) -> None:
        self.ended = False
        self._boot_id = boot_id
        self._settings = settings
        self.stock = WarmShells(settings, release)
        self._spool = spool
        self._bounds = bounds
        self._siege = HostileSurvivors(bounds)
        self._release = release
        self._processes: dict[int, Process] = {}
        self._numbers: dict[str, int] = {}
        self._next = 1
        self._unread_input: list[tuple[Connection, int, Process]] = []

    def end(self) -> None:
        self.ended = True

    @property
    def halted_until(self) -> float | None:
        """When what the host has halted goes on by itself; None where nothing is."""
        return self._bounds.halted_until

    def resume(self) -> None:
        self._bounds.resume()

    def active(self) -> list[Process]:
        """Those that run, and those whose pipes something still holds."""
        return [process for process in self._processes.values() if process.runs or process.outputs]

    def running(self) -> list[Process]:
        return [process for process in self._processes.values() if process.runs]

    def is_alone(self) -> bool:
        """Whether nothing lives in the box beside the agent, not even what one of its children may just have started."""
        return self._bounds.is_alone()

    def _shells(self) -> set[int]:
        """The processes whose trees are commands that run, or that will."""
        return {process.pid for process in self.running()} | self.stock.pids()

    def answer(self, connection: Connection, kind: int, number: int, payload: bytes) -> Process | None:
        """Do what the frame asks. Returns the process that it started, if it did. BadFrame for what cannot be asked."""
        if kind == wire.START:
            return self._start(connection, number, payload)
        if kind == wire.WRITE:
            self._write(connection, number, payload)
        elif kind == wire.GRANT:
            if number in connection.readers:
                connection.readers[number].grant(wire.NUMBER.unpack(payload)[0])
        elif kind == wire.UNREAD:
            if number in connection.readers:
                connection.readers.pop(number).close()
        elif kind == wire.FORGET:
            self._forget(number)
        else:
            self._simple(connection, kind, number, wire.decode(payload))
        return None

    def _simple(self, connection: Connection, kind: int, number: int, asked: dict[str, object]) -> None:
        if kind == wire.HELLO:
            connection.send(wire.REPLY, number, wire.encode({"version": wire.VERSION, "boot_id": self._boot_id}))
        elif kind == wire.FIND:
            found = self._numbers.get(str(asked["exec_id"]))
            if found is None:
                self._refuse(connection, number, "unknown")
            else:
                self._describe(connection, number, self._processes[found])
        elif kind == wire.TOUCH:
            connection.send(wire.REPLY, number, wire.encode({}))
        elif kind == wire.STOP_WRITERS:
            killed = self._bounds.stop_writers(
                str(asked["reason"]), self.running(), self._shells(), every=bool(asked["every"])
            )
            connection.send(wire.REPLY, number, wire.encode({"killed": killed}))
        elif kind in (wire.HALT, wire.RESUME):
            if kind == wire.HALT:
                self._bounds.halt(self._next)
            else:
                self._bounds.resume()
            connection.send(wire.REPLY, number, wire.encode({}))
        elif kind == wire.END_COMMANDS:
            killed = self._bounds.end_commands(str(asked["reason"]), self.running(), self._shells())
            connection.send(wire.REPLY, number, wire.encode({"killed": killed}))
        elif kind == wire.END:
            self.end()
        else:
            self._about_process(connection, kind, number, asked)

    def _about_process(self, connection: Connection, kind: int, number: int, asked: dict[str, object]) -> None:
        process = self._processes.get(_int(asked["process"]))
        if process is None or process.forgotten:
            self._refuse(connection, number, "unknown")
            return
        if kind == wire.READ:
            position = {1: _int(asked["stdout"]), 2: _int(asked["stderr"])}
            if any(position[stream] < stored.start for stream, stored in process.streams.items()):
                self._refuse(connection, number, "dropped")
                return
            reader = _int(asked["reader"])
            connection.readers[reader] = OutputReader(reader, process, position)
        elif kind == wire.CLOSE_STDIN:
            process.end_input()
            process.push_input()
        elif kind == wire.RESIZE:
            process.resize(_int(asked["columns"]), _int(asked["rows"]))
        elif kind == wire.SIGNAL:
            process.signal(_int(asked["number"]))
        elif kind == wire.ABORT:
            process.kill(ABORTED)
        else:
            raise wire.BadFrame(f"a request of kind {kind}")
        connection.send(wire.REPLY, number, wire.encode({}))

    def _start(self, connection: Connection, number: int, payload: bytes) -> Process | None:
        size = wire.NUMBER.unpack_from(payload)[0]
        asked = wire.unpack(payload[4 : 4 + size])
        exec_id = str(asked["exec_id"])
        if exec_id in self._numbers:
            self._describe(connection, number, self._processes[self._numbers[exec_id]])
            return None
        usual = self._settings.directory
        cwd = str(asked["cwd"] or usual)
        if not _can_enter(cwd, is_usual=cwd == usual):
            self._refuse(connection, number, "cwd")
            return None
        try:
            if cwd != usual:
                cwd = os.path.normpath(os.path.join(usual, cwd))
            process = self._launch(asked, exec_id, cwd, payload[4 + size :])
        except OSError as error:
            self._refuse(connection, number, "room", reason=str(error.strerror))
            return None
        connection.has_started(number, OutputReader(_int(asked["reader"]), process, {1: 0, 2: 0}, ahead=True))
        return process

    def _launch(self, asked: dict[str, object], exec_id: str, cwd: str, stdin: bytes) -> Process:
        if not self.stock.is_all:
            if self._bounds.is_short_of_processes():
                self._bounds.make_room(self._shells())
            self._lift_siege()
        keeps_open = bool(asked["keeps_stdin_open"])
        terminal = asked["terminal"]
        started = self._execute(asked, cwd, wants_stdin=keeps_open or bool(stdin))
        process = Process(
            self._next,
            exec_id,
            started,
            self._spool,
            terminal=terminal is not None,
            read_once=asked.get("read_once") is True,
            release=self._release,
        )
        self._next += 1
        process.before_killing = self._bounds.say_if_short
        self._bounds.begins(process, self.running())
        self._processes[process.number] = process
        self._numbers[exec_id] = process.number
        timeout = asked["timeout"]
        if isinstance(timeout, (int, float)):
            process.deadline = time.monotonic() + timeout
        process.quiet_until = time.monotonic() + MOMENT
        process.add_input(stdin)
        if not keeps_open:
            process.end_input()
        process.push_input()
        return process

    def _execute(self, asked: dict[str, object], cwd: str, *, wants_stdin: bool) -> launch.LaunchedProcess:
        """In the shell that waits, where that is the same; else afresh."""
        script = asked["script"]
        argv = asked["argv"] if script is None else [self._settings.shell, "-c", script]
        added = asked["env"]
        terminal = asked["terminal"]
        assert isinstance(argv, list)
        assert isinstance(added, dict)
        if isinstance(script, str) and terminal is None:
            given = self.stock.take(script, cwd=cwd, env=added, wants_stdin=wants_stdin)
            if given is not None:
                return given
        self.stock.empty()
        env = {**self._settings.env, "PWD": cwd, **added}
        size = None
        if terminal is not None:
            size = (_int(terminal["columns"]), _int(terminal["rows"]))  # type: ignore[index]  # of the host's own making
        if isinstance(script, str):
            text = script.encode("utf-8", "surrogateescape")
            if long_script.is_long(text):
                return self._execute_long(text, cwd, env, wants_stdin=wants_stdin, size=size)
        if size is not None:
            return launch.start_on_terminal(argv, self._settings, cwd=cwd, env=env, size=size)
        return launch.start(argv, self._settings, cwd=cwd, env=env, wants_stdin=wants_stdin)

    def _execute_long(
        self, text: bytes, cwd: str, env: dict[str, str], *, wants_stdin: bool, size: tuple[int, int] | None
    ) -> launch.LaunchedProcess:
        """`size` is that of its terminal, None where it has none."""
        settings = self._settings
        room = long_script.ScriptHandover(settings.shell, text, env)
        handed = (room.orders_end,)
        argv, env = room.argv, room.env
        try:
            if size is not None:
                started = launch.start_on_terminal(argv, settings, cwd=cwd, env=env, size=size, handed=handed)
            else:
                started = launch.start(argv, settings, cwd=cwd, env=env, wants_stdin=wants_stdin, handed=handed)
            assert started.executed is not None
            room.give(started.pid, started.executed)
        finally:
            room.close()
        launch.make_first_to_go(started.pid)
        return started

    def was_stopped(self, pid: int) -> None:
        """A child has been stopped, perhaps by what a command left running: then that ends, and the child goes on."""
        if pid not in self._shells() or self.halted_until is not None:
            return
        self._siege.strike()
        if self._lift_siege():
            resume(pid)

    def has_died(self, pid: int, status: int) -> None:
        """A child has died, perhaps of what a command left running."""
        process = next((one for one in self.running() if one.pid == pid), None)
        if process is None and pid not in self.stock.pids():
            return
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) == KILLED_BY and not (process and process.is_doomed):
            self._siege.strike()
        elif process is not None:
            self._siege.relax()

    def _lift_siege(self) -> bool:
        said = self._siege.lift(self._shells())
        if said is not None:
            self._bounds.tell(said, self.running())
        return said is not None

    def _describe(self, connection: Connection, number: int, process: Process) -> None:
        outcome, code = process.outcome or (None, 0)
        if outcome is None:
            connection.follows.add(process.number)
        kept = [at for stored in process.streams.values() for at in (stored.start, stored.end)]
        described = {"process": process.number, "outcome": outcome, "code": code, "terminal": process.terminal}
        more = {"pid": process.pid, "kept": kept, "notes": process.told_notes()}
        connection.send(wire.REPLY, number, wire.encode({**described, **more}))

    def _refuse(self, connection: Connection, number: int, error: str, *, reason: str = "") -> None:
        connection.send(wire.REFUSED, number, wire.encode({"error": error, "reason": reason}))

    def report_end(self, process: Process, connections: list[Connection]) -> None:
        self._bounds.ends(process, self.running())
        self._bounds.rank_survivors(self._shells())
        for connection in connections:
            if process.number in connection.follows:
                connection.follows.discard(process.number)
                connection.send_end(process)

    def _forget(self, number: int) -> None:
        process = self._processes.get(number)
        if process is None or process.runs or process.forgotten:
            return
        process.forget()
        self._numbers.pop(process.exec_id, None)
        self._drop_if_silent(process)

    def _drop_if_silent(self, process: Process) -> None:
        if process.forgotten and not process.outputs:
            self._processes.pop(process.number, None)

    def _write(self, connection: Connection, number: int, payload: bytes) -> None:
        process = self._processes.get(wire.NUMBER.unpack_from(payload)[0])
        if process is None:
            self._refuse(connection, number, "unknown")
            return
        process.add_input(payload[4:])
        process.push_input()
        self._unread_input.append((connection, number, process))

    def acknowledge_input(self) -> None:
        """Answer the writes whose bytes were accepted, or never will be; and free the processes that were forgotten and print no more."""
        waiting = []
        for connection, number, process in self._unread_input:
            if process.has_input() and process.runs:
                waiting.append((connection, number, process))
            elif connection.open:
                connection.send(wire.REPLY, number, wire.encode({}))
        self._unread_input = waiting
        for process in [one for one in self._processes.values() if one.forgotten]:
            self._drop_if_silent(process)


def _can_enter(directory: str, *, is_usual: bool) -> bool:
    """Whether a command can start there. The usual directory is opened again if a command closed it: all others start there."""
    if not os.path.isdir(directory):
        return False
    if is_usual and not os.access(directory, os.X_OK):
        try:
            os.chmod(directory, 0o700)
        except OSError:
            return False
    return os.access(directory, os.X_OK)


def _int(value: object) -> int:
    if not isinstance(value, int):
        raise wire.BadFrame("a number that is none")
    return value
