"""A box whose host was killed ends by its time to live, whatever runs in it, and what it leaves is cleared by whoever comes next."""

import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

import limpet
from limpet.core.ports import SandboxRef, TimeToLive
from limpet.runtimes.bubblewrap import BubblewrapRuntime
from tests.runtimes.bubblewrap.boxes import box_of, is_gone, printed_ref, processes_naming, remains, run
from tests.support.homes import short_home

pytestmark = pytest.mark.anyio

_HOST = """
import anyio, json, sys
from dataclasses import asdict
from pathlib import Path
from limpet.core.command import Command, Script
from limpet.core.ports import SandboxSpec, TimeToLive
from limpet.runtimes.bubblewrap import BubblewrapRuntime, BubblewrapSettings

async def main(home, ttl, script):
    async with BubblewrapRuntime(BubblewrapSettings(home=Path(home), orphan_grace=0.5)) as runtime:
        box = await runtime.create(SandboxSpec(name="orphan", lifetime=TimeToLive(float(ttl))))
        process = await box.start(Command(what=Script(script), timeout=600.0), "the-command")
        if "&" in script:
            await process.wait()
        print(json.dumps(asdict(box.ref)), flush=True)
        await anyio.sleep_forever()

anyio.run(main, *sys.argv[1:])
"""
_LEFT_RUNNING = {
    "a command": "sleep 600",
    "a detached process": "setsid -f sleep 600 &",
    "a busy command": "while :; do echo x; done",
    "nothing": "true &",
}


@asynccontextmanager
async def _killed_host(home: Path, script: str, ttl: float) -> AsyncIterator[SandboxRef]:
    """The box of a process that got SIGKILL."""
    words = [sys.executable, "-c", _HOST, str(home), str(ttl), script]
    async with await anyio.open_process(words, stdin=None, stderr=None) as host:
        ref = await printed_ref(host)
        os.kill(host.pid, signal.SIGKILL)
        await host.wait()
    yield ref


@pytest.mark.parametrize("left", _LEFT_RUNNING)
async def test_a_box_without_its_host_ends_by_its_time(left: str, home: Path, runtime: BubblewrapRuntime) -> None:
    async with _killed_host(home, _LEFT_RUNNING[left], 0.5) as ref:
        with anyio.fail_after(10):
            while not await is_gone(ref.facts["pid"]):
                await anyio.sleep(0.05)

    assert await runtime.sweep(None) != []
    assert remains(home, "orphan") == []


async def test_a_command_holds_its_box_while_its_host_is_there(runtime: BubblewrapRuntime) -> None:
    async with box_of(runtime, lifetime=TimeToLive(0.3)) as box:
        outcome = await run(box, "sleep 1.2; echo still here")

    assert outcome[1] == "still here\n"


async def test_opening_a_workspace_clears_what_the_time_ended(runtime: BubblewrapRuntime) -> None:
    with short_home() as home:
        async with _killed_host(home, "sleep 600", 0.3) as ref:
            with anyio.fail_after(10):
                while not await is_gone(ref.facts["pid"]):
                    await anyio.sleep(0.05)
        left = remains(home, "orphan")

        async with limpet.open_workspace(home=home):
            cleared = remains(home, "orphan")

        assert (left != [], cleared) == (True, [])
        assert processes_naming(str(home)) == []
