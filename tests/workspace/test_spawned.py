"""A spawned process in one's hands, and what much output costs the process that asked for it."""

import signal
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from limpet.core.command import START, Exited, Position, Terminal
from limpet.core.ports import Process
from limpet.workspace.workspace import Workspace
from tests.support.runtimes import workspace_on

pytestmark = pytest.mark.anyio

MOST = 5.0  # seconds
_MIB = 1 << 20


@pytest.fixture(params=["local", "bubblewrap"])
async def box(request: pytest.FixtureRequest, home: Path) -> AsyncIterator[Workspace]:
    async with workspace_on(request.param, home) as workspace:
        yield workspace


async def _until(process: Process, text: bytes, since: Position = START) -> Position:
    """Where its output ends that holds this text."""
    seen = b""
    with anyio.fail_after(MOST):
        async for chunk in process.output(since):
            seen += chunk.data
            since = since.after(chunk)
            if text in seen:
                return since
    raise AssertionError(f"it ended without {text!r}: {seen!r}")


async def test_it_hears_signals_and_is_read_on_from_where_one_was(box: Workspace) -> None:
    process = await box.spawn("trap 'echo heard; exit 7' USR1; echo ready; while :; do sleep 0.02; done")
    ready = await _until(process, b"ready\n")
    await process.signal(signal.SIGUSR1)

    with anyio.fail_after(MOST):
        rest = b"".join([chunk.data async for chunk in process.output(ready) if chunk.stream == "stdout"])
        assert (ready, rest, await process.wait()) == (Position(stdout=6), b"heard\n", Exited(7))


async def test_its_terminal_changes_its_size_while_it_runs(box: Workspace) -> None:
    script = "trap 'stty size; exit' WINCH; echo ready; while :; do sleep 0.02; done"
    process = await box.spawn(script, pty=Terminal(columns=80, rows=24))
    ready = await _until(process, b"ready")
    await process.resize(132, 43)

    await _until(process, b"43 132", ready)


@pytest.mark.parametrize("keeps", [True, False], ids=["kept", "not kept"])
async def test_a_hundred_megabytes_of_output_do_not_grow_this_process(box: Workspace, keeps: bool) -> None:
    counted = 0

    async def count(data: bytes) -> None:
        nonlocal counted
        counted += len(data)

    await box.run("head -c 20000000 /dev/zero", on_stdout=count, keep_output=keeps)  # pools and buffers are there
    before = _resident()
    result = await box.run("head -c 100000000 /dev/zero", on_stdout=count, keep_output=keeps)
    grown = _resident() - before

    assert (counted, result.exit_code, grown < 16 * _MIB) == (120_000_000, 0, True), grown / _MIB


def _resident() -> int:
    """Bytes of memory that this process has."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096
