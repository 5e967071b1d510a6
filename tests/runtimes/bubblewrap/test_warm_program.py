"""An ordinary user's gateway enters the networks of its boxes through one program, which is started again where it was killed."""

import os
import signal
from pathlib import Path

import anyio
import pytest
from anyio import to_thread

from limpet.core.network import DOOR_ADDRESS, DoorPlan
from limpet.core.ports import Offer
from limpet.runtimes.bubblewrap import BubblewrapRuntime, namespace_sockets
from limpet.runtimes.bubblewrap.namespace_sockets import WARM_PROGRAM, Request
from tests.runtimes.bubblewrap.boxes import box_of
from tests.support.users import again_as_an_ordinary_user

pytestmark = pytest.mark.anyio


@pytest.mark.skipif(os.geteuid() == 0, reason="root enters by a thread; this is run again as an ordinary user below")
async def test_every_box_is_entered_by_one_program_that_is_replaced_when_it_was_killed(
    runtime: BubblewrapRuntime,
) -> None:
    async with box_of(runtime, needs=frozenset({Offer.NETWORK_POLICY})) as box:

        async def listened() -> int | None:
            listeners = await box.listen(DoorPlan())  # type: ignore[attr-defined]  # core.network.NetworkedSandbox
            assert listeners.web[443].getsockname() == (str(DOOR_ADDRESS), 443)
            listeners.close()
            return WARM_PROGRAM.pid

        first = await listened()
        assert first is not None
        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(to_thread.run_sync, refused_here)
        assert await listened() == first
        os.kill(first, signal.SIGKILL)
        os.waitid(os.P_PID, first, os.WEXITED | os.WNOWAIT)
        assert await listened() not in (None, first)


def refused_here() -> None:
    """The network of this process is not one that the user owns."""
    namespace = os.open("/proc/self/ns/net", os.O_RDONLY)
    try:
        with pytest.raises(OSError, match="namespace"):
            namespace_sockets.open_sockets(namespace, Request(listeners=[("127.0.0.1", 0)]))
    finally:
        os.close(namespace)


def test_as_an_ordinary_user() -> None:
    again_as_an_ordinary_user(str(Path(__file__)), "-k", "one_program")
