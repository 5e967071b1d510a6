"""Opens the listeners of a box's door in its network."""

import os
from pathlib import Path

from anyio import to_thread

from limpet.core.errors import BootFailed, SandboxGone
from limpet.core.network import DOOR_ADDRESS, NAMES_PORT, DoorListeners, DoorPlan
from limpet.runtimes.agent_client.agent_process import AgentProcess
from limpet.runtimes.bubblewrap import namespace_sockets
from limpet.runtimes.bubblewrap.java_trust import write_java_trust
from limpet.runtimes.bubblewrap.namespace_sockets import MOST_SOCKETS, Request

_OF_THE_BOX = b"\n# The authority of this box's door.\n"


async def listen(agent: AgentProcess, plan: DoorPlan) -> DoorListeners:
    """See `core.network.NetworkedSandbox.listen`."""
    tcp = plan.tcp()
    if len(tcp) > MOST_SOCKETS:
        raise BootFailed(f"its network has {len(tcp)} ports and services; {MOST_SOCKETS} are possible.")
    request = Request(plan.addresses(), tcp, datagrams=[(str(DOOR_ADDRESS), NAMES_PORT)])
    try:
        namespace = os.open(f"/proc/{agent.pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError as error:
        raise SandboxGone("Its process has ended.") from error
    except OSError as error:
        raise BootFailed(f"its network could not be entered: {error}.") from error
    try:
        # Only now is it sure that the process behind that number was the agent's when the namespace was opened.
        if not agent.lives():
            raise SandboxGone("Its process has ended.")
        opened = await to_thread.run_sync(namespace_sockets.open_sockets, namespace, request)
    except OSError as error:
        raise BootFailed(f"the door of its network could not be opened: {error}.") from error
    finally:
        os.close(namespace)
    *listeners, names = opened
    web = dict(zip(plan.web, listeners, strict=False))
    return DoorListeners(
        web=web, names=names, services=dict(zip(plan.services, listeners[len(plan.web) :], strict=True))
    )


def trust(file: Path, certificate: bytes) -> None:
    """See `core.network.NetworkedSandbox.trust`; `file` holds the box's authorities, beside what Java reads. Blocking; the box sees each
    file as it was or as it is now."""
    replacing = file.with_suffix(".new")
    try:
        before = file.read_bytes().partition(_OF_THE_BOX)[0]
        replacing.write_bytes(before + _OF_THE_BOX + certificate)
        replacing.chmod(0o644)
        replacing.replace(file)
        write_java_trust(file)
    except OSError as error:
        raise BootFailed(f"its authority could not be made known to it: {error}.") from error
