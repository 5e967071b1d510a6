"""What an agent can say, as values that were checked: the events of `protocol`."""

from dataclasses import dataclass

from limpet.core.command import Chunk, Outcome, Position

# Answers. `request` is the number that `AgentProtocol.ask` gave.


@dataclass(slots=True, kw_only=True)
class Greeted:
    """To HELLO: who it is."""

    request: int
    version: int
    boot_id: str


@dataclass(slots=True, kw_only=True)
class CommandStarted:
    """To START: it runs, and its output comes to the reader that went with the request. `pid` is the one inside the box; None from
    agents that do not tell it."""

    request: int
    process: int
    pid: int | None
    notes: tuple[str, ...]


@dataclass(slots=True, kw_only=True)
class CommandFinished:
    """To START: it has ended already, and this is all of its output."""

    request: int
    process: int
    outcome: Outcome
    stdout: bytes
    stderr: bytes


@dataclass(slots=True, kw_only=True)
class Described:
    """To FIND, and to START with an exec id that is known. `outcome` is None while it runs; `kept` is where its output begins and
    ends."""

    request: int
    process: int
    outcome: Outcome | None
    kept: tuple[Position, Position]
    pid: int | None
    notes: tuple[str, ...]


@dataclass(slots=True, kw_only=True)
class WritersStopped:
    """To STOP_WRITERS: how many; None where something writes and nothing was to be killed yet."""

    request: int
    killed: int | None


@dataclass(slots=True, kw_only=True)
class Acknowledged:
    """To everything else: done."""

    request: int


@dataclass(slots=True, kw_only=True)
class RequestRefused:
    """To anything: not done. Both are of the box's making, and at most 200 characters long."""

    request: int
    error: str
    reason: str


Answer = Greeted | CommandStarted | CommandFinished | Described | WritersStopped | Acknowledged | RequestRefused

# What comes unasked. `reader` is the number that `AgentProtocol.open_reader` gave.


@dataclass(slots=True)
class Output:
    """The next of a stream; never after OutputEnded or OutputDropped."""

    reader: int
    chunk: Chunk


@dataclass(slots=True)
class OutputEnded:
    """The process has ended and the reader has all."""

    reader: int


@dataclass(slots=True)
class OutputDropped:
    """What the reader should get next was let go of."""

    reader: int


@dataclass(slots=True)
class Ended:
    """A process that was started or found over this connection has ended."""

    process: int
    outcome: Outcome
    notes: tuple[str, ...]


@dataclass(slots=True)
class Broken:
    """The agent broke the protocol. The last event of a connection."""

    reason: str


Event = Answer | Output | OutputEnded | OutputDropped | Ended | Broken
