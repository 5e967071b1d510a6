"""Many containers: those that sleep, waking one, many boxes that live at once, and a page of a long list."""

import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import httpx2
from anyio import to_thread
from sqlalchemy import insert

from bench.gateway import LIMPET, home, program
from bench.idle import box_mib
from bench.table import Line, NotMeasured, Row, Scale, compared, seconds
from limpet.containers.manager import ContainerManager
from limpet.containers.settings import ContainerSettings
from limpet.core.clock import SystemClock
from limpet.core.ports import Offer
from limpet.store.containers import ContainerRecord
from limpet.store.database import Database
from limpet.store.records import columns_of
from limpet.store.settings import DatabaseSettings
from limpet.store.tables import containers
from limpet.wiring import load_runtime

TENANT = "default"
MACHINE_MIB = 24 * 1024
MANY_BOXES = 200


async def rows(scale: Scale) -> list[Line]:
    if scale.runtime != "bubblewrap":
        return [NotMeasured(name="containers", reason="Only boxes of bubblewrap sleep and wake.", is_optional=True)]
    return [*await _sleeping(scale), await _waking(scale), await _living(scale), *await _pages(scale)]


@asynccontextmanager
async def _manager(directory: Path, most: int | None) -> AsyncIterator[ContainerManager]:
    runtime = load_runtime("bubblewrap", home=directory)
    settings = ContainerSettings(max_live_boxes=most)
    async with (
        Database(DatabaseSettings(), home=directory) as database,
        runtime,
        ContainerManager(runtime, database, home=directory, settings=settings, stop_boxes=True) as manager,
    ):
        assert Offer.DIRECTORY in runtime.offers
        yield manager


async def _new(manager: ContainerManager) -> str:
    return (await manager.create(TENANT, name="bench", spec=manager.narrow({}))).id


async def _use(manager: ContainerManager, container: str) -> None:
    async with manager.lease(TENANT, container) as lease:
        result = await lease.shell.run("echo x >> f")
        if result.exit_code != 0:
            raise RuntimeError(f"The box said {result.stderr!r}.")


async def _sleeping(scale: Scale) -> list[Line]:
    """Containers that were made, and some that were used too, while one box may live: all but one of them sleep."""
    count, used = scale.of(1000), scale.of(20)
    with home() as directory:
        async with _manager(directory, 1) as manager:
            ids = [await _new(manager) for _ in range(count)]
            for container in ids[:used]:
                await _use(manager, container)
            one = _processes_of(directory)
            await _use(manager, ids[-1])
            all_of_them = _processes_of(directory)
    name = f"processes while {count} containers sleep, {used} of them once used, and 1 lives"
    beside = f"{used} used, 1 lives"
    return [
        Row(name=name, ours=all_of_them, beside=beside, floor=one, unit="", n=count, target="≤ 1 ×"),
    ]


def _processes_of(home: Path) -> int:
    """Those that were started with something of it, or see something of it: boxes, and all that runs in them."""
    return sum(_mentions(process, str(home).encode()) for process in Path("/proc").iterdir() if process.name.isdigit())


def _mentions(process: Path, name: bytes) -> bool:
    try:
        return any(name in (process / file).read_bytes() for file in ("cmdline", "mountinfo"))
    except OSError:
        return False  # it has ended


async def _waking(scale: Scale) -> Line:
    """The first command of a container whose box is gone, beside that of a new container. In both another's box ends for it."""
    cold: list[float] = []
    wake: list[float] = []
    with home() as directory:
        async with _manager(directory, 1) as manager:
            asleep, other = await _new(manager), await _new(manager)
            for container in (asleep, other):
                await _use(manager, container)
            for _ in range(scale.of(30)):
                wake.append(await _milliseconds(manager, asleep))
                cold.append(await _milliseconds(manager, await _new(manager)))
    return compared("waking a container, with its first command", wake, "a cold boot with one", cold, target="≤ 1.3 ×")


async def _milliseconds(manager: ContainerManager, container: str) -> float:
    return await seconds(lambda: _use(manager, container)) * 1000


async def _living(scale: Scale) -> Line:
    """The memory of boxes that live at once, each of which has run a command."""
    count = scale.of(MANY_BOXES)
    name = f"each of {count} boxes that live at once, PSS of all its processes"
    with home() as directory:
        async with _manager(directory, None) as manager:
            ids = [await _new(manager) for _ in range(count)]
            async with AsyncExitStack() as stack:
                pids = []
                for container in ids:
                    lease = await stack.enter_async_context(manager.lease(TENANT, container))
                    await lease.shell.run("true")
                    pids.append(lease.shell.ref.facts["pid"])
                try:
                    each = sum(box_mib(pid) for pid in pids if isinstance(pid, int)) / count
                except PermissionError:
                    return NotMeasured(name=name, reason="Only root can look at the agents' memory.")
    share = MACHINE_MIB / MANY_BOXES
    return Row(name=name, ours=each, beside="24 GiB / 200", floor=share, unit="MiB", n=count, target="≤ 1 ×")


async def _pages(scale: Scale) -> list[Line]:
    """Pages of a long list, over HTTP: the newest, one from the middle, and one of 100."""
    count = scale.of(10_000)
    with home() as directory:
        file = directory / "limpet.toml"
        file.write_text('[features.shell]\ntype = "memory"\n')
        ids = await _filled(directory / "home", count)
        environment = {"PATH": "/usr/bin:/bin", "LIMPET_HOME": str(directory / "home")}
        command = [str(LIMPET), "serve", "--config", str(file), "--port", "0"]
        async with program(command, environment) as said:
            url = said.removeprefix("limpet serves ")
            asked = {"": "20, newest", f"?after={ids[count // 2]}": "20, from the middle", "?limit=100": "100, newest"}
            return [
                await _page(
                    f"{url}/v1/containers{query}", f"{url}/livez", f"a page of {count} containers: {what}", scale
                )
                for query, what in asked.items()
            ]


async def _page(url: str, floor: str, name: str, scale: Scale) -> Line:
    ours: list[float] = []
    bare: list[float] = []
    async with httpx2.AsyncClient(trust_env=False) as client:
        for _ in range(scale.of(100)):
            for address, times in ((url, ours), (floor, bare)):
                begun = time.perf_counter()
                (await client.get(address)).raise_for_status()
                times.append((time.perf_counter() - begun) * 1000)
    return compared(name, ours, "/livez", bare, target="≤ 10 ms")


async def _filled(directory: Path, count: int) -> list[str]:
    """The ids of that many running containers of a new home, oldest first."""
    await to_thread.run_sync(directory.mkdir, 0o711)
    now = SystemClock().now()
    records = [
        ContainerRecord(
            id=f"cntr_{number:032x}", tenant=TENANT, name="bench", status="running", created_at=now, last_active_at=now,
            idle_ttl=3600, spec={"network_policy": {"type": "disabled"}},
        )
        for number in range(count)
    ]  # fmt: skip
    async with Database(DatabaseSettings(), home=directory) as database, database.writing() as connection:
        await connection.execute(insert(containers), [columns_of(record) for record in records])
    return [record.id for record in records]
