"""Starting a box: bubblewrap's arguments, the descriptors that go in, and how it is detached from this process.

bubblewrap is started in the background by a shell that exits at once. So it is no child of this process (no SIGCHLD, no zombie to
reap), it outlives this process, and all that stays here is one descriptor: the lifeline of a box that must end with its creator.
"""

import json
import os
import secrets
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

import anyio

from limpet.core.box_directories import DATA
from limpet.core.errors import BootFailed
from limpet.core.ports import SandboxSpec, TimeToLive
from limpet.runtimes import procfs
from limpet.runtimes.agent_client.agent_process import AgentProcess, started_at
from limpet.runtimes.agent_client.payload import in_memory, payload, starter
from limpet.runtimes.bubblewrap import seccomp, walls
from limpet.runtimes.bubblewrap.layout import ENVIRONMENT, USER, Layout
from limpet.runtimes.bubblewrap.limits import groups
from limpet.runtimes.bubblewrap.limits.groups import Groups
from limpet.runtimes.bubblewrap.settings import BoxPaths, BubblewrapSettings
from limpet.runtimes.bubblewrap.user_environment import HOST_NAME

_ISOLATED = (
    *("--unshare-user", "--disable-userns", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-net"),
    *("--unshare-cgroup-try", "--as-pid-1", "--new-session", "--cap-drop", "ALL", "--clearenv"),
    *("--uid", str(USER), "--gid", str(USER), "--hostname", HOST_NAME),
)
# What root with CAP_SYS_RESOURCE writes as its score for the kernel's choice when memory runs out, nothing below it can lower.
_STARVES_FIRST = "echo 500 2> /dev/null > /proc/self/oom_score_adj; "
# What commands may leave as core dumps, which none can change (seccomp.py): nothing. Where the kernel hands them to a program or a
# socket of the host it does so whatever the limit is, 0 included, except for 1 (core(5); fs/coredump.c).
_NO_CORE_DUMPS = "ulimit -c 0; "
_NO_HANDLED_CORE_DUMPS = "prlimit --pid $$ --core=1:1; "
_CORE_PATTERN = Path("/proc/sys/kernel/core_pattern")
# Joins each group whose entrance is named before "--", then leaves the rest running by itself. "0" means the writing process.
_IN_GROUPS = 'while [ "$1" != -- ]; do echo 0 > "$1" || exit 1; shift; done; shift; exec "$@" &'
# Binds each first path to the second and goes on; only bubblewrap and the box see it.
_CARRYING = 'while [ "$1" != -- ]; do mount --bind "$1" "$2" || exit 1; shift 2; done; shift; exec "$@"'
_BACKLOG = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """All that is decided about a box before it starts."""

    spec: SandboxSpec
    place: BoxPaths
    layout: Layout
    settings: BubblewrapSettings
    groups: Groups | None
    user_id: int | None  # of the host; None where this process is not root


@dataclass(slots=True, kw_only=True)
class StartedBox:
    """A box that was started; its agent's first answer is the proof that it works.

    `log` (a descriptor) is what bubblewrap, or the agent before it was ready, had to say. Closing `lifeline` ends the box.
    """

    agent: AgentProcess
    log: int
    lifeline: int | None

    def complaint(self) -> str:
        return os.pread(self.log, 2000, 0).decode(errors="replace").strip()

    def close(self) -> None:
        """Close its descriptors, once."""
        for descriptor in (self.log, self.lifeline):
            if descriptor is not None and descriptor >= 0:
                os.close(descriptor)
        self.log, self.lifeline = -1, None


async def start(plan: Plan) -> StartedBox:
    """Start bubblewrap with an agent. Raises BootFailed, in bubblewrap's own words; then no box runs, but the caller clears the
    rest (`ending.clear`)."""
    started = StartedBox(
        agent=AgentProcess(boot_id=secrets.token_hex(16), pid=0, started=""), log=os.memfd_create("log"), lifeline=None
    )
    try:
        # Shielded, for it takes milliseconds: cancelled in between, it would leave a box whose pid is unknown and cannot be killed.
        with ExitStack() as kept, anyio.CancelScope(shield=True):
            status = await _launch(plan, started, kept)
            pid = await _child(status, started, plan.settings.boot_timeout)
        begun = started_at(pid)
        if begun is None:
            raise BootFailed(started.complaint() or "bubblewrap ended at once.")
        started.agent = AgentProcess(boot_id=started.agent.boot_id, pid=pid, started=begun)
        if plan.user_id is not None:
            _let_starve_last(pid)
    except BaseException:
        started.close()
        raise
    return started


async def _launch(plan: Plan, started: StartedBox, kept: ExitStack) -> int:
    """Run the launching shell to its end. Returns the descriptor on which bubblewrap reports; what was handed over is closed."""
    status, report = os.pipe()
    kept.callback(os.close, status)
    with ExitStack() as handed:
        handed.callback(os.close, report)
        ends = _ends(plan, started, handed)
        source = in_memory("agent", payload(_config(plan, started.agent.boot_id), ends))
        handed.callback(os.close, source)
        built = plan.layout.walls
        rules = in_memory("seccomp", seccomp.program(denies_memory_files=built.denies_memory_files))
        handed.callback(os.close, rules)
        words = [*_launcher(plan), "bwrap", *_ISOLATED, "--seccomp", str(rules), "--json-status-fd", str(report)]
        python, inside = plan.layout.python, [end for end in ends.values() if end is not None]
        if built.python is not None:
            inside.append(os.open(built.python, os.O_RDONLY | os.O_CLOEXEC))
            handed.callback(os.close, inside[-1])
            python = (f"/proc/self/fd/{inside[-1]}",)
        words += [*_environment(), *plan.layout.mounts, "--chdir", DATA, "--", *python, *starter(source)]
        result = await anyio.run_process(
            words,
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=started.log,
            env={"PATH": os.environ.get("PATH", ENVIRONMENT["PATH"])},
            start_new_session=True,
            pass_fds=(report, source, rules, *inside),
        )
    if result.returncode != 0:
        raise BootFailed(started.complaint() or "the launching shell failed.")
    return status


def _let_starve_last(agent: int) -> None:
    """Make the OOM killer choose commands before the agent and bubblewrap's own process; commands keep their minimum score.

    The kernel's older file leaves that lowest score as it is, while a privileged write to `oom_score_adj` would move it, for every
    command to come; and the file speaks of -17 to 15, so that 0 is the only value that means the same in both.
    """
    stat = procfs.stat_of(agent)
    if stat is None:
        return
    with suppress(OSError):
        for pid in (agent, stat.parent):
            try:
                Path(f"/proc/{pid}/oom_adj").write_text("0")
            except OSError:  # a kernel that has dropped it, or root without that capability
                Path(f"/proc/{pid}/oom_score_adj").write_text("0")


def _ends(plan: Plan, started: StartedBox, handed: ExitStack) -> dict[str, int | None]:
    """The descriptors that the agent lives with, by their names; `handed` closes them here."""
    listener = _listen(plan.place)
    handed.callback(os.close, listener)
    spool = _unlinked(plan.place.directory / "spool")
    handed.callback(os.close, spool)
    lifeline = None
    if not isinstance(plan.spec.lifetime, TimeToLive):
        lifeline, started.lifeline = os.pipe()
        handed.callback(os.close, lifeline)
    counters = plan.groups.counters(plan.place.group) if plan.groups else {}
    for counter in counters.values():
        handed.callback(os.close, counter)
    return {"listener": listener, "spool": spool, "lifeline": lifeline, "memory": None, "processes": None, **counters}


def _launcher(plan: Plan) -> list[str]:
    entrances = plan.groups.entrances(plan.place.group) if plan.groups else []
    starves = "" if plan.user_id is None else _STARVES_FIRST
    words = ["/bin/sh", "-c", starves + without_core_dumps() + _IN_GROUPS, "sh", *map(str, entrances), "--"]
    if carried := plan.layout.carried:
        words += ["unshare", "--mount", "--propagation", "private", "--", "/bin/sh", "-c", _CARRYING, "sh"]
        words += [*(str(path) for pair in carried for path in pair), "--"]
    if empty := plan.layout.walls.without_programs:
        words += [*walls.namespace(plan.user_id is not None), "/bin/sh", "-c", walls.WITHOUT_PROGRAMS, "sh"]
        words += [*(str(path) for pair in empty for path in pair), "--"]
    if plan.user_id is not None:
        user = str(plan.user_id)
        words += ["setpriv", "--reuid", user, "--regid", user, "--clear-groups", "--"]
    return words


def without_core_dumps(pattern: Path = _CORE_PATTERN) -> str:
    """What a shell does first, so that no crash below it leaves a file or starts anything; `pattern` is core_pattern (core(5))."""
    try:
        is_handled = pattern.read_bytes()[:1] in (b"|", b"@")
    except OSError:
        is_handled = True
    return _NO_HANDLED_CORE_DUMPS if is_handled else _NO_CORE_DUMPS


def _config(plan: Plan, boot_id: str) -> dict[str, object]:
    lifetime = plan.spec.lifetime
    bounds = plan.settings.limits(plan.spec.limits)
    return {
        "boot_id": boot_id,
        "ttl": lifetime.seconds if isinstance(lifetime, TimeToLive) else None,
        "orphan_grace": plan.settings.orphan_grace,
        "bare": False,
        "commands": {
            "shell": plan.layout.shell,
            "directory": DATA,
            "env": dict(plan.layout.environment),
            "limits": {
                name: (most, most)
                for name, most in groups.of_each_process(bounds, whole_box=plan.groups is not None).items()
            },
            "user": None,
        },
        "sizes": {
            "memory_mb": (bounds.memory or 0) >> 20,
            "processes": bounds.processes,
            "file_size": bounds.file_size,
        },
        "walls": plan.layout.walls.inside,
    }


def _environment() -> Iterator[str]:
    for name in ("PATH", "LANG"):
        yield from ("--setenv", name, ENVIRONMENT[name])


def _listen(place: BoxPaths) -> int:
    """The box's socket, bound and listening. Through a descriptor of its directory: a socket's path has room for 108 bytes."""
    directory = os.open(place.run, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            listener.bind(f"/proc/self/fd/{directory}/{place.socket.name}")
            listener.listen(_BACKLOG)
            return listener.detach()
    finally:
        os.close(directory)


def _unlinked(path: Path) -> int:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    path.unlink()
    return descriptor


async def _child(status: int, started: StartedBox, timeout: float) -> int:
    """The pid of the agent, from bubblewrap's report (`--json-status-fd`)."""
    report = b""
    with anyio.move_on_after(timeout):
        while b"\n" not in report:
            await anyio.wait_readable(status)
            if not (piece := os.read(status, 4096)):
                break
            report += piece
    try:
        return int(json.loads(report.partition(b"\n")[0])["child-pid"])
    except (ValueError, KeyError, TypeError) as error:
        raise BootFailed(started.complaint() or "bubblewrap did not say which process it started.") from error
