"""The process that owns a sandbox's commands: starts them for the host, keeps their output, and ends when the lifetime is over.

It is process 1 of a box, or a process of the host (`bare`); how it is started, and by which way the host reaches it, is the runtime's
part. Its commands run under the same user, so it makes itself undumpable before the first one starts (`tree.hide_self`).
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # signal without its enums, which cost 3 ms at every boot
import _socket
import os
import resource
import select
import time
from _collections_abc import Callable  # what collections.abc gives, without loading collections

from limpet.runtimes.agent import bare, launch, tree, walls, wire
from limpet.runtimes.agent.bounds import BoxBounds
from limpet.runtimes.agent.connection import Connection
from limpet.runtimes.agent.process import Process
from limpet.runtimes.agent.requests import Requests
from limpet.runtimes.agent.spool import Spool
from limpet.runtimes.agent.warm_shell import WarmShell


class Agent:
    """The loop: whatever happens on a descriptor, then whatever is due."""

    def __init__(
        self,
        config: dict[str, object],
        settings: launch.LaunchSettings,
        *,
        listener: int | None,
        connection: int | None,
        spool: int,
        bounds: BoxBounds,
        lifeline: int | None,
    ) -> None:
        ttl = config["ttl"]
        self._ttl = ttl if isinstance(ttl, (int, float)) else None
        self._orphan_grace = float(config["orphan_grace"])  # type: ignore[arg-type]  # written by the same version on the host
        self._listener = None if listener is None else _socket.socket(fileno=listener)
        self._connection = connection
        self._lifeline = lifeline
        self._poll = select.epoll()
        self._handlers: dict[int, Callable[[int], None]] = {}
        self._masks: dict[int, int] = {}
        self._connections: dict[int, Connection] = {}
        self._by_pid: dict[int, Process] = {}
        self._requests = Requests(config["boot_id"], settings, Spool(spool), bounds, self._release)
        self._spoken = time.monotonic()
        self._idles = False  # whether something has just ended that a shell could wait behind

    def run(self) -> None:
        """Serve until the box shall end."""
        read, write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        _signal.signal(_signal.SIGCHLD, _nothing)
        _signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        self._watch(read, select.EPOLLIN, lambda _: _empty(read))
        if self._listener is not None:
            self._listener.setblocking(False)
            self._watch(self._listener.fileno(), select.EPOLLIN, self._accept)
        if self._connection is not None:
            self._connect(self._connection)
        if self._lifeline is not None:
            self._watch(self._lifeline, select.EPOLLIN, lambda _: self._requests.end())
        while not self._requests.ended:
            for descriptor, events in self._poll.poll(self._patience()):
                if descriptor in self._handlers:
                    self._handlers[descriptor](events)
            while self._reap():
                self._tend()
            self._tend()
            if self._idles and not self._requests.running():
                os.sched_yield()  # let the host's process read the answer before the work below
                self._let_one_wait()
            self._idles = False

    def _let_one_wait(self) -> None:
        """Start a warm shell for the next command, and prepare it while the agent is idle."""
        self._requests.stock.fill(is_alone=self._requests.is_alone())
        shell = self._requests.stock.shell
        if shell is not None and shell.executed is not None:
            self._watch(shell.executed, select.EPOLLIN, self._on_executed(shell))

    def _on_executed(self, shell: WarmShell) -> Callable[[int], None]:
        return lambda _: shell.settle()

    def _patience(self) -> float | None:
        """How long nothing needs to be done."""
        times = [at for process in self._requests.running() if (at := process.next_time()) is not None]
        if (end := self._end_of_life()) is not None:
            times.append(end)
        if self._requests.halted_until is not None:
            times.append(self._requests.halted_until)
        times += [connection.holds_until for connection in self._connections.values() if connection.holds]
        return max(0.0, min(times) - time.monotonic()) if times else None

    def _end_of_life(self) -> float | None:
        """When the box ends if no request arrives until then; None while it does not. A command that runs holds it only while a host is
        connected: one that lost its host (SIGKILL, say) may come to its end for a short while beyond the box's time."""
        if self._ttl is None:
            return None
        runs = bool(self._requests.running())
        if runs and self._connections:
            return None
        return self._spoken + self._ttl + (self._orphan_grace if runs else 0.0)

    def _watch(self, descriptor: int, mask: int, handler: Callable[[int], None]) -> None:
        """Call `handler` for these events from now on; a mask of 0 lets the descriptor be."""
        before = self._masks.get(descriptor, 0)
        self._handlers[descriptor] = handler
        if mask == before:
            return
        if not mask:
            self._unwatch(descriptor)
        elif before:
            self._poll.modify(descriptor, mask)
        else:
            self._poll.register(descriptor, mask)
        self._masks[descriptor] = mask

    def _unwatch(self, descriptor: int) -> None:
        if self._masks.pop(descriptor, 0):
            self._poll.unregister(descriptor)
        self._handlers.pop(descriptor, None)

    def _release(self, descriptor: int) -> None:
        """The only way in which a descriptor that may be watched is closed."""
        self._unwatch(descriptor)
        os.close(descriptor)

    def _accept(self, _: int) -> None:
        assert self._listener is not None
        try:
            descriptor, _address = self._listener._accept()  # type: ignore[attr-defined]  # what socket.accept calls
        except OSError:
            return
        self._connect(descriptor)

    def _connect(self, descriptor: int) -> None:
        connection = Connection(_socket.socket(fileno=descriptor))
        self._connections[descriptor] = connection
        self._serve(connection)

    def _serve(self, connection: Connection) -> None:
        mask = select.EPOLLIN | (select.EPOLLOUT if connection.waits_to_send else 0)
        if self._masks.get(connection.descriptor) == mask:
            return
        self._watch(connection.descriptor, mask, lambda events: self._hear(connection, events))

    def _hear(self, connection: Connection, events: int) -> None:
        if not events & ~select.EPOLLOUT:
            return
        try:
            for kind, number, payload in connection.receive():
                self._spoken = time.monotonic()
                started = self._requests.answer(connection, kind, number, payload)
                if started is not None:
                    self._by_pid[started.pid] = started
                    if started.executed is not None:
                        self._watch(started.executed, select.EPOLLIN, self._on_begun(started))
        except wire.BadFrame:
            connection.open = False

    def _on_begun(self, process: Process) -> Callable[[int], None]:
        return lambda _: self._begun(process)

    def _begun(self, process: Process) -> None:
        """The command was executed, so it can be looked at again and be made the first to go when memory runs out."""
        if process.executed is not None:
            self._release(process.executed)
            process.executed = None
        launch.make_first_to_go(process.pid)

    def _reap(self) -> bool:
        """Wait for everything that has died or was stopped: commands' shells, and what they left to process 1. True where it was a
        command's shell: that is to be told before anything else, then there may be more."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED)
            except ChildProcessError:
                return False
            if pid == 0:
                return False
            if os.WIFSTOPPED(status):
                self._requests.was_stopped(pid)
                continue
            self._requests.has_died(pid, status)
            process = self._by_pid.pop(pid, None)
            if process is not None:
                process.close_input()
                process.shell_ended(status)
                return True
            if self._requests.stock.has_ended(pid, status):
                self._idles = True

    def _tend(self) -> None:
        """Everything that is due: ends, output, input, connections that broke, the box's own time."""
        for process in self._requests.active():
            if process.tend():
                self._spoken = time.monotonic()
                self._requests.report_end(process, list(self._connections.values()))
                self._idles = True
        self._requests.acknowledge_input()
        for connection in list(self._connections.values()):
            connection.pump()
            if connection.open:
                self._serve(connection)
            else:
                self._unwatch(connection.descriptor)
                del self._connections[connection.descriptor]
                connection.close()
                self._spoken = time.monotonic()
        for process in self._requests.active():
            self._watch_process(process)
        if self._requests.halted_until is not None and time.monotonic() >= self._requests.halted_until:
            self._requests.resume()
        end = self._end_of_life()
        if end is not None and time.monotonic() >= end:
            self._requests.end()

    def _watch_process(self, process: Process) -> None:
        reading = select.EPOLLIN if process.may_read() else 0
        for descriptor in () if process.quiet_until is not None else process.outputs:
            writing = select.EPOLLOUT if descriptor == process.stdin and process.has_input() else 0
            wanted = reading
            if process.goes_straight(descriptor):
                wanted = select.EPOLLIN if descriptor in process.found_empty else 0
            if self._masks.get(descriptor) == wanted | writing:
                continue
            self._watch(descriptor, wanted | writing, self._on_output(process, descriptor))
        if process.stdin is not None and process.stdin not in process.outputs:
            mask = select.EPOLLOUT if process.has_input() else 0
            self._watch(process.stdin, mask, lambda _: process.push_input())

    def _on_output(self, process: Process, descriptor: int) -> Callable[[int], None]:
        return lambda events: self._output(process, descriptor, events)

    def _output(self, process: Process, descriptor: int, events: int) -> None:
        if events & select.EPOLLOUT:
            process.push_input()
        if not events & ~select.EPOLLOUT:
            return
        if process.goes_straight(descriptor) and events & select.EPOLLIN:
            process.found_empty.discard(descriptor)  # its reader's connection looks into it again
        else:
            process.take_output(descriptor)


def _nothing(*_: object) -> None:
    """SIGCHLD only has to end the wait."""


def _empty(descriptor: int) -> None:
    try:
        while len(os.read(descriptor, 4096)) == 4096:
            pass
    except BlockingIOError:
        return


def main(
    config: dict[str, object],
    *,
    spool: int,
    listener: int | None = None,
    connection: int | None = None,
    lifeline: int | None = None,
    memory: int | None = None,
    processes: int | None = None,
) -> None:
    """Be the agent of a sandbox. Returns when it shall end. In a box everything dies with this process; a "bare" agent kills what is
    below it and removes the directory "temporary", where there is one. The host comes by `listener`, or is there by `connection`."""
    tree.hide_self()
    if config["bare"]:
        bare.stay_above(str(config["temporary"]))
    kept = {end for end in (listener, connection, spool, lifeline, memory, processes) if end is not None}
    bare.close_all_but(kept)
    for descriptor in kept:
        os.set_inheritable(descriptor, False)
    _raise_walls(config["walls"])
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    os.umask(0o022)  # also what the trampoline starts gets it
    sizes: dict[str, int] = config["sizes"]  # type: ignore[assignment]  # written by the same version on the host
    bounds = BoxBounds(sizes, memory=memory, processes=processes)
    settings = launch.LaunchSettings(**config["commands"])  # type: ignore[arg-type]  # likewise
    agent = Agent(
        config, settings, listener=listener, connection=connection, spool=spool, bounds=bounds, lifeline=lifeline
    )
    null = os.open("/dev/null", os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    os.close(null)
    if config["bare"]:
        _run_bare(agent, str(config["temporary"]))
    else:
        agent.run()


def _raise_walls(asked: object) -> None:
    """Build what commands shall be kept from, once: as a box wants it, or a runtime that has written the rules itself."""
    if not isinstance(asked, dict):
        return
    if "layers" in asked:
        walls.raise_layers(asked["layers"], asked["filter"])
    else:
        walls.raise_up(
            asked["closed"], processes_are_closed=bool(asked["processes"]), makes_no_code=bool(asked["code"])
        )


def _run_bare(agent: Agent, temporary: str) -> None:
    tree.adopt_orphans()
    try:
        agent.run()
    finally:
        bare.clear(temporary)
