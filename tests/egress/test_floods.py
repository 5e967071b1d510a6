"""A box that floods its door holds up nobody: what else the gateway has to do goes on."""

import socket
import threading
import tracemalloc
from contextlib import AsyncExitStack

import anyio
import pytest

from limpet.egress.policy import read_policy
from limpet.egress.record_throttle import BURST
from limpet.egress.records import EgressRecord
from limpet.egress.streams import PIECE
from tests.server.test_port_floods import FLOOD_SECONDS, LEAST_BEATS, beating
from tests.support.doors import open_door, policy_for, upstream

pytestmark = pytest.mark.anyio
QUESTION = b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x04evil\x07example\x00\x00\x01\x00\x01"


async def test_questions_for_names() -> None:
    is_over = threading.Event()

    def ask(port: int) -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
            while not is_over.is_set():
                asking.sendto(QUESTION, ("127.0.0.1", port))

    async with open_door(policy_for("api.good.example")) as door, beating() as beats:
        threads = [threading.Thread(target=ask, args=(door.names,), daemon=True) for _ in range(2)]
        for thread in threads:
            thread.start()
        await anyio.sleep(FLOOD_SECONDS)
        is_over.set()
        assert len(beats) >= LEAST_BEATS


async def test_a_request_of_tiny_chunks() -> None:
    is_over = threading.Event()
    with upstream("api.good.example", tls=False) as up:

        def post(port: int) -> None:
            target = f"api.good.example:{up.port}"
            head = f"POST http://{target}/ HTTP/1.1\r\nHost: {target}\r\nTransfer-Encoding: chunked\r\n\r\n"
            with socket.create_connection(("127.0.0.1", port)) as posting:
                posting.settimeout(0.2)
                try:
                    posting.sendall(head.encode())
                    while not is_over.is_set():
                        posting.sendall(b"1\r\nx\r\n" * 1000)
                except OSError:
                    pass

        policy = policy_for("api.good.example", port=up.port)
        async with open_door(policy) as door, beating() as beats:
            thread = threading.Thread(target=post, args=(door.port,), daemon=True)
            thread.start()
            await anyio.sleep(FLOOD_SECONDS)
            is_over.set()
            assert len(beats) >= LEAST_BEATS


async def test_refused_requests_of_one_box_write_few_lines_and_are_all_counted() -> None:
    lines: list[EgressRecord] = []
    request = b"GET http://evil.example/ HTTP/1.1\r\nHost: evil.example\r\n\r\n"
    asked = 300
    async with open_door(policy_for("api.good.example"), audit=lines.append) as door:
        for _ in range(asked):
            assert b"host_not_allowed" in await door.say(request)
        usage = door.door.usage()
    assert (usage.refused, len(door.records)) == (asked, asked)
    assert sum(line.count for line in lines) == asked
    assert len(lines) <= BURST + 100


async def test_tunnels_that_wait_hold_little_memory() -> None:
    tunnels = 20
    with upstream("api.good.example", tls=False) as up:
        policy = read_policy([], services={"db": f"127.0.0.1:{up.port}"})
        target = f"db.host.internal:{up.port}"
        async with open_door(policy) as door, AsyncExitStack() as stack:
            tracemalloc.start()
            stack.callback(tracemalloc.stop)
            before = held_by_doors()
            for _ in range(tunnels):
                opened = await stack.enter_async_context(await anyio.connect_tcp("127.0.0.1", door.port))
                await opened.send(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n".encode())
                assert (await opened.receive()).startswith(b"HTTP/1.1 200")
                await opened.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")  # both ways have carried something
                assert (await opened.receive()).endswith(b"hello")
            assert held_by_doors() - before < tunnels * 32_768 + 2 * PIECE
            assert door.door.connections == tunnels


def held_by_doors() -> int:
    """Bytes that code of limpet.egress holds."""
    snapshot = tracemalloc.take_snapshot().filter_traces([tracemalloc.Filter(True, "*/limpet/egress/*")])
    return sum(each.size for each in snapshot.statistics("filename"))
