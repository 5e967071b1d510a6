"""Starting one command by fork and exec: pipes or a terminal, a session and a subreaper of its own, walls, limits.

Between fork and exec the child is a copy of the agent and must never return into the agent's loop: `_become` ends in exec or `_exit`.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # signal without its enums, which cost 3 ms at every boot
import fcntl
import os
import resource
import struct

from limpet.runtimes.agent import walls
from limpet.runtimes.agent.tree import adopt_orphans, show_self

_TAKE_TERMINAL = 0x540E
_SET_SIZE = 0x5414
_SIGKILL, _SIGSTOP = 9, 19
_STARVES_FIRST = 500
# What a command may find ignored because this process, or whatever started it (nohup, a shell's background job), ignores it: exec
# keeps that. All but the two that cannot be changed.
IGNORED = tuple(number for number in range(1, 32) if number not in (_SIGKILL, _SIGSTOP))


class LaunchSettings:
    """What all commands of a sandbox start with: `shell` is the path of bash, `directory` the one they start in, `limits` are soft and
    hard limits by their names in `resource`, `user` is the uid that they are given (None: the agent's own)."""

    def __init__(
        self,
        *,
        shell: str,
        directory: str,
        env: dict[str, str],
        limits: dict[str, tuple[int, int]],
        user: int | None,
    ) -> None:
        self.shell = shell
        self.directory = directory
        self.env = env
        self.limits = limits
        self.user = user


class LaunchedProcess:
    """What the agent holds of a command: its pid, the ends of its pipes, and one that closes when exec was reached."""

    def __init__(self, pid: int, outputs: dict[int, int], stdin: int | None, executed: int | None) -> None:
        self.pid = pid
        self.outputs = outputs  # descriptor -> stream (1, 2)
        self.stdin = stdin
        self.executed = executed  # None where another object watches and closes it


def make_first_to_go(pid: int) -> None:
    """Make the OOM killer prefer this process to the agent. Its /proc files are writable only once it is dumpable: after exec, or
    after `show_self`."""
    set_oom_score(pid, _STARVES_FIRST)


def set_oom_score(pid: int, score: int) -> None:
    """Set how likely the OOM killer chooses the process (proc_pid_oom_score_adj(5)); quiet where it has ended."""
    try:
        descriptor = os.open(f"/proc/{pid}/oom_score_adj", os.O_WRONLY)
    except OSError:
        return  # it has ended already
    try:
        os.write(descriptor, str(score).encode())
    except OSError:
        return  # likewise
    finally:
        os.close(descriptor)


def end_at_once(pid: int) -> None:
    """Kill a child that is no command, and wait for it."""
    try:
        os.kill(pid, _SIGKILL)
        os.waitpid(pid, 0)
    except (ProcessLookupError, ChildProcessError):
        return  # it was waited for already


def start(
    argv: list[str],
    settings: LaunchSettings,
    *,
    cwd: str,
    env: dict[str, str],
    wants_stdin: bool,
    handed: tuple[int, ...] = (),
) -> LaunchedProcess:
    """Run `argv` with pipes, and with the descriptors `handed` under their own numbers. OSError where the box has no room for one
    more process."""
    out_read, out_write = os.pipe()
    error_read, error_write = os.pipe()
    # No bytes pass through this pipe. Its write end is close-on-exec, as every descriptor that Python opens, so the agent reads end of
    # file when exec has succeeded, or when the child has ended.
    done_read, done_write = os.pipe()
    in_read, in_write = os.pipe() if wants_stdin else (os.open("/dev/null", os.O_RDONLY), None)
    ours = [out_read, error_read, done_read] + ([] if in_write is None else [in_write])
    theirs = [in_read, out_write, error_write, done_write]
    try:
        pid = os.fork()
    except OSError:
        _close(ours + theirs)
        raise
    if pid == 0:
        for descriptor in handed:
            os.set_inheritable(descriptor, True)
        _become(
            argv,
            settings,
            cwd=cwd,
            env=env,
            streams=(in_read, out_write, error_write),
            last=None if handed else done_write,
        )
    _close(theirs)
    for descriptor in ours:
        os.set_blocking(descriptor, False)
    return LaunchedProcess(pid, {out_read: 1, error_read: 2}, in_write, done_read)


def start_on_terminal(
    argv: list[str],
    settings: LaunchSettings,
    *,
    cwd: str,
    env: dict[str, str],
    size: tuple[int, int],
    handed: tuple[int, ...] = (),
) -> LaunchedProcess:
    """Run `argv` on a terminal of its own, and with the descriptors `handed`; all that it shows is stream 1."""
    master, slave = os.openpty()
    resize(master, *size)
    done_read, done_write = os.pipe()
    try:
        pid = os.fork()
    except OSError:
        _close([master, slave, done_read, done_write])
        raise
    if pid == 0:
        for descriptor in handed:
            os.set_inheritable(descriptor, True)
        last = None if handed else done_write
        _become(argv, settings, cwd=cwd, env=env, streams=(slave, slave, slave), last=last, terminal=True)
    _close([slave, done_write])
    for descriptor in (master, done_read):
        os.set_blocking(descriptor, False)
    return LaunchedProcess(pid, {master: 1}, master, done_read)


def resize(master: int, columns: int, rows: int) -> None:
    fcntl.ioctl(master, _SET_SIZE, struct.pack("HHHH", rows, columns, 0, 0))


def _close(descriptors: list[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def _become(
    argv: list[str],
    settings: LaunchSettings,
    *,
    cwd: str,
    env: dict[str, str],
    streams: tuple[int, int, int],
    last: int | None,
    terminal: bool = False,
) -> None:
    """In the child, and never returning: exec the command, or write to its standard error why not and exit. `last` is the one
    descriptor beyond 2 that stays open until exec; None for a warm shell, which keeps others as well.

    The order matters. setsid comes before TIOCSCTTY, since only a session leader may take a controlling terminal. The wakeup descriptor
    is dropped before signals are set to default, so that no signal of the child is written into the agent's pipe; ignored signals are
    reset because exec keeps "ignored" (execve(2)). Limits come last, so that they bind the command and none of these steps."""
    code = 127
    try:
        os.setsid()
        adopt_orphans()
        _signal.set_wakeup_fd(-1)
        for number in IGNORED:
            _signal.signal(number, _signal.SIG_DFL)
        if terminal:
            fcntl.ioctl(streams[0], _TAKE_TERMINAL, 0)
        for target, descriptor in enumerate(streams):
            os.dup2(descriptor, target)
        if settings.user is not None:
            _drop_to(settings.user)
        walls.stand_behind()
        if last is not None:
            _starve_first(last)
        os.umask(0o022)
        os.chdir(cwd)
        for name, limit in settings.limits.items():
            number = getattr(resource, name)
            resource.setrlimit(number, within_hard_limit(number, limit))
        code = _execute(argv, env)
    except BaseException as error:  # noqa: BLE001 - a forked child must never run on as a second agent
        os.write(2, f"{argv[0]}: {error}\n".encode("utf-8", "replace"))
    finally:
        os._exit(code)


def _drop_to(user: int) -> None:
    """Become that user for good. It makes the process undumpable, which it has to be as long as it holds the agent's descriptors."""
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)


def within_hard_limit(number: int, limit: tuple[int, int]) -> tuple[int, int]:
    """That soft and hard limit, cut to the hard limit of this process, which nothing may raise (getrlimit(2))."""
    most = resource.getrlimit(number)[1]
    if most == resource.RLIM_INFINITY:
        return limit
    soft, hard = (most if value == resource.RLIM_INFINITY else min(value, most) for value in limit)
    return soft, hard


def _starve_first(last: int) -> None:
    """Set the OOM score before exec, since children that the command forks at once inherit it. A process that is not dumpable cannot
    write its own oom_score_adj, and a dumpable one can be inspected by other commands of the same user: so the agent's descriptors are
    closed first, then the child becomes dumpable, then it writes the score."""
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2 and int(name) != last:
            try:
                os.close(int(name))
            except OSError:
                continue  # the one that listed the directory
    show_self()
    make_first_to_go(os.getpid())


def _execute(argv: list[str], env: dict[str, str]) -> int:
    """Exec `argv` by the PATH of `env`; returns 126 or 127, as shells do, where that fails."""
    program = argv[0]
    places = [program]
    if "/" not in program:
        places = [f"{directory or '.'}/{program}" for directory in env.get("PATH", "/usr/bin:/bin").split(":")]
    forbidden = ""
    for place in places:
        try:
            os.execve(place, argv, env)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            forbidden = error.strerror or str(error)
    if forbidden:
        os.write(2, f"{program}: {forbidden}\n".encode("utf-8", "surrogateescape"))
        return 126
    missing = "No such file or directory" if "/" in program else "command not found"
    os.write(2, f"{program}: {missing}\n".encode("utf-8", "surrogateescape"))
    return 127
