"""A box, behind the port `Sandbox`: what an agent's sandbox is, and the sockets in its network."""

import errno
import os
import socket
from collections.abc import Awaitable, Callable, Sequence

import anyio
from anyio import CapacityLimiter, to_thread

from limpet.core.errors import SandboxGone
from limpet.core.network import DoorListeners, DoorPlan
from limpet.core.ports import Files, Offer, SandboxRef
from limpet.runtimes.agent_client.agent_process import AgentProcess
from limpet.runtimes.agent_client.client import Client
from limpet.runtimes.agent_client.sandbox import AgentSandbox, HoldLimit
from limpet.runtimes.bubblewrap import box_connections

_CONNECTED_WITHIN = 5.0
_ENTERING = 2


class BubblewrapSandbox(AgentSandbox):
    """core.ports.Sandbox and core.network.NetworkedSandbox. `listening` opens sockets in its network, `trusting` adds an authority."""

    def __init__(
        self,
        ref: SandboxRef,
        client: Client,
        files: Files,
        offers: frozenset[Offer],
        *,
        ending: Callable[[], Awaitable[None]],
        leaving: Callable[[], Awaitable[None]],
        hold_limit: HoldLimit,
        listening: Callable[[DoorPlan], Awaitable[DoorListeners]],
        trusting: Callable[[bytes], Awaitable[None]],
    ) -> None:
        super().__init__(ref, client, files, offers, ending=ending, leaving=leaving, hold_limit=hold_limit)
        self._listening = listening
        # Threads for its ports alone: their clients take none of those that everything else waits for.
        self._entering = CapacityLimiter(_ENTERING)
        self._trusting = trusting

    async def listen(self, plan: DoorPlan) -> DoorListeners:
        """See `core.network.NetworkedSandbox`."""
        self._require_open()
        return await self._listening(plan)

    async def trust(self, certificate: bytes) -> None:
        """See `core.network.NetworkedSandbox`."""
        self._require_open()
        await self._trusting(certificate)

    async def listening_ports(self) -> Sequence[int]:
        return sorted({found.port for found in await self._listeners()})

    async def connect(self, port: int) -> socket.socket:
        agent = AgentProcess.read(self._ref.facts)
        for found in await self._listeners():
            if found.port == port:
                try:
                    opened = await to_thread.run_sync(
                        box_connections.unconnected, agent.pid, agent.started, found, limiter=self._entering
                    )
                    return await _connected(opened, found)
                except box_connections.NotTheBox as error:
                    raise SandboxGone("Its process has ended.") from error
                except OSError:
                    continue  # another address of that port may accept
        raise ConnectionRefusedError(errno.ECONNREFUSED, f"nothing in the sandbox accepts connections on port {port}")

    async def _listeners(self) -> Sequence[box_connections.Listener]:
        self._require_open()
        agent = AgentProcess.read(self._ref.facts)
        try:
            return await to_thread.run_sync(
                box_connections.listeners, agent.pid, agent.started, self._ref.facts["owner"], limiter=self._entering
            )
        except box_connections.NotTheBox as error:
            raise SandboxGone("Its process has ended.") from error


async def _connected(opened: socket.socket, listener: box_connections.Listener) -> socket.socket:
    """OSError where nothing accepts; then the socket is closed."""
    try:
        with anyio.fail_after(_CONNECTED_WITHIN):
            number = opened.connect_ex((listener.address, listener.port))
            if number == errno.EINPROGRESS:
                await anyio.wait_writable(opened)
                number = opened.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if number != 0:
            raise OSError(number, os.strerror(number))
    except BaseException:
        opened.close()
        raise
    return opened
