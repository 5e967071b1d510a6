"""A sandbox whose commands an agent owns, behind the port `Sandbox`."""

import socket
from collections.abc import Awaitable, Callable, Sequence
from typing import NoReturn

from limpet.core.box_directories import DATA
from limpet.core.command import Command, Lost, Outcome, Script
from limpet.core.errors import BadCommand, OfferMissing, SandboxFull, SandboxGone, WorkingDirectoryMissing
from limpet.core.ports import Files, Offer, SandboxRef
from limpet.runtimes.agent import wire
from limpet.runtimes.agent_client.client import Client
from limpet.runtimes.agent_client.events import Answer, CommandFinished, CommandStarted, Described, RequestRefused
from limpet.runtimes.agent_client.pending import AnswerOverdue, OutputSubscription, Pending
from limpet.runtimes.agent_client.process import BoxProcess
from limpet.runtimes.impossible import refuse_impossible
from limpet.runtimes.open_sandbox import OpenSandbox

# What every sandbox can do whose commands an agent owns.
OFFERS_OF_AGENTS = frozenset(
    {Offer.ARGV, Offer.STREAMING, Offer.STDIN, Offer.PTY, Offer.SIGNALS, Offer.CONCURRENT, Offer.DETACHED}
)
# Sees to it that a command which is being started, with that start pending, ends in so many seconds.
HoldLimit = Callable[[BoxProcess, Pending, float], None]


class AgentSandbox(OpenSandbox):
    """core.ports.Sandbox. `ending` ends it and clears what it had; `leaving` only lets go of it; `hold_limit` is asked for each command
    that has a time limit, where the runtime does not leave that to the agent alone."""

    def __init__(
        self,
        ref: SandboxRef,
        client: Client,
        files: Files,
        offers: frozenset[Offer],
        *,
        ending: Callable[[], Awaitable[None]],
        leaving: Callable[[], Awaitable[None]],
        hold_limit: HoldLimit | None = None,
    ) -> None:
        super().__init__(ref, files)
        self._client = client
        self._offers = offers
        self._ending = ending
        self._leaving = leaving
        self._hold_limit = hold_limit
        self._processes: dict[int, BoxProcess] = {}

    async def start(self, command: Command, exec_id: str) -> BoxProcess:
        self._require_open()
        refuse_impossible(command, self._offers, self._ref.runtime, shell=self._ref.shell)
        stdin = command.stdin or b""
        if len(stdin) > wire.STDIN_LIMIT:
            raise BadCommand(
                f"The standard input has {len(stdin)} bytes; {wire.STDIN_LIMIT} fit. Write it to a file under /mnt/data."
            )
        ahead = self._client.expect_ahead()
        asked = wire.pack({"exec_id": exec_id, "reader": ahead.number, **_asked(command)})
        payload = wire.NUMBER.pack(len(asked)) + asked + stdin
        begun = BoxProcess(exec_id, self._client)
        met: list[BoxProcess] = []
        pending = Pending(lambda answer: met.extend(self._begin(begun, ahead, answer)))
        if command.timeout is not None and self._hold_limit is not None:
            self._hold_limit(begun, pending, command.timeout)
        try:
            answer = await self._client.ask_with(wire.START, payload, pending, reading=ahead)
        except AnswerOverdue:
            return begun  # it has timed out
        except BaseException:
            self._client.close_reading(ahead)
            begun.end(Lost("Its start was given up."))
            raise
        if isinstance(answer, RequestRefused):
            _raise_refusal(answer, command)
        return met[0]

    def _begin(self, begun: BoxProcess, ahead: OutputSubscription, answer: Answer) -> list[BoxProcess]:
        """Make the handle in the moment in which the answer comes: the process's output and end may lie right behind it."""
        match answer:
            case CommandStarted():
                begun.number, begun.pid = answer.process, answer.pid
                begun.comes_with(ahead)
                if begun.has_ended:  # its time was up before it began
                    self._client.ask_soon(wire.ABORT, {"process": answer.process})
                else:
                    self._follow(answer.process, begun)
                return [begun]
            case CommandFinished():
                begun.number = answer.process
                self._client.end_reading(ahead)
                ahead.put_all(answer.stdout, answer.stderr)
                begun.comes_with(ahead)
                begun.end(answer.outcome)
                return [begun]
            case _:
                self._client.end_reading(ahead)
                begun.end(Lost("Another one was begun with its id, or none."))
                return [self._met(begun.exec_id, answer)] if isinstance(answer, Described) else []

    async def find(self, exec_id: str) -> BoxProcess | None:
        self._require_open()
        met: list[BoxProcess] = []

        def meet(answer: Answer) -> None:
            if isinstance(answer, Described):
                met.append(self._met(exec_id, answer))

        await self._client.ask(wire.FIND, {"exec_id": exec_id}, heard=meet)
        return met[0] if met else None

    def _met(self, exec_id: str, found: Described) -> BoxProcess:
        if (known := self._processes.get(found.process)) is not None:
            return known
        process = BoxProcess(exec_id, self._client, found.process)
        process.pid = found.pid
        if found.outcome is not None:
            process.end(found.outcome)
        else:
            self._follow(found.process, process)
        return process

    def _follow(self, number: int, process: BoxProcess) -> None:
        self._processes[number] = process
        self._client.follow(number, lambda outcome: self._has_ended(number, outcome))

    def _has_ended(self, number: int, outcome: Outcome) -> None:
        process = self._processes.pop(number, None)
        if process is not None:
            process.end(outcome)

    async def listening_ports(self) -> Sequence[int]:
        raise OfferMissing(self._ref.runtime, Offer.PORTS.value)

    async def connect(self, port: int) -> socket.socket:
        raise OfferMissing(self._ref.runtime, Offer.PORTS.value)

    async def touch(self) -> None:
        self._require_open()
        await self._client.ask(wire.TOUCH, {})

    async def release(self) -> None:
        if not self._closed:
            self._closed = True
            await self._leaving()

    async def destroy(self) -> None:
        if not self._closed:
            self._closed = True
            await self._ending()


def _asked(command: Command) -> dict[str, object]:
    """A command as the agent wants it."""
    size = command.terminal
    return {
        "script": command.what.text if isinstance(command.what, Script) else None,
        "argv": [] if isinstance(command.what, Script) else list(command.what.args),
        "cwd": command.cwd,
        "env": dict(command.env),
        "keeps_stdin_open": command.keeps_stdin_open,
        "read_once": command.read_once,
        "timeout": command.timeout if command.timeout is None else float(command.timeout),
        "terminal": None if size is None else {"columns": size.columns, "rows": size.rows},
    }


def _raise_refusal(answer: RequestRefused, command: Command) -> NoReturn:
    match answer.error:
        case "cwd":
            raise WorkingDirectoryMissing(command.cwd or DATA)
        case "room":
            raise SandboxFull(
                f"The sandbox has no room for one more process ({answer.reason}). Wait for commands to end, or abort some."
            )
        case other:
            raise SandboxGone(f"It refused a command without a reason that we know: {other!r}.")
