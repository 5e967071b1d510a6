"""Has `namespace_bounds` set for a box whose agent has answered: at once where root may, else by a process of the box's user."""

import os
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import anyio

from limpet.runtimes.agent_client.agent_process import AgentProcess
from limpet.runtimes.bubblewrap import capabilities
from limpet.runtimes.bubblewrap.limits import namespace_bounds
from limpet.runtimes.bubblewrap.settings import TERMINALS

_WITHIN = 10.0
_PYTHON = "/usr/bin/python3"
_UNBOUNDED = "One sandbox can take all terminals of the host ({})."


@dataclass(frozen=True, slots=True)
class BoundsResult:
    """Sentences about what could not be bounded; and whether the box had `exceeded` a bound before it stood."""

    unbounded: tuple[str, ...] = ()
    exceeded: bool = False


def at_once(user_id: int | None, agent: AgentProcess, *, has_groups: bool) -> BoundsResult | None:
    """None where a helper must: root's groups bound System V too, so that without one there is more to do."""
    if user_id is None or not has_groups or not capabilities.has(capabilities.SYS_ADMIN):
        return None
    try:
        namespace_bounds.bound_terminals(agent.pid, agent.started, TERMINALS)
    except OSError as error:
        return BoundsResult((_UNBOUNDED.format(error.strerror),))
    return BoundsResult()


async def by_helper(user_id: int | None, agent: AgentProcess, *, memory: int | None) -> BoundsResult:
    """The box runs meanwhile, for that takes as long as a Python needs to start."""
    facts = (str(agent.pid), agent.started, str(TERMINALS), str(_pages(memory)))
    words = [_PYTHON, "-I", "-S", "-c", _source(), *facts]
    if user_id is not None:
        user = str(user_id)
        words = ["setpriv", "--reuid", user, "--regid", user, "--clear-groups", "--", *words]
    try:
        with anyio.fail_after(_WITHIN):
            done = await anyio.run_process(words, check=False, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    except (TimeoutError, OSError):
        return BoundsResult((_UNBOUNDED.format("nothing could be started to prevent it"),))
    if done.returncode not in (0, namespace_bounds.EXCEEDED):
        return BoundsResult((_UNBOUNDED.format("what should prevent it failed"),))
    return BoundsResult(
        tuple(done.stdout.decode(errors="replace").splitlines()), done.returncode == namespace_bounds.EXCEEDED
    )


@cache
def _source() -> str:
    return Path(namespace_bounds.__file__).read_text()


def _pages(memory: int | None) -> int:
    """What all segments of a box may take up: what it may use of memory."""
    return max(1, (memory or 0) // os.sysconf("SC_PAGE_SIZE"))
