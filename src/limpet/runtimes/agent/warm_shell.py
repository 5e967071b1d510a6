"""The warm shell: a real `bash -c`, started and initialised before its script is known, so that a command does not wait for it.

It is executed with room for a script as its argument. bash leaves that argument where the kernel has put it and reads it last,
after the file that BASH_ENV names; that file is a pipe of ours, so bash blocks there, all set up. For a command the agent writes the
script into the room (/proc/PID/mem), and into the pipe what else differs: variables, directory, input. What runs then is bash's own
handling of -c: its messages, line numbers and traps, its exec of a last command. `tests/runtimes/bubblewrap/bash` compares the two,
case by case. Where it is not certain that they agree, a fresh `bash -c` is started (`can_use_waiting_shell`).

A shell waits only while no command runs, and every start takes it or ends it. So no command can see a warm shell, or stop it, slow it
down or write into its memory on behalf of the next command.
"""

from __future__ import annotations

import os
import select
import time
from _collections_abc import Callable  # what collections.abc gives, without loading collections

from limpet.runtimes.agent import launch, tree, walls
from limpet.runtimes.agent.spawn_trampoline import SpawnTrampoline

ROOM = 1 << 15  # bytes for a script
_GUARD = b"kill -9 $$ #"  # fail closed: a shell that runs before its room was filled kills itself
_ORDERS = 60_000  # bytes; below a pipe's default capacity of 64 KiB, so that one write takes all of it without blocking
_PATIENCE = 0.02  # seconds that a start waits for a shell whose exec is under way
_A_LITTLE = 0.0001
_PROOF = 42  # the exit code of the trial run
_TRIES = 3
_SIGCONT = 18

# Names that bash reads at its start, keeps for itself or watches (bash(1), "Shell Variables"). Exported later, through the pipe, they
# would not act as they do in the environment of a fresh shell.
_OF_BASH = frozenset(
    "_ CDPATH CHILD_MAX COLUMNS DIRSTACK EMACS ENV EPOCHREALTIME EPOCHSECONDS EUID EXECIGNORE FCEDIT FIGNORE FUNCNAME FUNCNEST"
    " GLOBIGNORE GLOBSORT GROUPS HOME HOSTFILE HOSTNAME HOSTTYPE IFS IGNOREEOF INPUTRC INSIDE_EMACS LANG LANGUAGE LINENO LINES"
    " LOCPATH MACHTYPE MAIL MAILCHECK MAILPATH MAPFILE NLSPATH OLDPWD OPTARG OPTERR OPTIND OSTYPE PATH PIPESTATUS POSIX_PEDANTIC"
    " POSIXLY_CORRECT PPID PROMPT_COMMAND PROMPT_DIRTRIM PS0 PS1 PS2 PS3 PS4 PWD RANDOM REPLY SECONDS SHELL SHELLOPTS SHLVL SRANDOM"
    " TERM TEXTDOMAIN TEXTDOMAINDIR TIMEFORMAT TMOUT TMPDIR TZ TZDIR UID auto_resume histchars".split()
)
_FAMILIES = ("BASH", "COMP", "COPROC", "GLIBC_", "HIST", "LC_", "LD_", "MALLOC_", "READLINE_", "TERM")
# A function of the box's own that a waiting shell imports at its start as any bash does; what it runs before its script calls none.
_NOT_FOUND = "BASH_FUNC_command_not_found_handle%%"
_MOST_VARIABLES = 64
# Where the room in its arguments, and that something ran before, could show: its own entries in /proc, lists of all variables,
# what bash notes of the command before. A script that begins like an option is one for `bash -c`.
_TELLING = ("/proc", "BASH_", "PIPESTATUS", "${!P", "declare", "typeset", "compgen")


def can_use_waiting_shell(script: str, *, cwd: str, env: dict[str, str]) -> bool:
    """Whether a waiting shell would do with this script just what a fresh `bash -c` does; where that is not certain, False.

    A command that is no script, or that has a terminal, is not asked about: it never can.
    """
    if len(script) > ROOM or cwd.startswith("//") or len(env) > _MOST_VARIABLES:
        return False
    if script.startswith(("-", "+")) or any(word in script for word in _TELLING) or _may_list_variables(script):
        return False
    return all(_is_plain(name) for name in env)


def _may_list_variables(script: str) -> bool:
    """Whether there is a `set` in it that may have no arguments: it is not followed by an option or a plain word."""
    at = script.find("set")
    while at >= 0:
        before, after = script[at - 1 : at], script[at + 3 :].lstrip(" \t")
        is_set = script[at + 3 : at + 4].strip(" \t") == "" or not _is_of_word(script[at + 3])
        if is_set and not _is_of_word(before) and not (_is_of_word(after[:1]) or after[:1] in ("-", "+")):
            return True
        at = script.find("set", at + 3)
    return False


def _is_of_word(character: str) -> bool:
    return character.isalnum() or character == "_"


def reads_at_start(env: dict[str, str]) -> bool:
    """Whether the box's own variables change how bash starts or what it does with BASH_ENV: then none can wait. Its locale and terminal
    are the same for a shell that waits, which is started with them too."""
    names = [name for name in env if name != _NOT_FOUND and not name.startswith(("LC_", "TERM"))]
    return any(name.startswith(_FAMILIES) or name in ("ENV", "POSIXLY_CORRECT", "SHELLOPTS") for name in names)


def _is_bash(shell: str) -> bool:
    """Whether the file that BASH_ENV names is read by it; another shell takes a fresh process for each command."""
    return shell.rpartition("/")[2] == "bash"


def _is_plain(name: str) -> bool:
    return name.isascii() and name.isidentifier() and name not in _OF_BASH and not name.startswith(_FAMILIES)


class WarmShell:
    """One warm shell. `prepare` makes it ready once it was executed; `give` hands it a command, once."""

    def __init__(
        self, settings: launch.LaunchSettings, release: Callable[[int], None], step: SpawnTrampoline | None
    ) -> None:
        self._shell = settings.shell
        self._orders_end, self._orders = os.pipe()
        self._input_end, self._input = os.pipe()
        env = {**settings.env, "PWD": settings.directory, "BASH_ENV": f"/dev/fd/{self._orders_end}"}
        self._room = _GUARD.ljust(ROOM, b"#")
        argv = [self._shell, "-c", self._room.decode()]
        handed = (self._orders_end, self._input_end)
        try:
            started = step.start(argv, settings, env=env, handed=handed) if step is not None else None
            self.started = started or launch.start(
                argv, settings, cwd=settings.directory, env=env, wants_stdin=False, handed=handed
            )
        except OSError:
            _close(self._orders, self._input, *handed)
            raise
        _close(*handed)
        os.set_blocking(self._input, False)
        assert self.started.executed is not None
        self.executed: int | None = self.started.executed
        self._release = release
        self.started.executed = None
        self._memory: int | None = None
        self._address = 0

    def prepare(self) -> bool:
        """Find the room in its memory, once it was executed. False where that fails: it is dead, its memory is not laid out as expected,
        or exec is not complete yet, since the kernel closes our descriptor a little before it sets arg_start to env_end. In that last
        case `executed` stays readable, and the next call tries again.

        The memory is opened while the shell is idle and kept open, and it is compared byte by byte before anything is written: an address
        in /proc/PID/stat is taken for the room only if the room's content is there."""
        if self._memory is not None:
            return True
        pid = self.started.pid
        try:
            fields = tree.read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
            begins, _, variables, ends = map(int, fields[45:49])
            if ends <= variables and fields[0] not in (b"Z", b"X"):
                return False  # its exec goes on: the kernel has yet to count its arguments and variables
            self._stop_telling()
            memory = os.open(f"/proc/{pid}/mem", os.O_RDWR)
        except OSError:
            self._stop_telling()
            return False
        self._address = begins + len(self._shell.encode()) + len("\0-c\0")
        try:
            if os.pread(memory, ROOM + 1, self._address) == self._room + b"\0":
                # NULs behind the guard: a shorter script then ends where it ends. Until `give` the guard stays in front.
                os.pwrite(memory, _GUARD.ljust(ROOM, b"\0"), self._address)
                self._memory, memory = memory, -1
        except OSError:
            return False
        finally:
            if memory >= 0:
                os.close(memory)
        launch.make_first_to_go(pid)
        return self._memory is not None

    def _stop_telling(self) -> None:
        if self.executed is not None:
            self._release(self.executed)
            self.executed = None

    def settle(self) -> None:
        """It was executed: prepare it; whether that went well is asked when it is needed."""
        self.prepare()

    def give(
        self, script: str, *, cwd: str | None, env: dict[str, str], wants_stdin: bool
    ) -> launch.LaunchedProcess | None:
        """Let it run `script`; `cwd` only where it is another than its own. None where it does not take it: then nothing ran."""
        try:
            text = script.encode("utf-8", "surrogateescape")
            orders = self._preparations(text, cwd, env, wants_stdin).encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:
            return None
        if len(text) > ROOM or len(orders) > _ORDERS or b"\0" in text or not self._is_there():
            return None
        assert self._memory is not None
        try:
            text = text.ljust(len(_GUARD), b"\0")
            if os.pwrite(self._memory, text, self._address) != len(text):
                return None
            tree.send(self.started.pid, _SIGCONT)  # a detached process of the box may have stopped it
            # Last: from this write on bash runs. All before it can fail and leave a shell that has run nothing.
            os.write(self._orders, orders)
        except OSError:
            return None
        _close(self._orders, self._memory)
        if wants_stdin:
            self.started.stdin = self._input
        else:
            os.close(self._input)
        return self.started

    def _is_there(self) -> bool:
        """Whether it is ready by now; waits a moment for that."""
        until = time.monotonic() + _PATIENCE
        if not self.was_executed():
            return False
        while not self.prepare():
            if time.monotonic() >= until:
                return False
            time.sleep(_A_LITTLE)
        return True

    def was_executed(self) -> bool:
        """Whether exec of bash has completed; waits a moment for that."""
        return self.executed is None or bool(select.select([self.executed], [], [], _PATIENCE)[0])

    def _preparations(self, text: bytes, cwd: str | None, env: dict[str, str], wants_stdin: bool) -> str:
        """What it does before the script, and leaves no trace of."""
        stdin = f"<&{self._input_end} " if wants_stdin else ""
        words = [f"exec {stdin}{self._input_end}<&- {self._orders_end}<&-", "unset BASH_ENV"]
        if cwd is not None:
            words.append(f"cd -- {_quote(cwd)} || exit 127\nunset OLDPWD\nexport OLDPWD")
        if env:
            words.append("export " + " ".join(f"{name}={_quote(value)}" for name, value in env.items()))
        words.append(f"BASH_EXECUTION_STRING={_quote(text.decode('utf-8', 'surrogateescape'))}")
        words.append(f"SECONDS=0\n: {self._shell}\n")
        return "\n".join(words)

    def end(self) -> None:
        """Kill it, where it was not given away. When this returns it is gone, so that the next command cannot see it."""
        self.close()
        launch.end_at_once(self.started.pid)

    def close(self) -> None:
        """Close what the agent holds of it."""
        _close(self._orders, self._input, *self.started.outputs)
        self._stop_telling()
        if self._memory is not None:
            os.close(self._memory)


def _close(*descriptors: int) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def _quote(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


class WarmShells:
    """At most one warm shell. The first is a trial run: it proves that this box's bash works with a room and a pipe."""

    def __init__(self, settings: launch.LaunchSettings, release: Callable[[int], None]) -> None:
        self._settings = settings
        self._release = release
        self._shell: WarmShell | None = None
        self._was_alone = False
        self._step = SpawnTrampoline()
        self._proof: launch.LaunchedProcess | None = None
        self._is_proved = False
        self._tries = _TRIES if _is_bash(settings.shell) and not reads_at_start(settings.env) else 0

    @property
    def shell(self) -> WarmShell | None:
        return self._shell

    def fill(self, *, is_alone: bool) -> None:
        """Start one, where there is none; called when the box's last running command has ended. `is_alone`: no detached process
        lives in the box either, so the trampoline may be used."""
        self._was_alone = is_alone
        if self._tries == 0 or self._shell is not None or self._proof is not None:
            return
        try:
            # The trampoline builds no walls and becomes no other user: a fork must start the shell that needs it.
            step = self._step if is_alone and not walls.are_up() and self._settings.user is None else None
            os.chdir(self._settings.directory)  # where the trampoline starts it
            self._shell = WarmShell(self._settings, self._release, step)
        except OSError:
            return  # no room now; the next command takes a fresh one
        if not self._is_proved:
            self._prove()

    def _prove(self) -> None:
        shell, self._shell = self._shell, None
        assert shell is not None
        self._proof = shell.give(f"exit {_PROOF}", cwd=None, env={}, wants_stdin=False)
        if self._proof is None:
            # One that is late proves nothing: the machine is busy.
            self._tries -= shell.was_executed()
            shell.end()

    def take(self, script: str, *, cwd: str, env: dict[str, str], wants_stdin: bool) -> launch.LaunchedProcess | None:
        """The waiting shell, with this to run. None where a fresh one must; in any case none waits any more."""
        shell, self._shell = self._shell, None
        if shell is None or not can_use_waiting_shell(script, cwd=cwd, env=env):
            self._drop(shell)
            return None
        elsewhere = None if cwd == self._settings.directory and self._starts_there() else cwd
        started = shell.give(script, cwd=elsewhere, env=env, wants_stdin=wants_stdin)
        if started is None:
            self._drop(shell)
        return started

    def _starts_there(self) -> bool:
        """Whether the directory in which the shell was started is still the one of that path: outside a box it can be replaced."""
        try:
            return os.path.samestat(os.stat("."), os.stat(self._settings.directory))
        except OSError:
            return False

    @property
    def is_all(self) -> bool:
        """Whether nothing lives in the box but what waits: nothing else did when that was started, and nothing was started since."""
        return self._was_alone and self._shell is not None

    def pids(self) -> set[int]:
        """The agent's own, that no command has left behind."""
        proof = {self._proof.pid} if self._proof is not None else set()
        return proof | ({self._shell.started.pid} if self._shell is not None else set())

    def empty(self) -> None:
        """End what waits, for a command that starts without it."""
        shell, self._shell = self._shell, None
        self._drop(shell)
        if self._proof is not None:
            self._close_proof()

    def _drop(self, shell: WarmShell | None) -> None:
        if shell is not None:
            shell.end()

    def _close_proof(self) -> None:
        assert self._proof is not None
        proof, self._proof = self._proof, None
        _close(*proof.outputs)
        launch.end_at_once(proof.pid)

    def has_ended(self, pid: int, status: int) -> bool:
        """A child of the agent has died. True when it was the proof and held: then a shell may wait."""
        if self._shell is not None and self._shell.started.pid == pid:
            shell, self._shell = self._shell, None
            shell.close()
        if self._proof is None or self._proof.pid != pid:
            return False
        _close(*self._proof.outputs)
        self._proof = None
        self._is_proved = os.WIFEXITED(status) and os.WEXITSTATUS(status) == _PROOF
        if not self._is_proved:
            self._tries -= 1  # it may have been killed by what runs in the box
        return self._is_proved
