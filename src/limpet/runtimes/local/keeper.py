"""The process that owns a local sandbox's commands. It runs alone, as `python -I -S keeper.py DESCRIPTOR DIRECTORY [WALLS]`, on the
standard library only (and `long_script`, which needs no more); nothing imports it. It never reads a command's output. DIRECTORY (if
not "") is removed at the end.

Why a process of its own: it is the subreaper of everything that its commands start, `setsid` or not, so that what is left at
the end is exactly its descendants; and it ends them when the socket to its owner closes, however the owner ended.
Each command's first process is a subreaper too, so that one command's tree is known while the others run.

With walls, it is given a descriptor of a JSON file: {"layers": [[handled rights, [[path, rights], …]], …] (landlock(7)), "filter": a
seccomp program in hex}; every command is put behind them before it is executed.

Packets from the owner: {"op": "start", "id"} with four descriptors (the request as JSON, stdin, stdout, stderr),
{"op": "kill", "id"}, {"op": "signal", "id", "number"}. To the owner: {"ready": true}, then {"id", "code", "killed"} for each end.
"""

import ctypes
import errno
import fcntl
import json
import os
import select
import signal
import socket
import struct
import sys
import termios
import time
from importlib.machinery import SourceFileLoader
from types import ModuleType

PR_SET_CHILD_SUBREAPER = 36
PACKET = 64 * 1024
PATIENCE = 5.0
MUCH = 32 * 1024  # letters from which on a script may be longer than an argument
LONG_SCRIPT = os.path.join(os.path.dirname(os.path.dirname(__file__)), "agent", "long_script.py")

PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
CREATE_RULESET, ADD_RULE, RESTRICT_SELF, PATH_BENEATH = 444, 445, 446, 1
OF_FILES = 1 | 1 << 1 | 1 << 2 | 1 << 14 | 1 << 15  # the rights that a rule for one file may hold

libc = ctypes.CDLL(None, use_errno=True)
prctl = libc.prctl


class Walls:
    """What every command is put behind; nothing, where there are none."""

    def __init__(self, layers: list[tuple[int, list[tuple[str, int]]]], program: bytes) -> None:
        self._rulesets = [self._ruleset(handled, rules) for handled, rules in layers]
        self._program = ctypes.create_string_buffer(program, len(program)) if program else None

    def _ruleset(self, handled: int, rules: list[tuple[str, int]]) -> int:
        ruleset = syscall(CREATE_RULESET, struct.pack("=Q", handled), ctypes.c_size_t(8), 0)
        for path, rights in rules:
            try:
                place = os.open(path, os.O_PATH | os.O_CLOEXEC)
            except OSError:
                continue  # it is not there, so there is nothing to allow
            if not os.path.isdir(path):
                rights &= OF_FILES
            if rights & handled:
                syscall(ADD_RULE, ruleset, PATH_BENEATH, struct.pack("=Qi", rights & handled, place), 0)
            os.close(place)
        return ruleset

    def stand_before(self) -> None:
        """In a command's process; no way back."""
        if not self._rulesets and self._program is None:
            return
        if prctl(PR_SET_NO_NEW_PRIVS, *map(ctypes.c_ulong, (1, 0, 0, 0))) != 0:
            raise OSError(ctypes.get_errno(), "its walls cannot be built")
        for ruleset in self._rulesets:
            syscall(RESTRICT_SELF, ruleset, 0)
        if self._program is not None:
            count = len(self._program) // 8
            program = struct.pack("HxxxxxxP", count, ctypes.addressof(self._program))
            if prctl(PR_SET_SECCOMP, ctypes.c_ulong(SECCOMP_MODE_FILTER), program, *map(ctypes.c_ulong, (0, 0))) != 0:
                raise OSError(ctypes.get_errno(), "its walls cannot be built")


def syscall(number: int, *arguments: object) -> int:
    words = [ctypes.c_long(one) if isinstance(one, int) else one for one in arguments]
    result = int(libc.syscall(ctypes.c_long(number), *words))
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def read_walls(descriptor: int) -> Walls:
    with open(descriptor, "rb") as file:
        asked = json.load(file)
    return Walls(asked["layers"], bytes.fromhex(asked["filter"]))


class Keeper:
    """Starts, kills and reaps; one thread, one loop."""

    def __init__(self, owner: socket.socket, walls: Walls) -> None:
        self._owner = owner
        self._walls = walls
        self._roots: dict[int, int] = {}  # number of the command -> pid
        self._killed: set[int] = set()

    def serve(self) -> None:
        prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        woken, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._tell({"ready": True})
        poll = select.poll()
        poll.register(self._owner, select.POLLIN)
        poll.register(woken, select.POLLIN)
        while True:
            ready = {descriptor for descriptor, _ in poll.poll()}
            if woken in ready:
                os.read(woken, PACKET)
            self._reap()
            if self._owner.fileno() in ready and not self._receive():
                return

    def end_all(self) -> None:
        """Kill every descendant; returns when none is left."""
        limit = time.monotonic() + PATIENCE
        while time.monotonic() < limit:
            for pid in descendants(os.getpid()):
                send(pid, signal.SIGKILL)
            try:
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            except ChildProcessError:
                return
            time.sleep(0.001)

    def _receive(self) -> bool:
        packet, descriptors, _, _ = socket.recv_fds(self._owner, PACKET, 4)
        for descriptor in descriptors:
            os.set_inheritable(descriptor, False)  # Python 3.11 ignores the flags of recv_fds
        if not packet:
            return False
        message = json.loads(packet)
        match message["op"]:
            case "start":
                self._start(message["id"], descriptors)
            case "kill":
                self._kill(message["id"])
            case "signal":
                self._signal(message["id"], message["number"])
        return True

    def _start(self, number: int, descriptors: list[int]) -> None:
        with open(descriptors[0], "rb") as file:
            request = json.load(file)
        room = room_of(request)
        reached = os.pipe() if room is not None else None  # its writing end closes at exec
        pid = os.fork()
        if pid == 0:
            become(request, descriptors[1:], self._walls, handed=None if room is None else room.orders_end)
        if reached is not None:
            os.close(reached[1])
            room.give(pid, reached[0])
            os.close(reached[0])
        self._roots[number] = pid
        for descriptor in descriptors[1:]:
            os.close(descriptor)

    def _kill(self, number: int) -> None:
        """Kill a command's whole tree, its first process last: until then every orphan of the tree comes to that one."""
        root = self._roots.get(number)
        if root is None or state(root) in "ZX":
            return
        self._killed.add(number)
        send(root, signal.SIGSTOP)
        limit = time.monotonic() + PATIENCE
        while (rest := descendants(root)) and time.monotonic() < limit:
            for pid in rest:
                send(pid, signal.SIGKILL)
            time.sleep(0.001)
        send(root, signal.SIGKILL)

    def _signal(self, number: int, signal_number: int) -> None:
        root = self._roots.get(number)
        if root is not None:
            try:
                os.killpg(root, signal_number)
            except ProcessLookupError:
                send(root, signal_number)

    def _reap(self) -> None:
        numbers = {pid: number for number, pid in self._roots.items()}
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            if pid in numbers:
                number = numbers[pid]
                del self._roots[number]
                code = os.waitstatus_to_exitcode(status)
                killed = number in self._killed
                self._killed.discard(number)
                self._tell({"id": number, "code": code if code >= 0 else 128 - code, "killed": killed})

    def _tell(self, message: dict[str, object]) -> None:
        try:
            self._owner.send(json.dumps(message).encode())
        except OSError as error:
            if error.errno not in (errno.EPIPE, errno.ECONNRESET):
                raise  # a closed socket is seen by the loop, which then ends everything


def room_of(request: dict[str, object]):  # type: ignore[no-untyped-def]  # of a module that is loaded by its path
    """Where the script is longer than an argument may be: the room that it is given, which changes the request. Else None."""
    argv, env = request["argv"], request["env"]
    assert isinstance(argv, list)
    assert isinstance(env, dict)
    if argv[:2] != ["bash", "-c"] or len(argv) != 3 or len(argv[2]) <= MUCH:
        return None
    module = ModuleType("long_script")
    SourceFileLoader("long_script", LONG_SCRIPT).exec_module(module)
    text = argv[2].encode("utf-8", "surrogateescape")
    if not module.is_long(text):
        return None
    room = module.Room("bash", text, env)
    request.update(argv=room.argv, env=room.env)
    return room


def become(request: dict[str, object], streams: list[int], walls: Walls, *, handed: int | None = None) -> None:
    """In the new process: turn into the command. Never returns."""
    code = 126
    try:
        signal.set_wakeup_fd(-1)
        for number in range(1, 32):  # also what nohup or a shell's background job left ignored: exec would keep that
            if number not in (signal.SIGKILL, signal.SIGSTOP):
                signal.signal(number, signal.SIG_DFL)
        os.setsid()
        prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        for target, descriptor in enumerate(streams):
            os.dup2(descriptor, target)
        if handed is not None:
            os.set_inheritable(handed, True)
        if request["terminal"]:
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        code = run(request, walls)
    finally:
        os._exit(code)


def run(request: dict[str, object], walls: Walls) -> int:
    program, argv, env, user = str(request["program"]), request["argv"], request["env"], request["user"]
    assert isinstance(argv, list)
    assert isinstance(env, dict)
    try:
        if isinstance(user, int):
            os.setgroups([])
            os.setresgid(user, user, user)
            os.setresuid(user, user, user)
        os.umask(0o022)
        os.chdir(str(request["cwd"]))
        walls.stand_before()
        os.execvpe(program, argv, env)
    except (FileNotFoundError, NotADirectoryError):
        os.write(2, f"{program}: command not found\n".encode(errors="surrogateescape"))
        return 127
    except OSError as error:
        os.write(2, f"{program}: {error.strerror}\n".encode(errors="surrogateescape"))
        return 126


def descendants(root: int) -> list[int]:
    """The living processes below `root`; a zombie is not living, but what hangs below it is."""
    children: dict[int, list[tuple[int, str]]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            fields = stat(int(name))
            if fields:
                children.setdefault(int(fields[1]), []).append((int(name), fields[0]))
    found: list[int] = []
    below = [root]
    while below:
        for pid, condition in children.get(below.pop(), []):
            below.append(pid)
            if condition not in "ZX":
                found.append(pid)
    return found


def state(pid: int) -> str:
    fields = stat(pid)
    return fields[0] if fields else "X"


def stat(pid: int) -> list[str]:
    """The fields after the name (proc(5), /proc/pid/stat): state, parent …; empty if there is no such process."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].decode().split()
    except (FileNotFoundError, ProcessLookupError):
        return []


def send(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        pass  # gone meanwhile, or a set-user-id program: not ours to end


def remove(directory: str) -> None:
    """Remove a directory and all in it, as far as permissions allow; links are removed, not followed."""
    for place, directories, files in os.walk(directory, topdown=False):
        for name in files + directories:
            path = os.path.join(place, name)
            try:
                if name in directories and not os.path.islink(path):
                    os.rmdir(path)
                else:
                    os.unlink(path)
            except OSError:
                pass  # what cannot be removed stays; the directory then stays as well
    try:
        os.rmdir(directory)
    except OSError:
        pass


def main() -> None:
    owner = socket.socket(fileno=int(sys.argv[1]))
    owner.set_inheritable(False)
    walls = read_walls(int(sys.argv[3])) if len(sys.argv) > 3 else Walls([], b"")
    keeper = Keeper(owner, walls)
    try:
        keeper.serve()
    finally:
        keeper.end_all()
        if sys.argv[2]:
            remove(sys.argv[2])


if __name__ == "__main__":
    main()
