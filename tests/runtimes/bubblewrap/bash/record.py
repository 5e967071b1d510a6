"""Writes recorded.json: what each script does under a fresh `bash -c` in a box. `python -m tests.runtimes.bubblewrap.bash.record`"""

import json
from pathlib import Path

import anyio

from limpet.runtimes.bubblewrap import BubblewrapRuntime
from tests.runtimes.bubblewrap.bash.differential import CHAPTERS, VARIABLES, fresh, is_recorded, key, see, shown
from tests.runtimes.bubblewrap.boxes import box_of
from tests.support.homes import short_home

RECORDED = Path(__file__).with_name("recorded.json")


async def main() -> None:
    with short_home() as home:
        async with BubblewrapRuntime(home=home) as runtime, box_of(runtime, directory=home / "c", env=VARIABLES) as box:
            data = home / "c/data"
            version = (await see(box, data, fresh("echo $BASH_VERSION"))).stdout.strip()
            seen = {
                key(script): shown(await see(box, data, fresh(script)))
                for scripts in CHAPTERS.values()
                for script in scripts
                if is_recorded(script)
            }
    RECORDED.write_text(json.dumps({"version": version, "seen": seen}, indent=0, sort_keys=True) + "\n")


if __name__ == "__main__":
    anyio.run(main)
