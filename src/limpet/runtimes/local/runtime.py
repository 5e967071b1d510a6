"""The runtime `local`: commands on this host, unisolated. Chosen by name only, never as a substitute."""

import os
import pwd
import secrets
import shutil
import tempfile
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Self

import anyio
from anyio import to_thread
from anyio.abc import TaskGroup

from limpet.core.command import Command, Exited, Script
from limpet.core.errors import BootFailed, LimpetError, OfferMissing, SandboxClosed, SandboxGone
from limpet.core.ports import Held, Offer, Probe, Sandbox, SandboxRef, SandboxSpec
from limpet.runtimes.agent_client.time_limits import LIMIT_GRACE
from limpet.runtimes.impossible import refuse_impossible_spec
from limpet.runtimes.local import box, walls
from limpet.runtimes.local.paths import LocalPaths
from limpet.runtimes.local.sandbox import NAME, OFFERS, LocalSandbox
from limpet.runtimes.programs import SHELL
from limpet.runtimes.supervisor import InjectFault


class LocalRuntime:
    """core.ports.Runtime. Its sandboxes end with it, and with its process, however that ends. For `inject_fault` see `supervisor`, for
    `limit_grace`, in seconds, `agent_client.time_limits`."""

    def __init__(self, *, limit_grace: float = LIMIT_GRACE, inject_fault: InjectFault | None = None) -> None:
        self._limit_grace = limit_grace
        self._inject_fault = inject_fault
        self._stack = AsyncExitStack()
        self._tasks: TaskGroup | None = None
        self._living: dict[str, LocalSandbox] = {}
        self._walls: frozenset[Offer] = frozenset()

    @property
    def name(self) -> str:
        return NAME

    @property
    def offers(self) -> frozenset[Offer]:
        """With the one wall that holds here, where the kernel can build it."""
        return OFFERS | self._walls

    @property
    def held(self) -> Held:
        return Held()

    async def __aenter__(self) -> Self:
        self._walls = await to_thread.run_sync(walls.offers)
        self._tasks = await self._stack.enter_async_context(anyio.create_task_group())
        return self

    async def __aexit__(self, *exc: object) -> None:
        with anyio.CancelScope(shield=True):
            for sandbox in list(self._living.values()):
                await sandbox.destroy()
        await self._stack.aclose()

    async def probe(self) -> Probe:
        try:
            with anyio.fail_after(10):
                await self._run_something()
        except (LimpetError, OSError, TimeoutError) as error:
            return Probe(works=False, detail=f"No command could be run: {error}", remedy="apt-get install bash")
        return Probe(
            works=True,
            detail=f"Commands run as {_user_name()} on this host.",
            notes=(
                "There is no isolation: a command can read and change everything that this user can.",
                *self._notes_on_walls(),
                "Memory, processes and CPU are not limited.",
                "/mnt/data is a directory of this host, named by the variable LIMPET_DATA.",
                "Sandboxes end with the process that created them.",
            ),
        )

    def _notes_on_walls(self) -> tuple[str, ...]:
        if Offer.WALL_READONLY in self._walls:
            return ("Of a policy's rules only readonly is held by the kernel; the others are guard rails.",)
        return ("A policy's rules are guard rails: Landlock (version 5, Linux 6.10) or libseccomp is missing.",)

    async def create(self, spec: SandboxSpec) -> Sandbox:
        self._refuse(spec)
        temporary = None if spec.directory else Path(tempfile.mkdtemp(prefix="limpet-local-"))
        try:
            return await self._boot(spec, temporary)
        except BaseException:
            if temporary is not None:
                shutil.rmtree(temporary, ignore_errors=True)
            raise

    async def _boot(self, spec: SandboxSpec, temporary: Path | None) -> Sandbox:
        directory = spec.directory or temporary
        assert directory is not None
        place = LocalPaths(directory=directory.absolute(), owner=spec.user_id)
        try:
            place.make()
        except OSError as error:
            raise BootFailed(f"its directory {directory} cannot be made: {error.strerror}.") from error
        shell = _bash()
        fence = await to_thread.run_sync(partial(walls.fence_of, spec, place=place, shell=shell, host=os.environ))
        env = {**place.environment(os.environ), **spec.env}
        boot_id = secrets.token_hex(16)
        plan = box.Plan(
            name=spec.name, boot_id=boot_id, place=place, temporary=temporary, shell=shell, env=env, fence=fence
        )
        if self._tasks is None:
            raise SandboxClosed
        live = await box.start(
            plan,
            tasks=self._tasks,
            ended=lambda: self._has_ended(boot_id),
            limit_grace=self._limit_grace,
            inject_fault=self._inject_fault,
        )
        facts = {"pid": live.agent.pid, "directory": str(place.directory)}
        ref = SandboxRef(runtime=NAME, name=spec.name, boot_id=boot_id, walls=spec.walls.digest, facts=facts)
        sandbox = LocalSandbox(
            ref,
            live.client,
            place,
            sets_terminal="TERM" not in spec.env,
            ending=live.end,
            hold_limit=live.time_limits.hold,
        )
        if not live.has_ended:
            self._living[spec.name] = sandbox
        return sandbox

    def _has_ended(self, boot_id: str) -> None:
        self._living = {name: sandbox for name, sandbox in self._living.items() if sandbox.boot_id != boot_id}

    async def attach(self, ref: SandboxRef) -> Sandbox:
        sandbox = self._living.get(ref.name)
        if sandbox is None or sandbox.boot_id != ref.boot_id:
            raise SandboxGone("a local sandbox ends with the process that created it.")
        return sandbox

    async def sweep(self, living: frozenset[str] | None, *, dry_run: bool = False) -> list[str]:
        return []  # an agent clears up after its owner, however that ended

    def _refuse(self, spec: SandboxSpec) -> None:
        refuse_impossible_spec(spec, self.offers, NAME)
        if spec.image is not None:
            raise OfferMissing(NAME, "an image", [])
        if spec.read_only:
            raise OfferMissing(NAME, "read-only directories", [])
        if spec.name in self._living:
            raise BootFailed(f"a sandbox named {spec.name} is living. Choose another name, or end that one.")

    async def _run_something(self) -> None:
        async with LocalRuntime() as runtime:
            sandbox = await runtime.create(SandboxSpec(name="probe"))
            process = await sandbox.start(Command(what=Script("true"), timeout=5.0), "probe")
            outcome = await process.wait()
            if outcome != Exited(0):
                raise BootFailed(f"a first command ended with {outcome}.")


def _bash() -> str:
    """The bash that this user has: by its usual path where it is that one, since bash begins its complaints with it."""
    found = shutil.which("bash")
    return SHELL if found is None or (os.path.exists(SHELL) and os.path.samefile(found, SHELL)) else found


def _user_name() -> str:
    """By /etc/passwd, not by the environment, which may name another; containers often run users without an entry there."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return f"user id {os.geteuid()}, which has no entry in /etc/passwd,"
