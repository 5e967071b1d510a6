"""The extension points: what a runtime, a sandbox, a process, its files and an engine promise.

These docstrings are the manual for authors of runtimes; `limpet.testing` asks each promise as a case. A runtime contains no
policy: no allowlist, no retry, no redaction, no logging of command text. What it can do it declares as offers; asking for what
is not offered raises OfferMissing when the sandbox is created, never at the first call.
"""

import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, Literal, Protocol, Self

from limpet.core.command import START, Chunk, Command, Outcome, Position


class Offer(Enum):
    """What a runtime can do, beyond running a script and giving back its output and exit code."""

    ARGV = "argv"  # programs without a shell
    STREAMING = "streaming"  # output arrives while the command runs
    STDIN = "stdin"  # bytes may be given, at the start or while it runs
    PTY = "pty"  # a pseudo-terminal, with resize
    SIGNALS = "signals"  # signals to a running process
    CONCURRENT = "concurrent"  # several commands at once
    DETACHED = "detached"  # what a command leaves behind goes on running
    ATTACH = "attach"  # another process finds the sandbox and its commands again
    ISOLATION = "isolation"  # the host's files, processes and network are out of reach
    LIMITS = "limits"  # memory, processes and CPU are bounded for the whole sandbox
    NETWORK_POLICY = "network_policy"  # names and addresses can be allowed one by one
    SECRETS = "secrets"  # placeholders are replaced outside the sandbox
    DIRECTORY = "directory"  # its files lie in a directory of this host that is named, and may be there before it
    # Rules of a policy that it builds into the sandbox, so that the kernel holds them (`Policy.enforce` "wall"):
    WALL_ALLOWED_COMMANDS = "wall_allowed_commands"  # nothing but the programs that are named can be run
    WALL_BLOCKED_COMMANDS = "wall_blocked_commands"  # the programs that are named are not there
    WALL_READONLY = "wall_readonly"  # no file can be changed
    WALL_ALLOWED_PATHS = "wall_allowed_paths"  # nothing outside the paths that are named is there


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """What a runtime found when it really ran something on this host.

    `works` says whether sandboxes can be had. `detail` is one sentence on how (or why not); `remedy` the command or flag that
    would mend it, empty where all is well; `notes` are one-sentence reductions, such as a limit that holds per process only.
    """

    works: bool
    detail: str
    remedy: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds of one sandbox; None leaves the runtime's own default. Sizes in bytes, `cpus` in cores."""

    memory: int | None = None
    cpus: float | None = None
    processes: int | None = None
    disk: int | None = None
    file_size: int | None = None
    open_files: int | None = None


Scope = Literal["sandbox", "process", "none"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """What a limit binds on this host: a whole sandbox, each process in it, or nothing. `notes` say in sentences what is not held."""

    memory: Scope = "none"
    processes: Scope = "none"
    cpu: Scope = "none"
    disk: Scope = "none"
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WhileOwned:
    """The sandbox ends with the process that created it, however that ends."""


@dataclass(frozen=True, slots=True)
class TimeToLive:
    """The sandbox outlives its creator and ends once no call has reached it for so many seconds and no command runs."""

    seconds: float


Lifetime = WhileOwned | TimeToLive


@dataclass(frozen=True, slots=True, kw_only=True)
class Walls:
    """What shall not be possible in a sandbox, whatever a command says. A runtime builds in as much of it as it can; its offers
    (`WALL_…`) say what of it then holds against every command. Nothing here is given to a sandbox that it would not have anyway.

    `programs`: only programs of these names, with what they load, can be run beside the shell and its builtins (None: all).
    `hidden`: programs of these names can be neither run nor read. Names are those that the search path finds, or absolute paths.
    `is_read_only`: no file can be changed, made or removed. `paths`: beside the sandbox's own directories and what programs
    need of the system, only what lies in these directories is there (None: all).
    """

    programs: frozenset[str] | None = None
    hidden: frozenset[str] = frozenset()
    is_read_only: bool = False
    paths: tuple[str, ...] | None = None

    @property
    def digest(self) -> str:
        """The same for the same walls in any process; "" for none."""
        if self == Walls():
            return ""
        programs = None if self.programs is None else sorted(self.programs)
        values = (programs, sorted(self.hidden), self.is_read_only, self.paths)
        return hashlib.sha256(repr(values).encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxSpec:
    """What to create.

    `name` is unique among living sandboxes: letters, digits, `_` and `-`, at most 64. `directory` is the host directory that
    holds the sandbox's lasting files (`data` becomes /mnt/data, `home` becomes /home/agent); it may hold them already, from an
    earlier sandbox of the same container. The runtime makes what is missing in it and never deletes it; None lets the
    runtime use a temporary one that goes with the sandbox. `user_id` is the host uid that owns the directory and runs the
    commands (only where the creator is root; None: the runtime's choice). `image` is a root file system directory (None:
    the host's programs). `env` is added to the sandbox's own few variables; the host's environment never reaches a command.
    `read_only` maps paths in the sandbox to host directories that appear there unchangeably. `walls` are built into it.
    """

    name: str
    lifetime: Lifetime = field(default_factory=WhileOwned)
    directory: Path | None = None
    user_id: int | None = None
    image: Path | None = None
    limits: Limits = field(default_factory=Limits)
    env: Mapping[str, str] = field(default_factory=dict)
    read_only: Mapping[str, Path] = field(default_factory=dict)
    walls: Walls = field(default_factory=Walls)
    needs: frozenset[Offer] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxRef:
    """From this another process attaches again. `facts` are the runtime's own, JSON values only; `version` is theirs. `walls` is the
    digest of those that it was made with."""

    runtime: str
    name: str
    boot_id: str
    version: int = 1
    walls: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)


FileKind = Literal["file", "directory", "link", "other"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileStat:
    """One entry. `path` is absolute in the sandbox; `size` in bytes; `modified` in nanoseconds since 1970; `identity` changes
    when a path is replaced by another file (an inode number, where there is one); `changed` is the inode's change time in ns.
    `target` is where a link points, as it was written; only `Files.stat` tells it."""

    path: str
    kind: FileKind
    size: int
    modified: int
    mode: int = 0o644
    identity: int = 0
    changed: int = 0
    target: str = ""


class Files(Protocol):
    """The sandbox's files, seen from outside. Paths are absolute in the sandbox, below its roots (/mnt/data, /home/agent and
    /tmp), or relative to /mnt/data. No operation follows a link, in the last part or on the way: a link in `path`
    raises PathOutside. Errors: FileMissing, NotAFile, NotADirectory, FileForbidden, PathOutside."""

    async def read(self, path: str, *, start: int = 0, length: int | None = None, limit: int | None = None) -> bytes:
        """The bytes of a regular file from `start`, at most `length`. FileTooLarge if more than `limit` would come back."""
        ...

    def stream(self, path: str, *, start: int = 0, length: int | None = None) -> AsyncIterator[bytes]:
        """The same in pieces of at most 1 MiB, so that a large file never sits in memory. Errors come at the first piece."""
        ...

    async def write(self, path: str, data: bytes | AsyncIterator[bytes], *, mode: int = 0o644) -> FileStat:
        """Write a whole regular file, atomically (the old content or the new, never half); parents are made. It belongs to the
        user that runs commands."""
        ...

    async def list(
        self, path: str = "/mnt/data", *, recursive: bool = False, limit: int | None = None
    ) -> list[FileStat]:
        """The entries of a directory, by path. `recursive` goes down into directories, never through links. No more than `limit` are
        looked at: where that many come back there may be others, before and between them."""
        ...

    async def stat(self, path: str) -> FileStat:
        """One entry; a link is described, not followed."""
        ...

    async def mkdir(self, path: str) -> FileStat:
        """Make a directory; its parents are made. One that is there already is quiet; anything else there raises NotADirectory. It
        belongs to the user that runs commands."""
        ...

    async def delete(self, path: str) -> None:
        """Remove a file, a link or a whole directory. A path that is not there raises FileMissing."""
        ...


class Process(Protocol):
    """One command that was started. It goes on whether or not its output is read."""

    @property
    def exec_id(self) -> str: ...

    def output(self, since: Position = START) -> AsyncIterator[Chunk]:
        """What it printed from `since` on, stored and then live, each stream in order and without gaps. The iterator ends when
        the command has ended and all was delivered. A reader that does not ask for the next chunk slows the command down, and
        nothing is dropped. May be called again from any position until `forget`. Raises SandboxGone."""
        ...

    async def extent(self) -> tuple[Position, Position]:
        """Where its output begins that is still kept, and where it ends so far: `output` can be asked from the first on, and the
        bytes before the second are there already. Raises SandboxGone."""
        ...

    async def wait(self) -> Outcome:
        """How it ended; at once if it has. Reading the output is not needed for it to end as long as the output is bounded by the
        runtime's spool. Lost, not an error, if the sandbox died under it."""
        ...

    def notes(self) -> Sequence[str]:
        """What of the sandbox's limits it ran into, or made room for: sentences without a capital letter, such as "killed: the
        box's memory limit of 512 MiB was reached."; complete once `wait` has returned, gone with `forget`. Empty where the runtime
        does not know. The sandbox tells them, so they are no more to be trusted than its output."""
        ...

    async def write(self, data: bytes) -> None:
        """More standard input; returns when it was taken over. Quiet if the process no longer reads. Needs Offer.STDIN."""
        ...

    async def close_stdin(self) -> None:
        """End of input; twice is quiet."""
        ...

    async def resize(self, columns: int, rows: int) -> None:
        """New size of its terminal. Needs Offer.PTY."""
        ...

    async def signal(self, number: int) -> None:
        """Send a signal to the command's own processes; quiet if it has ended. Needs Offer.SIGNALS."""
        ...

    async def abort(self) -> None:
        """Kill the command and all its descendants (those that called setsid too); its outcome is Aborted. Quiet if it has ended;
        twice is quiet. Returns when it has ended."""
        ...

    async def forget(self) -> None:
        """Let go of its output and its exec id. Only after it ended; quiet otherwise and when repeated."""
        ...


class Sandbox(Protocol):
    """A file system and processes that outlive a call. Use after `destroy` or `release` raises SandboxClosed."""

    @property
    def ref(self) -> SandboxRef: ...

    @property
    def boot_id(self) -> str:
        """New for every boot: an exec id of another boot id will never be found here."""
        ...

    @property
    def files(self) -> Files: ...

    async def start(self, command: Command, exec_id: str) -> Process:
        """Start a command, or find it: starting an id twice gives the same process, whatever the command. Raises CommandRefused
        (nothing ran), SandboxGone, SandboxClosed. A program that does not exist is a result (127), not an error."""
        ...

    async def find(self, exec_id: str) -> Process | None:
        """The process of that id, running or ended and not yet forgotten."""
        ...

    async def touch(self) -> None:
        """Say that it is still wanted: restarts its time to live. Raises SandboxGone, so it is also the question "are you there?"."""
        ...

    async def release(self) -> None:
        """Let go of it without ending it (where its lifetime is a time to live); descriptors and tasks here are freed. Twice is quiet."""
        ...

    async def destroy(self) -> None:
        """End it and every process in it; when this returns nothing of it is left but its directory. Twice is quiet."""
        ...


class Runtime(Protocol):
    """Where sandboxes come from. Constructors only store; `async with` opens and closes it. Closing releases its sandboxes: those
    of lifetime WhileOwned end, the others live on."""

    @property
    def name(self) -> str: ...

    @property
    def offers(self) -> frozenset[Offer]: ...

    @property
    def held(self) -> Held:
        """How limits are held here, known once it is open. Offer.LIMITS says that memory, processes and CPU are, of the whole sandbox."""
        ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *exc: object) -> None: ...

    async def probe(self) -> Probe:
        """Really run something, within 10 s; never raises for a host that cannot."""
        ...

    async def create(self, spec: SandboxSpec) -> Sandbox:
        """A new sandbox that answers. Raises OfferMissing, BootFailed, RuntimeUnavailable; then, and when cancelled, nothing of it is
        left."""
        ...

    async def attach(self, ref: SandboxRef) -> Sandbox:
        """The living sandbox of that ref, from any process. Raises SandboxGone at once if it is not there any more, or is another boot."""
        ...

    async def sweep(self, living: frozenset[str] | None, *, dry_run: bool = False) -> list[str]:
        """End and clear what earlier processes left behind: sandboxes, cgroups, sockets and temporary directories whose name is not
        in `living`; with None only what is left of sandboxes that have ended. Returns one sentence for each thing cleared; with
        `dry_run` for each that would be, and clears nothing."""
        ...


RunState = Literal["running", "ended", "unknown"]


class Engine(Protocol):
    """Who carries runs on. A run is known by its response's id; all that it needs is in the store, so that any engine can take it up.

    `start` and `recover` call the `carry` function given to the engine with that id; it does all steps itself, in order, and
    reads the journal first (docs/architecture.md, "The journal").
    """

    async def start(self, run_id: str) -> None:
        """Begin carrying a run; returns when it is accepted. Starting an id that is being carried is quiet."""
        ...

    async def cancel(self, run_id: str) -> None:
        """Stop carrying it now: its commands are killed within 2 s. Returns when the run has let go; quiet if it is not carried."""
        ...

    async def status(self, run_id: str) -> RunState: ...

    async def recover(self) -> list[str]:
        """At start: take care of runs whose process died. Returns their ids."""
        ...

    async def close(self) -> None:
        """Stop accepting runs and let go of those that are carried; what is stored stays as it is."""
        ...


Carry = Callable[[str], Awaitable[None]]
