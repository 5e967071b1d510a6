"""What listens in a box is listed, and connections to it reach the box's own loopback and never the host's."""

import os
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest
from anyio import to_thread

from limpet.core.command import Exited
from limpet.core.errors import SandboxClosed, SandboxGone
from limpet.core.ports import Sandbox
from limpet.runtimes.bubblewrap import BubblewrapRuntime, box_connections
from limpet.runtimes.bubblewrap.box_connections import Listener, NotTheBox, read_table
from limpet.runtimes.bubblewrap.namespace_sockets import Request, open_in_thread
from tests.runtimes.bubblewrap.boxes import box_of, run
from tests.support.users import again_as_an_ordinary_user

pytestmark = pytest.mark.anyio

_HEAD = b"  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
# Listens at each address of its arguments; says so, then tells each client its own name and ends the connection.
_SERVER = """
import socket, sys, threading
def serve(one):
    while True:
        peer, _ = one.accept()
        with peer:
            peer.sendall(b"from the box\\n")
for place in sys.argv[1:]:
    host, _, port = place.rpartition(":")
    one = socket.create_server((host, int(port)), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    threading.Thread(target=serve, args=(one,)).start()
print("ready", flush=True)
"""


async def _serve(box: Sandbox, *places: str) -> None:
    """Start the server in the box, and return when it listens."""
    await box.files.write("server.py", _SERVER.encode())
    script = f"mkfifo ready; python3 server.py {' '.join(places)} > ready & read line < ready; rm ready; echo $line"
    assert (await run(box, script))[:2] == (Exited(0), "ready\n")


async def _greeting(box: Sandbox, port: int) -> bytes:
    with await box.connect(port) as connection:
        assert connection.getblocking() is False
        with anyio.fail_after(5):
            await anyio.wait_readable(connection)
            return connection.recv(100)


@pytest.fixture
async def box(runtime: BubblewrapRuntime) -> AsyncIterator[Sandbox]:
    async with box_of(runtime) as box:
        yield box


async def test_listeners_are_listed_and_reached_at_every_kind_of_address(box: Sandbox) -> None:
    await _serve(box, "127.0.0.1:8001", "0.0.0.0:8002", "127.0.0.9:8003", "::1:8004", ":::8005")

    assert list(await box.listening_ports()) == [8001, 8002, 8003, 8004, 8005]
    assert [await _greeting(box, port) for port in range(8001, 8006)] == [b"from the box\n"] * 5


async def test_a_server_of_the_host_is_out_of_reach(box: Sandbox) -> None:
    with socket.create_server(("127.0.0.1", 0)) as host:
        port = host.getsockname()[1]

        assert list(await box.listening_ports()) == []
        with pytest.raises(ConnectionRefusedError, match=str(port)):
            await box.connect(port)
        await _serve(box, f"127.0.0.1:{port}")

        assert await _greeting(box, port) == b"from the box\n"
        host.setblocking(False)
        with pytest.raises(BlockingIOError):
            host.accept()


async def test_a_box_that_is_gone_or_closed_is_not_connected_to(runtime: BubblewrapRuntime) -> None:
    async with box_of(runtime) as box:
        await _serve(box, "127.0.0.1:8001")
        os.kill(box.ref.facts["pid"], 9)
        for attempt in (box.listening_ports, lambda: box.connect(8001)):
            with pytest.raises((SandboxGone, ConnectionRefusedError)), anyio.fail_after(5):
                while True:  # the kernel takes a moment to end it
                    await attempt()
        await box.destroy()
        with pytest.raises(SandboxClosed):
            await box.connect(8001)


async def test_the_network_of_the_host_itself_is_never_entered() -> None:
    started = Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]
    with socket.create_server(("127.0.0.1", 0)) as host:
        port = host.getsockname()[1]

        with pytest.raises(NotTheBox):
            box_connections.listeners(os.getpid(), started, None)
        with pytest.raises(NotTheBox):
            await to_thread.run_sync(box_connections.unconnected, os.getpid(), started, Listener(port, "127.0.0.1"))


async def test_a_process_that_has_taken_over_the_pid_is_not_entered(box: Sandbox) -> None:
    with pytest.raises(NotTheBox):
        box_connections.listeners(box.ref.facts["pid"], "1", None)


def test_tables_are_read_as_the_kernel_writes_them_and_nothing_else_is_believed() -> None:
    def line(address: str, port: str, state: str = "0A", uid: str = "1000") -> bytes:
        return f"   0: {address}:{port} 00000000:0000 {state} 00000000:00000000 00:00000000 00000000  {uid}        0 1 1 0\n".encode()

    table = (
        _HEAD
        + line("00000000", "1F90")
        + line("0100007F", "0BB8")
        + line("0" * 32, "1F91")
        + line("0100007F", "0050", state="01")
        + line("0100007F", "0051", uid="0")
        + line("0100007F", "0000")
        + line("0100007F", "00501")
        + line("zz00007F", "0050")
        + b"\xff\x00\n" * 3
        + b"   0: 0100007F:0050"
    )

    assert sorted(read_table(table, 1000)) == [
        Listener(3000, "127.0.0.1"),
        Listener(8080, "127.0.0.1"),
        Listener(8081, "::1"),
    ]
    assert Listener(81, "127.0.0.1") in set(read_table(table, None))


@pytest.mark.skipif(
    os.geteuid() != 0, reason="only root's boxes have a user of their own, by whom sockets are told apart"
)
async def test_what_others_than_the_box_open_in_its_network_is_not_listed(box: Sandbox) -> None:
    agent = box.ref.facts
    with await to_thread.run_sync(_opened_by_root, agent["pid"]) as opened:
        port = opened.getsockname()[1]

        assert port in {found.port for found in box_connections.listeners(agent["pid"], agent["started"], None)}
        assert list(await box.listening_ports()) == []
        with pytest.raises(ConnectionRefusedError):
            await box.connect(port)


def _opened_by_root(pid: int) -> socket.socket:
    """A listener in the box's namespace that is not the box's."""
    namespace = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
    try:
        (opened,) = open_in_thread(namespace, Request(unconnected=[socket.AF_INET]))
    finally:
        os.close(namespace)
    opened.bind(("127.0.0.1", 0))
    opened.listen()
    return opened


def test_the_same_holds_for_an_ordinary_user() -> None:
    again_as_an_ordinary_user(__file__, "-k", "listed_and_reached or server_of_the_host or host_itself")
