"""What a capture costs that finds three changed files in a large tree, beside a look through the whole tree, and what very many new
files cost the command that follows."""

import gc
import os
import time
from pathlib import Path

from bench.table import Line, Scale, by_turns, compared
from limpet import wiring
from limpet.containers.manager import ContainerManager
from limpet.containers.settings import ContainerSettings
from limpet.core.errors import LimpetError
from limpet.runtimes.hostfiles import HostFiles
from limpet.store.database import Database
from limpet.store.settings import DatabaseSettings

TENANT = "default"
PER_DIRECTORY = 50
NEW_FILES = 20_000
ALL_AT_ONCE = ContainerSettings(max_files_per_exec=1_000_000, max_entries=1_000_000)


async def rows(scale: Scale) -> list[Line]:
    files = scale.of(50_000)
    async with (
        wiring.load_runtime(scale.runtime, home=scale.home) as runtime,
        Database(DatabaseSettings(), home=scale.home) as database,
        ContainerManager(runtime, database, home=scale.home, settings=ALL_AT_ONCE, stop_boxes=True) as manager,
    ):
        container = (await manager.create(TENANT, name="bench", spec=manager.narrow({}))).id
        data = scale.home / "boxes" / container / "data"
        async with manager.lease(TENANT, container) as lease:
            _plant(data, files)
            await lease.capture()
            turn = iter(range(1_000_000))

            async def change_and_capture() -> None:
                _change(data, files, next(turn))
                if len((await lease.capture()).files) != 3:
                    raise LimpetError("The capture did not find the three files.")

            async def nothing_and_capture() -> None:
                await lease.capture()

            async def list_all() -> None:
                await whole.list(recursive=True)

            async def collect() -> None:
                gc.collect()  # what the list leaves behind is its own cost

            whole = HostFiles({"/mnt/data": data})
            changed, idle, floor = await by_turns(change_and_capture, nothing_and_capture, list_all, n=scale.of(30))
        await manager.delete(TENANT, container)
        after, quiet = await _commands_after_many_files(manager, scale)
    return [
        compared(
            f"capture of 3 changed files among {files}", changed, "a list of all of them", floor, target="<= 30 ms"
        ),
        compared(f"capture of nothing among {files}", idle, "a list of all of them", floor),
        compared(
            f"`true` and its capture after {scale.of(NEW_FILES)} new files",
            after,
            "the same in an empty container",
            quiet,
            target="<= 100 ms",
        ),
    ]


async def _commands_after_many_files(manager: ContainerManager, scale: Scale) -> tuple[list[float], list[float]]:
    """Milliseconds of commands that each follow very many new files, and of such that follow none."""
    after: list[float] = []
    quiet: list[float] = []
    for turn in range(scale.of(5)):
        for taken, files in ((after, scale.of(NEW_FILES)), (quiet, 0)):
            container = (await manager.create(TENANT, name=f"bench{turn}", spec=manager.narrow({}))).id
            async with manager.lease(TENANT, container) as lease:
                await lease.shell.run(f"mkdir new; cd new; seq {files} | xargs -r touch")
                await lease.capture()
                begun = time.perf_counter()
                await lease.shell.run("true")
                await lease.capture()
                taken.append((time.perf_counter() - begun) * 1000)
            await manager.delete(TENANT, container)
    return after, quiet


def _plant(data: Path, files: int) -> None:
    for directory in range(files // PER_DIRECTORY):
        place = data / f"{directory % 10}" / f"{directory}"
        place.mkdir(parents=True)
        for number in range(PER_DIRECTORY):
            os.close(os.open(place / f"{number}", os.O_CREAT | os.O_WRONLY, 0o644))


def _change(data: Path, files: int, turn: int) -> None:
    for number in range(3):
        directory = (turn * 7 + number * 11) % (files // PER_DIRECTORY)
        (data / f"{directory % 10}" / f"{directory}" / f"{number}").write_text(f"{turn} {number}")
