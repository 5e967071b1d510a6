"""Has the bounds of `outside` set while a box boots: from here where root may do that, else by a process of the box's user."""

import os
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path

import anyio

from limpet.runtimes.bubblewrap import capabilities, outside
from limpet.runtimes.bubblewrap.box import Plan
from limpet.runtimes.bubblewrap.settings import TERMINALS, Agent

Bound = Callable[[], Awaitable[tuple[str, ...]]]
_WITHIN = 5.0
_PYTHON = "/usr/bin/python3"


@asynccontextmanager
async def beside(plan: Plan, agent: Agent) -> AsyncIterator[Bound]:
    """Gives what bounds the box, to be called once its agent has answered; that says in sentences what could not be bounded."""
    # Root's groups bound System V too.
    if plan.user_id is not None and plan.groups is not None and capabilities.has(capabilities.SYS_ADMIN):
        yield lambda: _from_here(agent)
        return
    facts = (str(agent.pid), agent.started, str(TERMINALS), str(_pages(plan)))
    words = [_PYTHON, "-I", "-S", "-c", _source(), *facts]
    if plan.user_id is not None:
        user = str(plan.user_id)
        words = ["setpriv", "--reuid", user, "--regid", user, "--clear-groups", "--", *words]
    async with await anyio.open_process(words, stderr=subprocess.DEVNULL, start_new_session=True) as helper:
        try:
            yield lambda: _by(helper)
        finally:
            if helper.returncode is None:
                helper.kill()


async def _from_here(agent: Agent) -> tuple[str, ...]:
    try:
        outside.bound_terminals(agent.pid, agent.started, TERMINALS)
    except OSError as error:
        return (f"One sandbox can take all terminals of the host ({error.strerror}).",)
    return ()


async def _by(helper: anyio.abc.Process) -> tuple[str, ...]:
    assert helper.stdin is not None
    assert helper.stdout is not None
    told = b""
    try:
        with anyio.fail_after(_WITHIN):
            await helper.stdin.send(b"\n")
            async for piece in helper.stdout:
                told += piece
            code = await helper.wait()
    except (TimeoutError, anyio.BrokenResourceError):
        code = 1
    unsaid = () if code == 0 else ("One sandbox can take all terminals of the host.",)
    return (*told.decode(errors="replace").splitlines(), *unsaid)


@cache
def _source() -> str:
    return Path(outside.__file__).read_text()


def _pages(plan: Plan) -> int:
    """What all segments of a box may take up: what it may use of memory."""
    memory = plan.settings.limits(plan.spec.limits).memory or 0
    return max(1, memory // os.sysconf("SC_PAGE_SIZE"))
