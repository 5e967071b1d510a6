"""Has the bounds of `outside` set for a box whose agent has answered: at once where root may, else by a process of the box's user."""

import os
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import anyio

from limpet.runtimes.bubblewrap import capabilities, outside
from limpet.runtimes.bubblewrap.box import Plan
from limpet.runtimes.bubblewrap.settings import TERMINALS, Agent

_WITHIN = 10.0
_PYTHON = "/usr/bin/python3"
_UNBOUNDED = "One sandbox can take all terminals of the host ({})."


@dataclass(frozen=True, slots=True)
class Bounded:
    """Sentences about what could not be bounded; and whether the box had `exceeded` a bound before it stood."""

    unbounded: tuple[str, ...] = ()
    exceeded: bool = False


def at_once(plan: Plan, agent: Agent) -> Bounded | None:
    """None where a helper must: root's groups bound System V too, so that without one there is more to do."""
    if plan.user_id is None or plan.groups is None or not capabilities.has(capabilities.SYS_ADMIN):
        return None
    try:
        outside.bound_terminals(agent.pid, agent.started, TERMINALS)
    except OSError as error:
        return Bounded((_UNBOUNDED.format(error.strerror),))
    return Bounded()


async def by_helper(plan: Plan, agent: Agent) -> Bounded:
    """The box runs meanwhile, for that takes as long as a Python needs to start."""
    facts = (str(agent.pid), agent.started, str(TERMINALS), str(_pages(plan)))
    words = [_PYTHON, "-I", "-S", "-c", _source(), *facts]
    if plan.user_id is not None:
        user = str(plan.user_id)
        words = ["setpriv", "--reuid", user, "--regid", user, "--clear-groups", "--", *words]
    try:
        with anyio.fail_after(_WITHIN):
            done = await anyio.run_process(words, check=False, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    except (TimeoutError, OSError):
        return Bounded((_UNBOUNDED.format("nothing could be started to prevent it"),))
    if done.returncode not in (0, outside.EXCEEDED):
        return Bounded((_UNBOUNDED.format("what should prevent it failed"),))
    return Bounded(tuple(done.stdout.decode(errors="replace").splitlines()), done.returncode == outside.EXCEEDED)


@cache
def _source() -> str:
    return Path(outside.__file__).read_text()


def _pages(plan: Plan) -> int:
    """What all segments of a box may take up: what it may use of memory."""
    memory = plan.settings.limits(plan.spec.limits).memory or 0
    return max(1, memory // os.sysconf("SC_PAGE_SIZE"))
