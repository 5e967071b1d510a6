"""The runtime `bubblewrap`: creates boxes, attaches to living ones, and sweeps those that were left behind."""

import json
import logging
import os
import secrets
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Self

import anyio
from anyio import to_thread

from limpet.core.command import Command, Exited, Script
from limpet.core.errors import BootFailed, LimpetError, RuntimeUnavailable, SandboxClosed, SandboxGone
from limpet.core.ports import Held, Offer, Probe, SandboxRef, SandboxSpec, WhileOwned
from limpet.runtimes.agent_client.agent_process import AgentProcess
from limpet.runtimes.agent_client.sandbox import OFFERS_OF_AGENTS
from limpet.runtimes.bubblewrap import box, ending, probe, walls
from limpet.runtimes.bubblewrap.box_images import RECORD_KEY, BoxImages
from limpet.runtimes.bubblewrap.layout import lay_out
from limpet.runtimes.bubblewrap.leftovers import traces
from limpet.runtimes.bubblewrap.limits import bounding_helper, groups
from limpet.runtimes.bubblewrap.limits.groups import Groups, find_groups
from limpet.runtimes.bubblewrap.live_box import LiveBox, SharedResources
from limpet.runtimes.bubblewrap.remedies import Host, remedy
from limpet.runtimes.bubblewrap.root_image import RootImage
from limpet.runtimes.bubblewrap.sandbox import BubblewrapSandbox
from limpet.runtimes.bubblewrap.settings import ENDS_WITH_OWNER, NAME, BoxPaths, BubblewrapSettings, reference
from limpet.runtimes.bubblewrap.user_environment import shown_processors
from limpet.runtimes.hostfiles import HostFiles
from limpet.runtimes.images.resolver import ResolvedImage
from limpet.runtimes.impossible import refuse_impossible_spec
from limpet.runtimes.installed_programs import installed_programs
from limpet.runtimes.supervisor import InjectFault

_OFFERS = OFFERS_OF_AGENTS | {Offer.DIRECTORY, Offer.ATTACH, Offer.PORTS, Offer.ISOLATION, Offer.NETWORK_POLICY}
_PROBE_WITHIN = 10.0

log = logging.getLogger("limpet.runtimes")


class BubblewrapRuntime:
    """core.ports.Runtime. `home` alone stands for settings with that home and all else by default.

    `inject_fault` is awaited beside each task of each box, with the names of both: what it raises, that task has raised. For tests.
    """

    def __init__(
        self,
        settings: BubblewrapSettings | None = None,
        *,
        home: Path | None = None,
        inject_fault: InjectFault | None = None,
    ) -> None:
        if settings is None and home is None:
            raise TypeError("BubblewrapRuntime needs settings or a home.")
        self._settings = settings or BubblewrapSettings(home=home or Path())
        self._shared = SharedResources(settings=self._settings, inject_fault=inject_fault)
        self._images = BoxImages(self._settings)
        self._stack = AsyncExitStack()
        self._walls: frozenset[Offer] = frozenset()
        self._living: set[BubblewrapSandbox] = set()
        self._programs: tuple[str, ...] | None = None  # that boxes have, once it was looked

    @property
    def name(self) -> str:
        return NAME

    @property
    def offers(self) -> frozenset[Offer]:
        """LIMITS only where cgroups can be made, walls as the kernel lets them be built; known once it is open."""
        return _OFFERS | self._walls | ({Offer.LIMITS} if self._shared.groups else frozenset())

    @property
    def held(self) -> Held:
        known = groups.held(self._shared.groups)
        return replace(known, notes=(*known.notes, *self._shared.unbounded))

    async def __aenter__(self) -> Self:
        # One passage to another thread: each costs as much as what is done in it.
        self._shared.groups, self._walls = await to_thread.run_sync(_prepare, self._settings.home)
        self._shared.tasks = await self._stack.enter_async_context(anyio.create_task_group())
        return self

    async def __aexit__(self, *exc: object) -> None:
        with anyio.CancelScope(shield=True):
            for sandbox in list(self._living):
                try:
                    await sandbox.release()
                except OSError as error:
                    # The next one is released all the same; the remains of this one are swept at the next start.
                    log.error("The sandbox %s could not be let go of: %s.", sandbox.ref.name, error)
        await self._stack.aclose()
        self._shared.tasks = None

    async def probe(self) -> Probe:
        if (missing := probe.missing_programs()) is not None:
            return missing
        try:
            spec = SandboxSpec(name=f"probe-{secrets.token_hex(6)}")
            await self._images.of(spec)  # what has to be pulled takes its time
            with anyio.fail_after(_PROBE_WITHIN):
                sandbox = await self.create(spec)
                try:
                    outcome = await (await sandbox.start(Command(what=Script("true")), "probe")).wait()
                    await self._shared.bounded.wait()
                    if self._programs is None:
                        self._programs = await installed_programs(sandbox)
                    shell = os.path.basename(sandbox.ref.shell)
                finally:
                    with anyio.CancelScope(shield=True):
                        await sandbox.destroy()
        except TimeoutError:
            return Probe(works=False, detail=f"A box did not run `true` within {_PROBE_WITHIN:.0f} s.")
        except RuntimeUnavailable as error:
            return Probe(works=False, detail=error.reason, remedy=error.remedy)
        except (LimpetError, OSError) as error:
            return probe.explain(error.reason if isinstance(error, BootFailed) else str(error))
        if outcome != Exited(0):
            return Probe(works=False, detail=f"`true` in a box ended with {outcome}.")
        works = probe.success(self._shared.groups, self.held.notes)
        return replace(works, programs=self._programs or (), shell=shell)

    async def create(self, spec: SandboxSpec) -> BubblewrapSandbox:
        self._require_open()
        refuse_impossible_spec(spec, self.offers, NAME)
        if (missing := probe.missing_programs()) is not None:
            raise RuntimeUnavailable(NAME, missing.detail, missing.remedy)
        place = BoxPaths.of(self._settings.home, spec.name)
        image = await self._images.of(spec)
        try:
            async with self._shared.lock(place):
                # Read here: another of that name may have been booted while this one's image was pulled.
                if (earlier := AgentProcess.recorded(place.record)) is not None and earlier.lives():
                    raise BootFailed(f"a sandbox named {spec.name} lives already.")
                return await self._boot(spec, place, earlier, image)
        except BootFailed as error:
            if mends := remedy(error.reason, Host.here()):
                reason = f"a box did not start: {error.reason.rstrip('.')}."
                raise RuntimeUnavailable(NAME, reason, mends) from error
            raise

    async def _boot(
        self, spec: SandboxSpec, place: BoxPaths, earlier: AgentProcess | None, image: ResolvedImage | None
    ) -> BubblewrapSandbox:
        """Clear what an earlier box of that name left, and start a new one; nothing of it is left on an error."""
        started: box.StartedBox | None = None
        live: LiveBox | None = None
        try:
            await ending.clear(place, earlier, self._shared.groups)
            plan = await to_thread.run_sync(self._plan, spec, place, image)
            started = await box.start(plan)
            ends_with_owner = isinstance(spec.lifetime, WhileOwned)
            facts = {**started.agent.facts(spec.name), RECORD_KEY: None if image is None else image.id}
            place.record.write_text(json.dumps({**facts, ENDS_WITH_OWNER: ends_with_owner}))
            live = LiveBox(self._shared, place, started.agent, started)
            await live.greet()
            return self._joined(plan, started, live)
        except BaseException as error:
            complaint = started.complaint() if started else ""
            await _give_up(place, started, live, self._shared.groups)
            if isinstance(error, (OSError, SandboxGone)):
                raise BootFailed(complaint or str(error)) from error
            raise

    def _plan(self, spec: SandboxSpec, place: BoxPaths, resolved: ResolvedImage | None) -> box.Plan:
        """Everything on the host that a box needs before it starts. Blocking."""
        image = None if resolved is None else RootImage(resolved.root, resolved.environment)
        user_id = None
        if os.geteuid() == 0:
            user_id = self._user_for(spec)
        limits, groups = self._settings.limits(spec.limits), self._shared.groups
        # Without groups no share is held: a box may fill all processors.
        processors = None if groups is None else shown_processors(limits.cpus)
        layout = lay_out(spec, place, image, user_id, processors=processors)
        self._images.remember(spec, resolved)
        if groups is not None:
            groups.make(place.group, limits)
        return box.Plan(spec=spec, place=place, layout=layout, settings=self._settings, groups=groups, user_id=user_id)

    def _user_for(self, spec: SandboxSpec) -> int:
        """Who runs the box's commands. A directory that an earlier box has left keeps its owner: its files are his."""
        if spec.user_id is not None:
            return spec.user_id
        data = None if spec.directory is None else spec.directory / "data"
        if data is not None and data.is_dir() and not data.is_symlink():
            owner = data.stat().st_uid
            if 0 <= owner - self._settings.uid_first < self._settings.uid_count:
                return owner
        return self._unused_user()

    def _unused_user(self) -> int:
        """A uid of the upper half of the range that owns no box's directory here; the lower half is for lasting containers."""
        half = self._settings.uid_count // 2
        boxes = self._settings.home / "boxes"
        taken = {entry.stat().st_uid for entry in boxes.iterdir()}
        while (found := self._settings.uid_first + half + secrets.randbelow(half)) in taken:
            continue
        return found

    def _joined(self, plan: box.Plan, started: box.StartedBox, live: LiveBox) -> BubblewrapSandbox:
        disk = self._settings.limits(plan.spec.limits).disk
        files = plan.layout.files
        ref = reference(
            plan.spec,
            started.agent,
            plan.place,
            files,
            shell=plan.layout.shell,
            owner=plan.user_id,
            disk=disk,
        )
        if (
            at_once := bounding_helper.at_once(plan.user_id, started.agent, has_groups=plan.groups is not None)
        ) is not None:
            self._shared.has_bounded(at_once.unbounded)
            live.bounded.set()
        else:
            live.supervisor.start("bounds its terminals", live.bound, plan)
        return self._made(ref, live)

    async def attach(self, ref: SandboxRef) -> BubblewrapSandbox:
        self._require_open()
        if ref.runtime != NAME or ref.version != 1:
            raise SandboxGone(f"It belongs to {ref.runtime}, version {ref.version}.")
        agent = AgentProcess.read(ref.facts)
        place = BoxPaths.of(self._settings.home, ref.name)
        if not agent.lives():
            raise SandboxGone("Its process has ended.")
        live = LiveBox(self._shared, place, agent)
        await live.greet()
        return self._made(ref, live)

    def _made(self, ref: SandboxRef, live: LiveBox) -> BubblewrapSandbox:
        """A sandbox over that connection, registered here until it is released."""
        directories = {path: Path(directory) for path, directory in ref.facts["files"].items()}
        directories["/tmp"] = BoxPaths.of(self._settings.home, ref.name).private[0]

        async def ending() -> None:
            self._living.discard(sandbox)
            await live.end()

        async def leaving() -> None:
            self._living.discard(sandbox)
            await live.leave()

        sandbox = BubblewrapSandbox(
            ref,
            live.client,
            HostFiles(directories, owner=ref.facts["owner"]),
            self.offers,
            ending=ending,
            leaving=leaving,
            hold_limit=live.time_limits.hold,
            listening=live.listen,
            trusting=live.trust,
        )
        self._living.add(sandbox)
        live.supervisor.start("watches its disk", live.watch, ref)
        return sandbox

    async def sweep(self, living: frozenset[str] | None, *, dry_run: bool = False) -> list[str]:
        self._require_open()
        kept = None if living is None else {BoxPaths.of(self._settings.home, name).short for name in living}
        told = []
        for found in await to_thread.run_sync(traces, self._settings.home, self._shared.groups):
            # A living box that ends with its owner has one that lives: a program of its own in this home.
            if found.has_owner or (found.is_wanted if kept is None else found.place.short in kept):
                continue
            try:
                if not dry_run:
                    await ending.clear(found.place, found.agent, self._shared.groups)
            except OSError as error:
                # No reason to leave the others; the operator reads it, and the next sweep tries again.
                told.append(f"The sandbox {found.place.short} could not be cleared: {error or 'it does not end'}.")
                continue
            told.append(found.told(removed=not dry_run))
        return told

    def _require_open(self) -> None:
        if self._shared.tasks is None:
            raise SandboxClosed


async def _give_up(
    place: BoxPaths, started: box.StartedBox | None, live: LiveBox | None, groups: Groups | None
) -> None:
    """Leave nothing of a box that could not be booted; what cannot be cleared is logged, so that the reason is what is raised."""
    with anyio.CancelScope(shield=True):
        try:
            if live is not None:
                live.client.close()
            await ending.clear(place, started.agent if started else None, groups)
        except OSError as error:
            log.error("What is left of the sandbox %s could not be cleared: %s.", place.short, error)
    if started is not None:
        started.close()


def _prepare(home: Path) -> tuple[Groups | None, frozenset[Offer]]:
    """Make the directories of every box; where groups can be made, and which walls can be built. Blocking.

    Others may pass through home (a box's own user has to) but not look; run is ours alone."""
    home.mkdir(parents=True, exist_ok=True)
    home.chmod(0o711)
    for name, mode in (("run", 0o700), ("boxes", 0o711)):
        (home / name).mkdir(exist_ok=True)
        (home / name).chmod(mode)
    return find_groups(), walls.offers(os.geteuid() == 0)
