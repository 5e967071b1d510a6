"""`limpet shell --container`: a shell in a container's box that can be left and joined again, with or without a gateway.

The row says where the box is; the box itself says which sandbox runs there. An open session keeps the container in use.
"""

from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

import anyio
from anyio import to_thread

from limpet import wiring
from limpet.cli.ask import AskFailed, start_box
from limpet.cli.session import Ending, LeftRunning, Session, Stopped
from limpet.cli.shell import conclude, has_terminal, interactive, needs, piped
from limpet.cli.terminal import Screen
from limpet.config import Config, load_config
from limpet.containers.container import is_due, read_ref
from limpet.core.clock import SystemClock
from limpet.core.command import Lost, Position
from limpet.core.errors import HomeUnusable, LimpetError, OfferMissing, SandboxGone, StoreError
from limpet.core.ports import Offer, Process, Runtime, Sandbox
from limpet.store.containers import ContainerRecord, Containers
from limpet.store.database import Database, may_exist
from limpet.workspace.shell import SandboxShell, Shell

RECENT = 64 << 10  # bytes of a shell's output that are shown again when it is joined
HOLD_EVERY = 20.0  # seconds; at least three times in a container's time to live


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinRequest:
    """Which shell of which container. `config` is the gateway's settings file, `url` where the gateway is, if there is one."""

    container: str
    number: int
    config: Path | None
    url: str

    @property
    def exec_id(self) -> str:
        return f"shell.{self.number}"

    @property
    def again(self) -> str:
        """The command that joins it again."""
        return f"limpet shell --container {self.container}{'' if self.number == 1 else f' --number {self.number}'}"


class JoinFailed(LimpetError):
    """There is no such container, or its box cannot be joined."""


def join(wanted: JoinRequest) -> int:
    """Returns the shell's exit code, 0 where it was left, 125 where its box was lost under it. Raises LimpetError."""
    return anyio.run(_join, wanted)


async def _join(wanted: JoinRequest) -> int:
    config = load_config(wanted.config)
    async with AsyncExitStack() as stack:
        settings = config.database
        if not may_exist(settings, home=config.home):
            raise JoinFailed(f"There are no containers in {config.home}. Start a gateway there, or set LIMPET_HOME.")
        rows = Containers(await stack.enter_async_context(Database(settings, home=config.home)))
        record = await _running(rows, wanted.container, config)
        runtime = await stack.enter_async_context(_runtime_of(record, config))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_hold, rows, record)
            sandbox = await _enter(wanted, config, rows=rows, runtime=runtime)
            stack.push_async_callback(sandbox.release)
            code = await _shell_in(SandboxShell(sandbox), wanted, rows)
            tasks.cancel_scope.cancel()
        return code


async def _running(rows: Containers, container_id: str, config: Config) -> ContainerRecord:
    """The container's row. JoinFailed unless it can be used."""
    record = await rows.get_any(container_id)
    if record is None or record.status == "deleted":
        raise JoinFailed(f"There is no container {container_id} in {config.home}. Set LIMPET_HOME if it is elsewhere.")
    if record.status != "running" or is_due(record, SystemClock().now()):
        raise JoinFailed(f"The container {container_id} has expired and its data is gone. Create a new one.")
    return record


def _runtime_of(record: ContainerRecord, config: Config) -> Runtime:
    name = record.ref["runtime"] if record.ref else config.features.shell.type
    runtime = wiring.load_runtime(name, where=config.source, key="features.shell.type", home=config.home)
    if Offer.ATTACH not in runtime.offers:
        raise JoinFailed(f"The container {record.id} runs in {name}, whose boxes only their gateway can enter.")
    if missing := needs() - runtime.offers:
        raise OfferMissing(name, min(offer.value for offer in missing))
    return runtime


async def _hold(rows: Containers, record: ContainerRecord) -> None:
    """Keep the container from expiring while the session is open (docs/decisions/a-shell-that-was-left.md)."""
    while True:
        with suppress(StoreError):  # a full disk must not end a person's shell; the next round tries again
            await rows.touch(record.id, SystemClock().now())
        await anyio.sleep(min(HOLD_EVERY, record.idle_ttl / 3))


async def _enter(wanted: JoinRequest, config: Config, *, rows: Containers, runtime: Runtime) -> Sandbox:
    """The container's box, booted if there is none that answers."""
    if (sandbox := await _attach(rows, runtime, wanted.container)) is not None:
        return sandbox
    await _boot(wanted, config)
    if (sandbox := await _attach(rows, runtime, wanted.container)) is not None:
        return sandbox
    raise JoinFailed(f"The box of {wanted.container} was started and has ended again. Try again.")


async def _attach(rows: Containers, runtime: Runtime, container_id: str) -> Sandbox | None:
    record = await rows.get_any(container_id)
    if record is None or record.ref is None:
        return None
    try:
        return await runtime.attach(read_ref(record.ref))
    except SandboxGone:
        return None


async def _boot(wanted: JoinRequest, config: Config) -> None:
    """Boot its box: here where no gateway uses this home, else the gateway does it."""
    try:
        if note := await wiring.boot_box(config, wanted.container):
            Screen().hint(note)
    except HomeUnusable as error:
        if not isinstance(error.__cause__, BlockingIOError):  # held, that is; anything else is a fault of the directory
            raise
        try:
            await to_thread.run_sync(lambda: start_box(wanted.container, url=wanted.url))
        except AskFailed as refusal:
            raise JoinFailed(
                f"The box of {wanted.container} is not running, and the gateway that uses {config.home} could not be had to"
                f" start it: {refusal.message} Name that gateway with --url or LIMPET_URL, or run a command in the container."
            ) from refusal


async def _shell_in(box: Shell, wanted: JoinRequest, rows: Containers) -> int:
    if not has_terminal():
        return await piped(box)
    Screen().hint(f"Shell {wanted.number} of {wanted.container}: Ctrl-\\ Ctrl-\\ leaves it running, exit ends it.")
    session = await _join_or_begin(box, wanted)
    ending = await session.attend()
    if not isinstance(ending, LeftRunning | Stopped | Lost):
        await session.process.forget()
    code = conclude(session, await _explained(ending, rows, wanted))
    if isinstance(ending, LeftRunning):
        Screen().hint(f"Left; it goes on. Join it again with: {wanted.again}")
    return code


async def _join_or_begin(box: Shell, wanted: JoinRequest) -> Session:
    """The shell of that number, or a new one where there is none, or where it has ended since it was left."""
    process = await box.find(wanted.exec_id)
    if process is not None:
        session = await _recent(process)
        if not await _has_ended(process):
            return session
        await session.attend()
        Screen().hint("That shell has ended since it was left; here is a new one.")
        await process.forget()
    return Session(
        process=await box.start(interactive(wanted.container[:13], box.ref.shell), wanted.exec_id), can_leave=True
    )


async def _recent(process: Process) -> Session:
    """A shell that runs already, on from what it printed last."""
    begin, end = await process.extent()
    since = Position(stdout=max(begin.stdout, end.stdout - RECENT), stderr=end.stderr)
    return Session(process=process, can_leave=True, since=since, until=end, redraws=True)


async def _has_ended(process: Process) -> bool:
    with anyio.move_on_after(0.01):
        await process.wait()
        return True
    return False


async def _explained(ending: Ending, rows: Containers, wanted: JoinRequest) -> Ending:
    """A lost box whose container was ended on purpose is told as that."""
    if not isinstance(ending, Lost):
        return ending
    record = await rows.get_any(wanted.container)
    if record is None or record.status != "running":
        status = "deleted" if record is None else record.status
        return Lost(f"The container {wanted.container} was {status}, and its box has ended.")
    return Lost(f"{ending.reason} The files of {wanted.container} are kept; {wanted.again} boots it anew.")
