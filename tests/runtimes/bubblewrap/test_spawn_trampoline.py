"""The step between the agent and a shell: what it does before it turns into the shell, and where it is not used."""

import json
import os
import platform
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from limpet.core.ports import Sandbox
from limpet.runtimes.agent.spawn_trampoline import program
from limpet.runtimes.bubblewrap import BubblewrapRuntime
from tests.runtimes.bubblewrap.boxes import begin, box_of, run

pytestmark = pytest.mark.anyio

_SEEN = """\
import ctypes, json, os
is_one = ctypes.c_int()
ctypes.CDLL(None).prctl(37, ctypes.byref(is_one), 0, 0, 0)
print(json.dumps([is_one.value, os.path.exists("/proc/self/fd/63"), os.environ["A"]]))
"""


def _step(tmp_path: Path) -> Path:
    content = program(platform.machine())
    if content is None:
        pytest.skip(f"there is no step for {platform.machine()}: shells are started by a copy of the agent")
    file = tmp_path / "step"
    file.write_bytes(content)
    file.chmod(0o700)
    return file


def test_it_makes_itself_a_subreaper_and_becomes_the_program_that_its_arguments_name(tmp_path: Path) -> None:
    step = _step(tmp_path)
    read, write = os.pipe()
    os.dup2(write, 63)
    try:
        done = subprocess.run(
            ["/usr/bin/python3", "-I", "-S", "-c", _SEEN],
            executable=step,
            env={"A": "b"},
            pass_fds=(63,),
            capture_output=True,
            check=True,
        )
    finally:
        for descriptor in (read, write, 63):
            os.close(descriptor)

    assert json.loads(done.stdout) == [1, False, "b"]


def test_where_the_program_is_missing_it_ends_with_127(tmp_path: Path) -> None:
    step = _step(tmp_path)

    assert subprocess.run(["/nonexistent"], executable=step, check=False).returncode == 127


def test_another_architecture_has_none() -> None:
    assert program("pdp11") is None


@pytest.fixture
async def box(runtime: BubblewrapRuntime) -> AsyncIterator[Sandbox]:
    async with box_of(runtime) as box:
        yield box


async def test_shells_have_the_boxs_limits_and_signals_however_they_were_started(box: Sandbox) -> None:
    look = 'ulimit -a; ulimit -Ha; umask; grep -E "Sig(Blk|Ign)" /pro*/self/status; trap'
    await run(box, "true")
    alone = [await run(box, look) for _ in range(3)]
    beside = await begin(box, "setsid sleep 1000 & echo $!")
    await beside.wait()
    left_behind = [await run(box, look) for _ in range(3)]

    assert len({*alone, *left_behind}) == 1
