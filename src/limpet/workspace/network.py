"""The door of a box's network, open for the time of a block; without a network there is none, and the box reaches nothing."""

import json
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import cast

import anyio

from limpet.core.network import DoorListeners, NetworkedSandbox
from limpet.core.ports import Sandbox
from limpet.egress.door import Door, Interception
from limpet.egress.network import Network, plan_for
from limpet.egress.records import EgressRecord

MARK = "network_audit"
NETWORK_LOG = "limpet.network_audit"
log = logging.getLogger(NETWORK_LOG)


def write_record(record: EgressRecord) -> None:
    """The audit line of a connection, beside those of commands."""
    log.info("%s %s", MARK, json.dumps(record.fields()))


@asynccontextmanager
async def opened_door(
    sandbox: Sandbox, name: str, network: Network | None, interceptor: Interception | None = None
) -> AsyncIterator[Door | None]:
    """Its door, which works until the block is left. Raises BootFailed, SandboxGone where it cannot be opened."""
    if network is None:
        yield None
        return
    policy = network.policy()
    if interceptor is not None:
        policy = replace(policy, secret_hosts=tuple(host for secret in interceptor.secrets for host in secret.hosts))
        await cast(NetworkedSandbox, sandbox).trust(interceptor.certificate)
    listeners = await cast(NetworkedSandbox, sandbox).listen(plan_for(policy))
    door = Door(name, policy, resolve=network.resolver, audit=write_record, interceptor=interceptor)
    async with AsyncExitStack() as stack:
        tasks = await stack.enter_async_context(anyio.create_task_group())
        tasks.start_soon(serve_closed, door, listeners)
        try:
            yield door
        finally:
            tasks.cancel_scope.cancel()
            await stack.aclose()


async def serve_closed(door: Door, listeners: DoorListeners) -> None:
    """Serve until cancelled. A door that breaks leaves its box closed, and nothing else is harmed."""
    try:
        await door.serve(listeners)
    except Exception:
        log.exception("The door of %s has broken: nothing can be reached from there.", door.box)
