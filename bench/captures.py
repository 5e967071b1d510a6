"""What a capture costs that finds three changed files in a large tree, beside a look through the whole tree."""

import gc
import os
from pathlib import Path

from bench.table import Line, Scale, by_turns, compared
from limpet import wiring
from limpet.containers.container import ContainerSettings
from limpet.containers.manager import ContainerManager
from limpet.core.errors import LimpetError
from limpet.runtimes.hostfiles import HostFiles
from limpet.store.database import Database, DatabaseSettings

TENANT = "default"
PER_DIRECTORY = 50
ALL_AT_ONCE = ContainerSettings(max_files_per_exec=1_000_000)


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
    return [
        compared(
            f"capture of 3 changed files among {files}", changed, "a list of all of them", floor, target="<= 30 ms"
        ),
        compared(f"capture of nothing among {files}", idle, "a list of all of them", floor),
    ]


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
