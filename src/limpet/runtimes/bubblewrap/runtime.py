"""The runtime `bubblewrap`: boxes are created, found again, and swept when nobody knows them any more."""

import json
import os
import re
import secrets
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Self

import anyio
import anyio.lowlevel
from anyio import to_thread
from anyio.abc import TaskGroup

from limpet.core.command import Command, Exited, Script
from limpet.core.errors import BootFailed, LimpetError, RuntimeUnavailable, SandboxClosed, SandboxGone
from limpet.core.ports import Held, Offer, Probe, SandboxRef, SandboxSpec, WhileOwned
from limpet.runtimes.bubblewrap import bounding, box, ending, limits, probe, walls
from limpet.runtimes.bubblewrap.client import Client, connect
from limpet.runtimes.bubblewrap.inside import wire
from limpet.runtimes.bubblewrap.layout import lay_out
from limpet.runtimes.bubblewrap.leftovers import traces
from limpet.runtimes.bubblewrap.limits import Groups, find_groups
from limpet.runtimes.bubblewrap.remedies import Host, remedy
from limpet.runtimes.bubblewrap.sandbox import BubblewrapSandbox
from limpet.runtimes.bubblewrap.settings import ENDS_WITH_OWNER, NAME, Agent, BubblewrapSettings, Place, reference
from limpet.runtimes.bubblewrap.unseen import Ledger
from limpet.runtimes.bubblewrap.watch import Watched, children_of, watch
from limpet.runtimes.hostfiles import HostFiles
from limpet.runtimes.refusals import refuse_impossible_spec

_OFFERS = frozenset(
    {
        Offer.ARGV,
        Offer.STREAMING,
        Offer.STDIN,
        Offer.PTY,
        Offer.SIGNALS,
        Offer.CONCURRENT,
        Offer.DETACHED,
        Offer.DIRECTORY,
        Offer.ATTACH,
        Offer.ISOLATION,
    }
)
_SHAPE_OF_NAMES = re.compile(r"[A-Za-z0-9_-]{1,64}")
_ANSWERS_WITHIN = 10.0
_PROBE_WITHIN = 10.0
_DYING = 5.0
_LOOKS_AT_ONCE = 2  # at boxes' disks: threads that must not be missing elsewhere


class BubblewrapRuntime:
    """core.ports.Runtime. `home` alone stands for settings with that home and all else by default."""

    def __init__(self, settings: BubblewrapSettings | None = None, *, home: Path | None = None) -> None:
        if settings is None and home is None:
            raise TypeError("BubblewrapRuntime needs settings or a home.")
        self._settings = settings or BubblewrapSettings(home=home or Path())
        self._stack = AsyncExitStack()
        self._tasks: TaskGroup | None = None
        self._groups: Groups | None = None
        self._walls: frozenset[Offer] = frozenset()
        self._unbounded: tuple[str, ...] = ()  # of the last box, in sentences
        self._has_bounded = anyio.Event()  # some box, or has tried to
        self._looking = anyio.CapacityLimiter(_LOOKS_AT_ONCE)
        self._ledger = Ledger()
        self._living: set[BubblewrapSandbox] = set()
        self._locks: dict[str, anyio.Lock] = {}  # by a box's short name: it is booted or cleared, one at a time

    @property
    def name(self) -> str:
        return NAME

    @property
    def offers(self) -> frozenset[Offer]:
        """LIMITS only where cgroups can be made, walls as the kernel lets them be built; known once it is open."""
        return _OFFERS | self._walls | ({Offer.LIMITS} if self._groups else frozenset())

    @property
    def held(self) -> Held:
        known = limits.held(self._groups)
        return replace(known, notes=(*known.notes, *self._unbounded))

    async def __aenter__(self) -> Self:
        await to_thread.run_sync(_prepare, self._settings.home)
        self._groups = await to_thread.run_sync(find_groups)
        self._walls = await to_thread.run_sync(walls.offers, os.geteuid() == 0)
        self._tasks = await self._stack.enter_async_context(anyio.create_task_group())
        return self

    async def __aexit__(self, *exc: object) -> None:
        with anyio.CancelScope(shield=True):
            for sandbox in list(self._living):
                await sandbox.release()
        await self._stack.aclose()
        self._tasks = None

    async def probe(self) -> Probe:
        if (missing := probe.missing_programs()) is not None:
            return missing
        try:
            with anyio.fail_after(_PROBE_WITHIN):
                sandbox = await self.create(SandboxSpec(name=f"probe-{secrets.token_hex(6)}"))
                try:
                    outcome = await (await sandbox.start(Command(what=Script("true")), "probe")).wait()
                    await self._has_bounded.wait()
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
        return probe.success(self._groups, self.held.notes)

    async def create(self, spec: SandboxSpec) -> BubblewrapSandbox:
        self._require_open()
        refuse_impossible_spec(spec, self.offers, NAME)
        if not _SHAPE_OF_NAMES.fullmatch(spec.name):
            raise BootFailed(f"{spec.name!r} cannot be a name: letters, digits, _ and -, at most 64.")
        if (missing := probe.missing_programs()) is not None:
            raise RuntimeUnavailable(NAME, missing.detail, missing.remedy)
        place = Place.of(self._settings.home, spec.name)
        if (earlier := Agent.recorded(place)) is not None and ending.lives(earlier):
            raise BootFailed(f"a sandbox named {spec.name} lives already.")
        try:
            async with self._locks.setdefault(place.short, anyio.Lock()):
                return await self._boot(spec, place, earlier)
        except BootFailed as error:
            if mends := remedy(error.reason, Host.here()):
                reason = f"a box did not start: {error.reason.rstrip('.')}."
                raise RuntimeUnavailable(NAME, reason, mends) from error
            raise

    async def _boot(self, spec: SandboxSpec, place: Place, earlier: Agent | None) -> BubblewrapSandbox:
        """Clear what an earlier box of that name left, and start a new one; nothing of it is left on an error."""
        await ending.clear(place, earlier, self._groups)
        started: box.Started | None = None
        try:
            plan = await to_thread.run_sync(self._plan, spec, place)
            started = await box.start(plan)
            ends_with_owner = isinstance(spec.lifetime, WhileOwned)
            place.record.write_text(json.dumps({**started.agent.facts(spec.name), ENDS_WITH_OWNER: ends_with_owner}))
            client = await self._greet(place, started.agent)
            return self._joined(plan, started, client)
        except BaseException as error:
            with anyio.CancelScope(shield=True):
                await ending.clear(place, started.agent if started else None, self._groups)
            complaint = started.complaint() if started else ""
            if started is not None:
                started.close()
            if isinstance(error, (OSError, SandboxGone)):
                raise BootFailed(complaint or str(error)) from error
            raise

    def _plan(self, spec: SandboxSpec, place: Place) -> box.Plan:
        """Everything on the host that a box needs before it starts. Blocking."""
        image = spec.image or self._settings.image
        user_id = None
        if os.geteuid() == 0:
            user_id = self._user_for(spec)
        layout = lay_out(spec, place, image, user_id)
        if self._groups is not None:
            self._groups.make(place.group, self._settings.limits(spec.limits))
        return box.Plan(
            spec=spec, place=place, layout=layout, settings=self._settings, groups=self._groups, user_id=user_id
        )

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

    def _joined(self, plan: box.Plan, started: box.Started, client: Client) -> BubblewrapSandbox:
        disk = self._settings.limits(plan.spec.limits).disk
        files = plan.layout.files
        ref = reference(plan.spec, started.agent, plan.place, files, owner=plan.user_id, disk=disk)
        bounding_it, bounded = anyio.CancelScope(), anyio.Event()

        async def leave() -> None:
            if started.lifeline is not None:
                await end()
            else:
                await bounded.wait()
                started.close()

        async def end() -> None:
            bounding_it.cancel()
            with anyio.CancelScope(shield=True):
                await ending.clear(plan.place, started.agent, self._groups)
            started.close()

        if (at_once := bounding.at_once(plan, started.agent)) is not None:
            self._unbounded = at_once.unbounded
            self._has_bounded.set()
            bounded.set()
        else:
            assert self._tasks is not None
            self._tasks.start_soon(self._bound, plan, started.agent, bounding_it, bounded)
        return self._made(ref, client, end=end, leave=leave)

    async def _bound(self, plan: box.Plan, agent: Agent, scope: anyio.CancelScope, done: anyio.Event) -> None:
        """Set from outside what only can be set there; a box that was quicker than that ends."""
        with scope:
            bounded = await bounding.by_helper(plan, agent)
            if ending.lives(agent):
                self._unbounded = bounded.unbounded
            self._has_bounded.set()
            if bounded.exceeded:
                await ending.clear(plan.place, agent, self._groups)
        done.set()

    async def attach(self, ref: SandboxRef) -> BubblewrapSandbox:
        self._require_open()
        if ref.runtime != NAME or ref.version != 1:
            raise SandboxGone(f"It belongs to {ref.runtime}, version {ref.version}.")
        agent = Agent.read(ref.facts)
        place = Place.of(self._settings.home, ref.name)
        if not ending.lives(agent):
            raise SandboxGone("Its process has ended.")
        client = await self._greet(place, agent)

        async def leave() -> None:
            """Nothing of it is held here but the connection."""

        async def end() -> None:
            with anyio.CancelScope(shield=True):
                await ending.clear(place, agent, self._groups)

        return self._made(ref, client, end=end, leave=leave)

    async def _greet(self, place: Place, agent: Agent) -> Client:
        """A connection whose agent has answered, with that boot id."""
        assert self._tasks is not None
        client = connect(place.socket)
        self._tasks.start_soon(self._keep, client, place, agent)
        try:
            with anyio.fail_after(_ANSWERS_WITHIN):
                reply = await client.request(wire.HELLO, {"version": wire.VERSION})
        except BaseException as error:
            client.close()
            if isinstance(error, TimeoutError):
                raise SandboxGone(f"Its agent did not answer within {_ANSWERS_WITHIN:.0f} s.") from error
            raise
        if reply.values.get("version") != wire.VERSION or reply.values.get("boot_id") != agent.boot_id:
            client.close()
            raise SandboxGone("Another one has taken its place, or one of another version.")
        return client

    async def _keep(self, client: Client, place: Place, agent: Agent) -> None:
        """Serve a connection; if its box then turns out to have ended by itself, clear what that left."""
        assert self._tasks is not None
        if await client.run(self._tasks):
            return
        with anyio.move_on_after(_DYING):
            await ending.has_died(agent)
            async with self._locks.setdefault(place.short, anyio.Lock()):
                if Agent.recorded(place) == agent:
                    await ending.clear(place, agent, self._groups)

    def _made(
        self,
        ref: SandboxRef,
        client: Client,
        *,
        end: Callable[[], Awaitable[None]],
        leave: Callable[[], Awaitable[None]],
    ) -> BubblewrapSandbox:
        """A sandbox over that connection, known here until it is let go of."""

        watching = anyio.CancelScope()

        async def finish(last: Callable[[], Awaitable[None]], reason: str) -> None:
            watching.cancel()
            client.close(reason)
            # Before anything new gets the socket's number: in anyio (4.15) whoever still waits for the old one would, when he
            # wakes, take the new one's reader away, and nobody would hear the process end.
            await anyio.lowlevel.cancel_shielded_checkpoint()
            self._living.discard(sandbox)
            await last()

        files = HostFiles(
            {path: Path(directory) for path, directory in ref.facts["files"].items()}, owner=ref.facts["owner"]
        )
        sandbox = BubblewrapSandbox(
            ref,
            client,
            files,
            self.offers,
            ending=lambda: finish(end, "It was destroyed."),
            leaving=lambda: finish(leave, "It was let go of."),
        )
        self._living.add(sandbox)
        assert self._tasks is not None
        self._tasks.start_soon(self._watch, ref, client, watching)
        return sandbox

    async def _watch(self, ref: SandboxRef, client: Client, scope: anyio.CancelScope) -> None:
        place, agent, groups = Place.of(self._settings.home, ref.name), Agent.read(ref.facts), self._groups
        watched = Watched(
            agent=agent,
            directories=(
                *map(Path, [*ref.facts["files"].values(), *ref.facts.get("counted", ())]),
                *place.private,
            ),
            limit=ref.facts.get("disk") or self._settings.disk_mb << 20,
            floor=self._settings.disk_floor_mb << 20,
            every=self._settings.disk_every,
            limiter=self._looking,
            ledger=self._ledger,
            members=lambda: children_of(agent.pid) if groups is None else groups.members(place.group),
        )
        with scope:
            await watch(watched, client)

    async def sweep(self, living: frozenset[str] | None, *, dry_run: bool = False) -> list[str]:
        self._require_open()
        kept = None if living is None else {Place.of(self._settings.home, name).short for name in living}
        told = []
        for found in await to_thread.run_sync(traces, self._settings.home, self._groups):
            # A living box that ends with its owner has one that lives: a program of its own in this home.
            if found.has_owner or (found.is_wanted if kept is None else found.place.short in kept):
                continue
            if not dry_run:
                await ending.clear(found.place, found.agent, self._groups)
            told.append(found.told(removed=not dry_run))
        return told

    def _require_open(self) -> None:
        if self._tasks is None:
            raise SandboxClosed


def _prepare(home: Path) -> None:
    """The directories of every box. Others may pass through home (a box's own user has to) but not look; run is ours alone."""
    home.mkdir(parents=True, exist_ok=True)
    home.chmod(0o711)
    for name, mode in (("run", 0o700), ("boxes", 0o711)):
        (home / name).mkdir(exist_ok=True)
        (home / name).chmod(mode)
