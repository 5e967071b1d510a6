"""The runtime `docker`: creates containers of the engine on this host, attaches to living ones, and sweeps those that were left behind."""

import logging
import os
import secrets
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Self

import anyio
from anyio import to_thread
from anyio.abc import TaskGroup

from limpet.core.box_directories import TEMPORARY
from limpet.core.command import Command, Exited, Outcome, Script
from limpet.core.errors import BootFailed, LimpetError, RuntimeUnavailable, SandboxClosed, SandboxGone
from limpet.core.network import DoorListeners, DoorPlan
from limpet.core.ports import Held, Offer, Probe, SandboxRef, SandboxSpec, TimeToLive
from limpet.runtimes.agent_client.agent_process import AgentProcess, started_at
from limpet.runtimes.agent_client.sandbox import OFFERS_OF_AGENTS
from limpet.runtimes.bubblewrap import door_sockets
from limpet.runtimes.bubblewrap.limits.disk_watch import Lanes
from limpet.runtimes.bubblewrap.limits.hidden_files import HiddenFilesLedger
from limpet.runtimes.bubblewrap.sandbox import BubblewrapSandbox
from limpet.runtimes.docker import container as containers
from limpet.runtimes.docker.container import ContainerPlan
from limpet.runtimes.docker.engine import Engine, EngineImage, EngineInfo
from limpet.runtimes.docker.leftovers import ContainerCleaner
from limpet.runtimes.docker.live_container import LiveContainer
from limpet.runtimes.docker.settings import DEFAULT_IMAGE, NAME, ContainerPaths, DockerSettings
from limpet.runtimes.hostfiles import HostFiles
from limpet.runtimes.impossible import refuse_impossible_spec
from limpet.runtimes.installed_programs import installed_programs
from limpet.runtimes.supervisor import InjectFault

_OFFERS = OFFERS_OF_AGENTS | {Offer.DIRECTORY, Offer.ATTACH, Offer.ISOLATION}
# Its network must be entered, and the agent's directory be closed to commands.
_OF_ROOT = frozenset({Offer.PORTS, Offer.NETWORK_POLICY, Offer.WALL_READONLY})
_PROBE_WITHIN = 10.0
_LOOK_AGAIN = 0.005
_MISSING = "the package docker is not installed."
_INSTALLS = "pip install 'limpet[docker]'"

log = logging.getLogger("limpet.runtimes")


class DockerRuntime:
    """core.ports.Runtime. Containers outlive this process where their lifetime says so: the engine keeps them.

    For `inject_fault` see `supervisor`.
    """

    def __init__(self, settings: DockerSettings, *, inject_fault: InjectFault | None = None) -> None:
        self._settings = settings
        self._inject_fault = inject_fault
        self._engine = Engine(settings.engine_address)
        self._info: EngineInfo | None = None
        self._cleaner = ContainerCleaner(self._engine, settings)
        self._stack = AsyncExitStack()
        self._tasks: TaskGroup | None = None
        self._living: dict[str, BubblewrapSandbox] = {}
        self._lanes, self._ledger = Lanes(), HiddenFilesLedger()
        self._programs: tuple[str, ...] | None = None

    @property
    def name(self) -> str:
        return NAME

    @property
    def offers(self) -> frozenset[Offer]:
        """LIMITS where the engine bounds memory, processes and CPU; ports and the network's door only for root."""
        bounds = {Offer.LIMITS} if self._bounds_all() else set()
        return _OFFERS | bounds | (_OF_ROOT if os.geteuid() == 0 else frozenset())

    def _bounds_all(self) -> bool:
        info = self._info
        return info is not None and info.bounds_memory and info.bounds_processes and info.bounds_cpus

    @property
    def held(self) -> Held:
        info = self._info
        if info is None:
            return Held()
        unbounded = [
            what
            for what, is_bounded in (
                ("Memory", info.bounds_memory), ("The number of processes", info.bounds_processes), ("CPU", info.bounds_cpus)
            )
            if not is_bounded
        ]  # fmt: skip
        return Held(
            memory="sandbox" if info.bounds_memory else "none",
            processes="sandbox" if info.bounds_processes else "process",
            cpu="sandbox" if info.bounds_cpus else "none",
            disk="sandbox",
            notes=tuple(f"{what} is not bounded by this engine." for what in unbounded),
        )

    async def __aenter__(self) -> Self:
        for directory, mode in ((self._settings.home, 0o711), (self._settings.home / "docker", 0o711)):
            directory.mkdir(parents=True, exist_ok=True)
            directory.chmod(mode)
        with suppress(RuntimeUnavailable):  # it may come later; until then whatever needs it says so
            await self._require_engine()
        self._tasks = await self._stack.enter_async_context(anyio.create_task_group())
        return self

    async def __aexit__(self, *exc: object) -> None:
        with anyio.CancelScope(shield=True):
            for sandbox in list(self._living.values()):
                try:
                    await sandbox.release()
                except (OSError, LimpetError) as error:
                    log.error("The container %s could not be let go of: %s.", sandbox.ref.name, error)
        await self._stack.aclose()
        with anyio.CancelScope(shield=True):
            await self._engine.close()
        self._tasks = None

    async def probe(self) -> Probe:
        try:
            image = _reference(self._settings.image)
            await self._require_engine()
            if not await self._engine.has_image(image):
                return Probe(works=False, detail=f"The engine has no image {image}.", remedy=f"docker pull {image}")
            with anyio.fail_after(_PROBE_WITHIN):
                outcome, shell = await self._try()
        except TimeoutError:
            return Probe(works=False, detail=f"A container did not run `true` within {_PROBE_WITHIN:.0f} s.")
        except RuntimeUnavailable as error:
            return Probe(works=False, detail=error.reason, remedy=error.remedy)
        except (LimpetError, OSError) as error:
            reason = error.reason if isinstance(error, BootFailed) else str(error)
            return Probe(works=False, detail=f"A container did not start: {reason}")
        if outcome != Exited(0):
            return Probe(works=False, detail=f"`true` in a container ended with {outcome}.")
        assert self._info is not None
        who = "a user of its own for each sandbox" if os.geteuid() == 0 else "this user"
        detail = f"A container of {image} ran a command, as {who}, by {self._info.name} {self._info.version}."
        return Probe(works=True, detail=detail, notes=self.held.notes, programs=self._programs or (), shell=shell)

    async def _try(self) -> tuple[Outcome, str]:
        """How a first command ended, and the shell that ran it."""
        sandbox = await self.create(SandboxSpec(name=f"probe-{secrets.token_hex(6)}"))
        try:
            outcome = await (await sandbox.start(Command(what=Script("true")), "probe")).wait()
            if self._programs is None:
                self._programs = await installed_programs(sandbox)
        finally:
            with anyio.CancelScope(shield=True):
                await sandbox.destroy()
        return outcome, os.path.basename(sandbox.ref.shell)

    async def create(self, spec: SandboxSpec) -> BubblewrapSandbox:
        self._require_open()
        await self._require_engine()
        refuse_impossible_spec(spec, self.offers, NAME)
        place = ContainerPaths.of(self._settings.home, spec.name)
        image = await self._engine.image(_reference(spec.image or self._settings.image))
        async with self._cleaner.lock(place):
            earlier = await self._engine.inspect(self._cleaner.name(place))
            if earlier is not None and earlier.runs:
                raise BootFailed(f"a sandbox named {spec.name} lives already.")
            return await self._start(self._plan(spec, place, image))

    async def _start(self, plan: ContainerPlan) -> BubblewrapSandbox:
        """Clear what an earlier container of that name left, and start a new one; nothing of it is left on an error."""
        place, spec = plan.place, plan.spec
        lifeline: int | None = None
        try:
            await self._cleaner.clear(place)
            await to_thread.run_sync(partial(containers.prepare, plan, orphan_grace=self._settings.orphan_grace))
            if not isinstance(spec.lifetime, TimeToLive):
                lifeline = containers.hold_lifeline(place)
            return await self._boot(plan, lifeline)
        except BaseException as error:
            await self._give_up(place, lifeline)
            if isinstance(error, (OSError, SandboxGone)):
                raise BootFailed(str(error)) from error
            raise

    async def _boot(self, plan: ContainerPlan, lifeline: int | None) -> BubblewrapSandbox:
        what = await to_thread.run_sync(containers.asked_of_engine, plan, self._settings)
        container = await self._engine.create(self._cleaner.name(plan.place), **what)
        state = await self._engine.start(container)
        agent = AgentProcess(boot_id=plan.boot_id, pid=state.pid, started=started_at(state.pid) or "")
        await self._until_listening(plan.place, agent, container)
        plan.place.payload.unlink()
        facts = {
            **agent.facts(plan.spec.name),
            "container": container,
            "files": {path: str(directory) for path, directory in plan.files.items()},
            "owner": plan.becomes,
            "disk": plan.limits.disk,
        }
        ref = SandboxRef(
            runtime=NAME,
            name=plan.spec.name,
            boot_id=plan.boot_id,
            walls=plan.spec.walls.digest,
            shell=containers.shell_found(plan.place),
            facts=facts,
        )
        return await self._joined(ref, agent, lifeline)

    async def _until_listening(self, place: ContainerPaths, agent: AgentProcess, container: str) -> None:
        with anyio.move_on_after(self._settings.boot_timeout):
            while agent.lives():
                if containers.is_listening(place):
                    return
                await anyio.sleep(_LOOK_AGAIN)
        complaint = await self._engine.complaint(container)
        raise BootFailed(complaint or f"its agent did not answer within {self._settings.boot_timeout:.0f} s.")

    def _plan(self, spec: SandboxSpec, place: ContainerPaths, image: EngineImage) -> ContainerPlan:
        is_root = os.geteuid() == 0
        owner = self._user_for(spec) if is_root else os.geteuid()
        return ContainerPlan(
            spec=spec,
            place=place,
            image=image,
            boot_id=secrets.token_hex(16),
            owner=owner,
            becomes=owner if is_root else None,
            limits=self._settings.limits(spec.limits),
            files=containers.lasting_files(spec, place),
        )

    def _user_for(self, spec: SandboxSpec) -> int:
        """Who runs the commands. A directory that an earlier sandbox has left keeps its owner: its files are his."""
        if spec.user_id is not None:
            return spec.user_id
        first, count = self._settings.uid_first, self._settings.uid_count
        data = None if spec.directory is None else spec.directory / "data"
        if data is not None and data.is_dir() and not data.is_symlink() and 0 <= data.stat().st_uid - first < count:
            return data.stat().st_uid
        return first + count // 2 + secrets.randbelow(count // 2)

    async def attach(self, ref: SandboxRef) -> BubblewrapSandbox:
        self._require_open()
        if ref.runtime != NAME or ref.version != 1:
            raise SandboxGone(f"It belongs to {ref.runtime}, version {ref.version}.")
        agent = AgentProcess.read(ref.facts)
        if not agent.lives():
            raise SandboxGone("Its container has ended.")
        return await self._joined(ref, agent, None)

    async def _joined(self, ref: SandboxRef, agent: AgentProcess, lifeline: int | None) -> BubblewrapSandbox:
        """A sandbox over a connection to its agent, registered here until it is released."""
        assert self._tasks is not None
        place = ContainerPaths.of(self._settings.home, ref.name)
        clear = partial(self._cleaner.clear_if_still, place, ref.facts["container"])
        live = LiveContainer(
            place, agent, self._settings,
            tasks=self._tasks, clear=clear, lifeline=lifeline, inject_fault=self._inject_fault,
        )  # fmt: skip
        await live.greet()
        directories = {**{path: Path(at) for path, at in ref.facts["files"].items()}, TEMPORARY: place.temporary}

        async def finished(how: Callable[[], Awaitable[None]]) -> None:
            self._living = {name: one for name, one in self._living.items() if one is not sandbox}
            await how()

        async def listen(plan: DoorPlan) -> DoorListeners:
            return await door_sockets.listen(agent, plan)

        async def trust(certificate: bytes) -> None:
            await to_thread.run_sync(door_sockets.trust, place.trust, certificate)

        sandbox = BubblewrapSandbox(
            ref,
            live.client,
            HostFiles(directories, owner=ref.facts["owner"]),
            self.offers,
            ending=lambda: finished(live.end),
            leaving=lambda: finished(live.leave),
            hold_limit=live.time_limits.hold,
            listening=listen,
            trusting=trust,
        )
        self._living[ref.name] = sandbox
        limit = ref.facts.get("disk") or self._settings.disk_mb << 20
        live.supervisor.start(
            "watches its disk", live.watch, (*directories.values(), place.agent), limit, self._ledger, self._lanes
        )
        return sandbox

    async def _give_up(self, place: ContainerPaths, lifeline: int | None) -> None:
        """Leave nothing of a container that could not be started; what cannot be cleared is logged and swept later."""
        with anyio.CancelScope(shield=True):
            if lifeline is not None:
                with suppress(OSError):
                    os.close(lifeline)
            try:
                await self._cleaner.clear(place)
            except (OSError, LimpetError) as error:
                log.error("What is left of the container %s could not be cleared: %s.", place.short, error)

    async def sweep(self, living: frozenset[str] | None, *, dry_run: bool = False) -> list[str]:
        self._require_open()
        try:
            await self._require_engine()
        except RuntimeUnavailable:
            return []  # nothing can be ended without the engine; the next sweep tries again
        return await self._cleaner.sweep(living, dry_run=dry_run)

    def _require_open(self) -> None:
        if self._tasks is None:
            raise SandboxClosed

    async def _require_engine(self) -> None:
        """Raises RuntimeUnavailable where the engine does not answer, nor did before."""
        if self._info is None:
            try:
                self._info = await self._engine.connect()
            except ImportError as missing:
                raise RuntimeUnavailable(NAME, _MISSING, _INSTALLS) from missing


def _reference(image: Path | None) -> str:
    """The name of an image for the engine. Raises BootFailed for a path."""
    if image is not None and image.is_absolute():
        raise BootFailed(
            f"the engine takes images by name, and {image} is a path. docker load -i, or docker import, gives it one."
        )
    return str(image or DEFAULT_IMAGE)
