"""The time limit of a command, held from the host where the box's agent does not hold it: a box that is busy enough, or that has got
hold of its agent, keeps no command past its time.

The agent comes first, for it ends a command without a gap. What it has not ended `grace` seconds after the limit is killed from
here, and after `grace` seconds more it counts as timed out, whatever the agent says then. An agent that does not answer even after
that ends its box.
"""

from functools import partial

import anyio
from anyio import to_thread

from limpet.core.command import TimedOut
from limpet.core.errors import SandboxGone
from limpet.runtimes.agent import wire
from limpet.runtimes.agent_client.agent_process import AgentProcess
from limpet.runtimes.agent_client.client import Client
from limpet.runtimes.agent_client.kill_from_host import kill_tree
from limpet.runtimes.agent_client.pending import Pending
from limpet.runtimes.agent_client.process import BoxProcess
from limpet.runtimes.supervisor import BoxSupervisor

LIMIT_GRACE = 3.0  # seconds
_ANSWERS = 4  # times `grace`


class TimeLimits:
    """Those of the commands of one box."""

    def __init__(self, agent: AgentProcess, client: Client, supervisor: BoxSupervisor, *, grace: float) -> None:
        self._agent = agent
        self._client = client
        self._supervisor = supervisor
        self._grace = grace

    def hold(self, process: BoxProcess, pending: Pending, seconds: float) -> None:
        """See to it that a command which is being started ends in that time. `pending` is its start."""
        process.hold_limit(seconds + self._grace, partial(self._overdue, process, pending))

    def _overdue(self, process: BoxProcess, pending: Pending) -> None:
        process.is_overdue = True
        if process.number is None:
            process.end(TimedOut())
            pending.give_up()
        self._supervisor.start("holds a time limit", self._enforce, process)

    async def _enforce(self, process: BoxProcess) -> None:
        if process.pid is not None and not process.has_ended:
            await to_thread.run_sync(kill_tree, self._agent, process.pid)
        if process.number is not None:
            with anyio.move_on_after(self._grace):
                await process.wait()
                return
            process.cut_off(TimedOut())
        with anyio.move_on_after(_ANSWERS * self._grace):
            try:
                await self._client.ask(wire.TOUCH, {})
            except SandboxGone:
                pass  # it has ended meanwhile
            return
        raise TimeoutError("its agent did not answer for long after a command's time was up")
