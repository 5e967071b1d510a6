"""The extension points: what a runtime, a sandbox, a process and its files promise. That of engines is in `core/engine.py`.

These docstrings are the manual for authors of runtimes; `limpet.testing` asks each promise as a case. A runtime contains no
policy: no allowlist, no retry, no redaction, no logging of command text. What it can do it declares as offers; asking for what
is not offered raises OfferMissing when the sandbox is created, never at the first call. Each docstring lists under `Raises:` the errors
that callers handle; a runtime translates the errors of its libraries into these.
"""

import hashlib
import socket
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, Literal, Protocol, Self

from limpet.core.box_directories import DATA
from limpet.core.command import START, Chunk, Command, Outcome, Position

# The group of entry points by which a package adds a runtime: its name, and a callable that is given `home` (a Path, where it may keep
# its own things below a directory of its own) and `settings` (`core.box_settings.BoxSettings`) by keyword and returns a `Runtime`.
RUNTIMES_OF_PACKAGES = "limpet.runtimes"


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
    PORTS = "ports"  # what listens in the sandbox is listed, and connections to it are made from outside
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
    `programs` are languages and tools that its sandboxes have, such as "python3 3.11.2"; empty where it did not look. `shell` is the
    name of what runs scripts, "bash" or "sh".
    """

    works: bool
    detail: str
    remedy: str = ""
    notes: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    shell: str = "bash"


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
    commands (only where the creator is root; None: the runtime's choice). `image` is an absolute path of a root file
    system, an OCI layout or an archive, or a relative one that is the name of an image in a registry (None: the host's
    programs). `env` is added to the sandbox's own few variables; the host's environment never reaches a command.
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
    digest of those that it was made with, `shell` the path of what runs its scripts."""

    runtime: str
    name: str
    boot_id: str
    version: int = 1
    walls: str = ""
    shell: str = "/bin/bash"
    facts: Mapping[str, Any] = field(default_factory=dict)


MOST_READ = 1 << 30  # bytes of a file that come back at once where a caller names no limit
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
    /tmp), or relative to /mnt/data. No operation follows a link, in the last part or on the way.

    Raises, in every method: PathOutside where the path or a link in it leaves the roots, NotADirectory where a part on the way is a
    file, FileForbidden where permissions or a read-only mount forbid it, FileError for any other failure."""

    async def read(self, path: str, *, start: int = 0, length: int | None = None, limit: int | None = None) -> bytes:
        """The bytes of a regular file from `start`, at most `length`.

        Raises: FileMissing; NotAFile for a directory, fifo, socket or device; FileTooLarge if more than `limit` would come back, where
        None is MOST_READ: a sparse file is as large as a command says."""
        ...

    def stream(self, path: str, *, start: int = 0, length: int | None = None) -> AsyncIterator[bytes]:
        """The same in pieces of at most 1 MiB, so that a large file is never in memory as a whole.

        Raises: as `read`, when the first piece is asked for."""
        ...

    async def write(self, path: str, data: bytes | AsyncIterator[bytes], *, mode: int = 0o644) -> FileStat:
        """Write a whole regular file, atomically (a reader sees the old content or the new, never half); parents are made. It belongs
        to the user that runs commands.

        Raises: NotAFile where a directory or special file is in its place; SandboxFull where the disk or a quota is full."""
        ...

    async def list(self, path: str = DATA, *, recursive: bool = False, limit: int | None = None) -> list[FileStat]:
        """The entries of a directory, sorted by path. `recursive` descends into directories, never through links. No more than `limit`
        entries are looked at: where that many come back there may be others, before and between them.

        Raises: FileMissing; NotADirectory."""
        ...

    async def stat(self, path: str) -> FileStat:
        """One entry; a link is described, not followed. Raises: FileMissing."""
        ...

    async def mkdir(self, path: str) -> FileStat:
        """Make a directory and its parents; quiet if it exists. It belongs to the user that runs commands.

        Raises: NotADirectory where anything else is in its place; SandboxFull."""
        ...

    async def delete(self, path: str) -> None:
        """Remove a file, a link or a whole directory. Raises: FileMissing; FileForbidden for a root itself."""
        ...


class Process(Protocol):
    """One command that was started. It goes on whether or not its output is read."""

    @property
    def exec_id(self) -> str: ...

    def output(self, since: Position = START) -> AsyncIterator[Chunk]:
        """What it printed from `since` on, stored and then live, each stream in order and without gaps. The iterator ends when the
        command has ended and all was delivered. A reader that does not ask for the next chunk slows the command down (backpressure);
        nothing is dropped. May be called again from any position until `forget`. Raises: SandboxGone; chunks received before are kept."""
        ...

    async def extent(self) -> tuple[Position, Position]:
        """The first position of its output that is still kept, and the position up to which it has arrived. Raises: SandboxGone."""
        ...

    async def wait(self) -> Outcome:
        """How it ended; at once if it has. A command whose output fits the runtime's spool ends without a reader. If the sandbox died
        while it ran the outcome is Lost; no error is raised."""
        ...

    def notes(self) -> Sequence[str]:
        """The limits of the sandbox that it reached, as sentences without a capital letter, such as "killed: the box's memory limit of
        512 MiB was reached."; complete once `wait` has returned, gone after `forget`. Empty where the runtime does not know. They come
        out of the sandbox, so they are as untrusted as its output."""
        ...

    async def write(self, data: bytes) -> None:
        """More standard input; returns when it was accepted. Quiet if the process no longer reads. Raises: OfferMissing; SandboxGone."""
        ...

    async def close_stdin(self) -> None:
        """End of input; twice is quiet. Raises: SandboxGone."""
        ...

    async def resize(self, columns: int, rows: int) -> None:
        """New size of its terminal, in characters. Raises: OfferMissing without Offer.PTY; SandboxGone."""
        ...

    async def signal(self, number: int) -> None:
        """Send a signal to the command's own processes; quiet if it has ended. Raises: OfferMissing without Offer.SIGNALS; SandboxGone."""
        ...

    async def abort(self) -> None:
        """Kill the command and all its descendants (those that called setsid too); its outcome is Aborted. Returns when it has ended.
        Idempotent; quiet if it has ended. Raises: SandboxGone."""
        ...

    async def forget(self) -> None:
        """Free its output and its exec id, once it has ended; otherwise, when repeated, and where the sandbox is gone, it does nothing.
        Raises nothing."""
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
    def files(self) -> Files:
        """Raises: SandboxClosed; SandboxGone where the runtime knows that it has ended."""
        ...

    async def start(self, command: Command, exec_id: str) -> Process:
        """Start a command. Idempotent: starting an id twice gives the same process, whatever the command. A program that does not exist
        is a result (exit code 127), not an error.

        Raises: CommandRefused and its subclasses where nothing ran because of the command; OfferMissing where it asks for what this
        runtime never does; SandboxFull where a limit leaves no room for it; SandboxGone; SandboxClosed."""
        ...

    async def find(self, exec_id: str) -> Process | None:
        """The process of that id, running, or ended and not yet forgotten; else None. Raises: SandboxGone; SandboxClosed."""
        ...

    async def listening_ports(self) -> Sequence[int]:
        """The TCP ports on which commands of the sandbox listen, sorted. They come out of it: no more is known of them. Raises:
        OfferMissing without Offer.PORTS; SandboxGone; SandboxClosed."""
        ...

    async def connect(self, port: int) -> socket.socket:
        """A new TCP connection to such a port, non-blocking, which is the caller's. It reaches the sandbox's own loopback and never the
        host's. Raises: ConnectionRefusedError where nothing accepts; OfferMissing without Offer.PORTS; SandboxGone; SandboxClosed."""
        ...

    async def touch(self) -> None:
        """Restart its time to live. Also the way to ask whether it is alive. Raises: SandboxGone; SandboxClosed."""
        ...

    async def release(self) -> None:
        """Detach from it: free the descriptors and tasks here. A sandbox with a time to live goes on. Twice is quiet, and so is one that
        has ended.

        Raises: OSError or RuntimeUnavailable where what is its own on the host could not be let go of; the next `sweep` tries again."""
        ...

    async def destroy(self) -> None:
        """End it and every process in it; when this returns only its `directory` is left. Twice is quiet, and so is one that has ended.

        Raises: OSError, BootFailed or RuntimeUnavailable where the host or the engine did not end or remove it; the next `sweep` tries
        again."""
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
        """How limits are enforced on this host, known once it is open. Offer.LIMITS: memory, processes and CPU, of the whole sandbox."""
        ...

    async def __aenter__(self) -> Self:
        """Open it. A host that cannot run sandboxes is no error here: `probe` answers with it, and `create` raises.

        Raises: OSError where its own directories cannot be made."""
        ...

    async def __aexit__(self, *exc: object) -> None: ...

    async def probe(self) -> Probe:
        """Run a command in a trial sandbox, within 10 s. A host that cannot is an answer (`Probe.works` is false), not an error.

        Raises: SandboxClosed where a runtime that must be open is not."""
        ...

    async def create(self, spec: SandboxSpec) -> Sandbox:
        """A new sandbox that answers. After an error, and when cancelled, nothing of it is left.

        Raises: OfferMissing for a need or setting that it never offers; BootFailed; RuntimeUnavailable where this host cannot run it."""
        ...

    async def attach(self, ref: SandboxRef) -> Sandbox:
        """The living sandbox of that ref, from any process. Raises: SandboxGone, without a wait, if it has ended or is another boot."""
        ...

    async def sweep(self, living: frozenset[str] | None, *, dry_run: bool = False) -> list[str]:
        """End and remove what earlier processes left behind (orphans): sandboxes, cgroups, sockets and temporary directories whose name
        is not in `living`; with None only the remains of sandboxes that have ended. Returns one sentence for each thing removed; with
        `dry_run` for each that would be, and removes nothing. What cannot be removed is left for the next sweep.

        Raises: SandboxClosed where it is not open; BootFailed or RuntimeUnavailable where an engine does not answer or refuses."""
        ...
