"""What a command calls its files and processes reaches every look at its box, and harms neither that box nor another."""

from pathlib import Path

import anyio
import pytest

from limpet.core.command import Exited
from limpet.runtimes.bubblewrap import BubblewrapRuntime, BubblewrapSettings
from tests.runtimes.bubblewrap.boxes import box_of, run

pytestmark = pytest.mark.anyio

# Files that are mapped and have lost such names, in a process that is called so and keeps busy, so that every look looks at it.
_HOSTILE = r"""python3 - <<'END'
import mmap, os, time
names = [b"a%cb" % letter for letter in b"\r\v\f\x1c\x1d\x1e\x85\n\xff"] + ["a\u2028b".encode(), b"x (deleted)", b"\r" * 255]
names += [b"a\r7f0-7f1 rw-s 0 zz:zz 1 x (deleted)"]
kept = []
for name in names:
    with open(b"/mnt/data/" + name, "w+b") as file:
        file.truncate(4096)
        kept.append(mmap.mmap(file.fileno(), 4096))
    os.unlink(b"/mnt/data/" + name)
os.mkdir(b"/mnt/data/\r\xff")
open("/proc/self/comm", "wb").write(b") R 1 (\r\xff")
until = time.monotonic() + 0.7
while time.monotonic() < until:
    pass
END"""


async def test_no_name_ends_a_box(home: Path, runtime: BubblewrapRuntime) -> None:
    settings = BubblewrapSettings(home=home, disk_every=0.02)
    with anyio.fail_after(20):
        async with BubblewrapRuntime(settings) as often, box_of(often) as hostile, box_of(often) as other:
            ended = await run(hostile, _HOSTILE)
            after = [await run(box, "echo works") for box in (hostile, other)]

    assert ended == (Exited(0), "", "")
    assert after == [(Exited(0), "works\n", "")] * 2
