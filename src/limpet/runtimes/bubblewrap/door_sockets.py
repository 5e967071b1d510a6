"""Opens the listeners of a box's door: as root by a thread, as an ordinary user by a program that ends at once."""

import json
import os
import socket
import subprocess
import sys

import anyio
from anyio import to_thread

from limpet.core.errors import BootFailed, SandboxGone
from limpet.core.network import DOOR_ADDRESS, NAMES_PORT, DoorListeners, DoorPlan
from limpet.runtimes.bubblewrap import ending, namespace_sockets
from limpet.runtimes.bubblewrap.namespace_sockets import Asked
from limpet.runtimes.bubblewrap.settings import AgentProcess, BoxPaths

_WITHIN = 10.0
_MOST_SOCKETS = 200
_OF_THE_BOX = b"\n# The authority of this box's door.\n"


async def listen(agent: AgentProcess, plan: DoorPlan) -> DoorListeners:
    """See `core.network.NetworkedSandbox.listen`."""
    tcp = plan.tcp()
    if len(tcp) > _MOST_SOCKETS:
        raise BootFailed(f"its network has {len(tcp)} ports and services; {_MOST_SOCKETS} are possible.")
    asked: Asked = (plan.addresses(), tcp, (str(DOOR_ADDRESS), NAMES_PORT))
    try:
        namespace = os.open(f"/proc/{agent.pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError as error:
        raise SandboxGone("Its process has ended.") from error
    except OSError as error:
        raise BootFailed(f"its network could not be entered: {error}.") from error
    try:
        # Only now is it sure that the process behind that number was the agent's when the namespace was opened.
        if not ending.lives(agent):
            raise SandboxGone("Its process has ended.")
        if os.geteuid() == 0:
            opened = await to_thread.run_sync(namespace_sockets.open_in_thread, namespace, asked)
        else:
            opened = await _by_program(namespace, asked)
    except OSError as error:
        raise BootFailed(f"the door of its network could not be opened: {error}.") from error
    finally:
        os.close(namespace)
    *listeners, names = opened
    web = dict(zip(plan.web, listeners, strict=False))
    return DoorListeners(
        web=web, names=names, services=dict(zip(plan.services, listeners[len(plan.web) :], strict=True))
    )


def trust(place: BoxPaths, certificate: bytes) -> None:
    """See `core.network.NetworkedSandbox.trust`. Blocking; the box sees the old file or the new one."""
    file = place.trust
    replacing = file.with_suffix(".new")
    try:
        before = file.read_bytes().partition(_OF_THE_BOX)[0]
        replacing.write_bytes(before + _OF_THE_BOX + certificate)
        replacing.chmod(0o644)
        replacing.replace(file)
    except OSError as error:
        raise BootFailed(f"its authority could not be made known to it: {error}.") from error


async def _by_program(namespace: int, asked: Asked) -> list[socket.socket]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        words = [sys.executable, "-I", "-S", namespace_sockets.__file__]
        with anyio.fail_after(_WITHIN):
            done = await anyio.run_process(
                [*words, str(namespace), str(theirs.fileno()), json.dumps(asked)],
                check=False,
                stdin=subprocess.DEVNULL,
                pass_fds=(namespace, theirs.fileno()),
                env={},
            )
        if done.returncode != 0:
            said = done.stderr.decode(errors="replace").strip().splitlines()
            raise OSError(said[-1] if said else "the program ended")
        ours.setblocking(False)
        _, descriptors, _, _ = socket.recv_fds(ours, 1, _MOST_SOCKETS + 1)
    return [socket.socket(fileno=each) for each in descriptors]
