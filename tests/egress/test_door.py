"""A door between a client and real servers on loopback: what the server's log holds is what left."""

import socket
import struct
from collections.abc import Sequence

import anyio
import pytest
from anyio import to_thread

from limpet.egress.door import DoorLimits
from tests.support.doors import BOUND, open_door, policy_for, tls_through, trusting, upstream

pytestmark = pytest.mark.anyio
GOOD = "api.good.example"
GET = f"GET / HTTP/1.1\r\nHost: {GOOD}\r\n\r\n".encode()


async def test_tls_to_an_allowed_host_passes_through_untouched_and_is_recorded() -> None:
    with upstream(GOOD) as up:
        async with open_door(policy_for(GOOD, port=up.port)) as door:
            answer = await to_thread.run_sync(tls_through, door.port, up, f"{GOOD}:{up.port}", GOOD, GET)
            assert answer.endswith(b"hello")
            assert (up.seen, up.names, door.asked) == ([GET], [GOOD], [GOOD])
            with anyio.fail_after(BOUND):
                while not door.records:
                    await anyio.sleep(0.005)
        record = door.records[0]
        assert (record.box, record.host, record.verdict, record.rule) == ("box", GOOD, "allowed", GOOD)
        assert record.sent > len(GET)
        assert record.received > 500


@pytest.mark.parametrize(
    "authority, says",
    [
        ("evil.example:443", b"host_not_allowed"),
        ("evil.example:{port}", b"host_not_allowed"),
        (f"{GOOD}:22", b"port_not_allowed"),
        ("127.0.0.1:{port}", b"not_a_name"),
        ("2130706433:{port}", b"not_a_name"),
        ("[::1]:{port}", b"not_a_name"),
        ("[::ffff:127.0.0.1]:{port}", b"not_a_name"),
        ("0x7f.1:{port}", b"not_a_name"),
        ("localhost:{port}", b"host_not_allowed"),
        (f"{GOOD}@evil.example:443", b"malformed"),
        (f"{GOOD}", b"malformed"),
    ],
)
async def test_a_tunnel_elsewhere_is_refused_at_once_and_nothing_is_dialed(authority: str, says: bytes) -> None:
    with upstream(GOOD) as up:
        async with open_door(policy_for(GOOD, port=up.port)) as door:
            target = authority.format(port=up.port)
            answer = await door.say(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n".encode())
            assert b"X-Limpet-Refused: " + says in answer
            assert answer.startswith((b"HTTP/1.1 403 ", b"HTTP/1.1 400 "))
            assert b"Do not retry" in answer
        assert (up.dials, door.asked) == (0, [])
        assert [record.verdict for record in door.records] == ["refused"]


@pytest.mark.parametrize("sni", ["evil.example", "other.good.example", ""])
async def test_a_tunnel_whose_tls_names_another_host_is_refused(sni: str) -> None:
    with upstream(GOOD) as up:
        async with open_door(policy_for(GOOD, "other.good.example", port=up.port)) as door:

            def shake() -> None:
                context = trusting(up)
                context.check_hostname = False
                context.verify_mode = 0  # type: ignore[assignment]
                with socket.create_connection(("127.0.0.1", door.port), timeout=BOUND) as plain:
                    plain.sendall(f"CONNECT {GOOD}:{up.port} HTTP/1.1\r\nHost: {GOOD}:{up.port}\r\n\r\n".encode())
                    assert plain.recv(65_536).startswith(b"HTTP/1.1 200")
                    context.wrap_socket(plain, server_hostname=sni or None)

            with pytest.raises(OSError, match=r"(?i)access denied"):
                await to_thread.run_sync(shake)
        assert (up.names, [record.rule for record in door.records]) == ([], ["names_disagree"])


@pytest.mark.parametrize("data", [b"SSH-2.0-x\r\n", GET, b"\0" * 40, b"\x16\2\0\0\0"])
async def test_a_tunnel_that_carries_no_tls_is_refused(data: bytes) -> None:
    with upstream(GOOD) as up:
        async with open_door(policy_for(GOOD, port=up.port)) as door:
            target = f"{GOOD}:{up.port}"
            await door.say(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n".encode() + data)
        assert (up.seen, [record.rule for record in door.records]) == ([], ["not_tls"])


@pytest.mark.parametrize(
    "answers",
    [["10.0.0.1"], ["169.254.169.254"], ["93.184.216.34", "10.0.0.1"], ["::1"], ["::ffff:169.254.169.254"], ["64:ff9b::a9fe:a9fe"],
     ["100.64.0.1"], ["0.0.0.0"], ["fe80::1"], ["fd00::1"], ["224.0.0.1"], ["168.63.129.16"]],
)  # fmt: skip
async def test_one_answer_that_is_not_public_poisons_the_name(answers: Sequence[str]) -> None:
    async with open_door(policy_for(GOOD, networks=()), {GOOD: answers}) as door:
        answer = await door.say(f"CONNECT {GOOD}:443 HTTP/1.1\r\nHost: {GOOD}:443\r\n\r\n".encode())
        assert answer.startswith(b"HTTP/1.1 403 ")
        assert b"not_public" in answer
        assert not any(address.encode() in answer for address in answers)
    assert door.asked == [GOOD]


async def test_plain_requests_reach_the_host_that_they_name_each_for_itself() -> None:
    with upstream(GOOD, tls=False) as up:
        async with open_door(policy_for(GOOD, port=up.port)) as door:
            target = f"{GOOD}:{up.port}"
            asked = f"GET http://{target}/a HTTP/1.1\r\nHost: {target}\r\nProxy-Connection: keep-alive\r\nX: 1\r\n\r\n"
            evil = "GET http://evil.example/ HTTP/1.1\r\nHost: evil.example\r\n\r\n"
            answer = await door.say((asked + evil).encode())
        assert answer.count(b"HTTP/1.1 200 OK") == 1
        assert b"host_not_allowed" in answer
        assert up.seen == [f"GET /a HTTP/1.1\r\nHost: {target}\r\nX: 1\r\n\r\n".encode()]
        assert [record.verdict for record in door.records] == ["allowed", "refused"]


async def test_a_connection_that_its_host_closed_meanwhile_is_replaced() -> None:
    with upstream(GOOD, tls=False, closes=True) as up:
        async with open_door(policy_for(GOOD, port=up.port)) as door:
            asked = f"GET http://{GOOD}:{up.port}/ HTTP/1.1\r\nHost: {GOOD}:{up.port}\r\n"
            answer = await door.say(f"{asked}\r\n{asked}\r\n{asked}Connection: close\r\n\r\n".encode())
        assert (answer.count(b"HTTP/1.1 200 OK"), len(up.seen)) == (3, 3)


async def test_what_a_request_smuggles_in_its_body_is_no_request() -> None:
    with upstream(GOOD, tls=False) as up:
        async with open_door(policy_for(GOOD, port=up.port)) as door:
            target = f"{GOOD}:{up.port}"
            inner = b"GET /inner HTTP/1.1\r\nHost: evil.example\r\n\r\n"
            head = f"POST http://{target}/ HTTP/1.1\r\nHost: {target}\r\nContent-Length: {len(inner)}\r\nConnection: close\r\n\r\n"
            await door.say(head.encode() + inner + b"GET /after HTTP/1.1\r\nHost: x\r\n\r\n")
        assert len(b"".join(up.seen).split(b"POST / ")) == 2
        assert b"/after" not in b"".join(up.seen)


@pytest.mark.parametrize(
    "data",
    [b"GET / HTTP/1.1\r\n\r\n", b"X" * 70_000, b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 15_000, b"TRACE / HTTP/1.1\r\nHost: a.a\r\n\r\n"],
)  # fmt: skip
async def test_what_is_malformed_is_answered_and_ends(data: bytes) -> None:
    async with open_door(policy_for(GOOD)) as door:
        assert (await door.say(data)).startswith(b"HTTP/1.1 400 ")


async def test_a_narrower_policy_ends_open_connections_at_once() -> None:
    with upstream(GOOD) as up:
        async with open_door(policy_for(GOOD, port=up.port)) as door:

            def hold(opened: anyio.Event) -> bytes:
                with socket.create_connection(("127.0.0.1", door.port), timeout=BOUND) as plain:
                    plain.sendall(f"CONNECT {GOOD}:{up.port} HTTP/1.1\r\nHost: {GOOD}:{up.port}\r\n\r\n".encode())
                    plain.recv(65_536)
                    with trusting(up).wrap_socket(plain, server_hostname=GOOD, suppress_ragged_eofs=True) as secure:
                        secure.sendall(GET)
                        secure.recv(65_536)
                        from_thread(opened.set)
                        return secure.recv(65_536)

            from_thread = anyio.from_thread.run_sync
            opened = anyio.Event()
            async with anyio.create_task_group() as tasks:
                ended: list[bytes] = []

                async def run() -> None:
                    ended.append(await to_thread.run_sync(hold, opened))

                tasks.start_soon(run)
                with anyio.fail_after(BOUND):
                    await opened.wait()
                door.door.apply(policy_for("other.example"))
            assert ended == [b""]


async def test_a_flood_is_turned_away_and_the_door_works_on_when_it_ends() -> None:
    async with open_door(policy_for(GOOD), limits=DoorLimits(connections=2)) as door:
        held = [await anyio.connect_tcp("127.0.0.1", door.port) for _ in range(2)]
        for each in held:
            await each.send(b"GET ")
        with anyio.fail_after(BOUND):
            while True:
                extra = await door.say(b"")
                if b"too_many" in extra:
                    break
        for each in held:
            await each.aclose()
        with anyio.fail_after(BOUND):
            while b"host_not_allowed" not in await door.say(b"CONNECT evil.example:443 HTTP/1.1\r\nHost: x\r\n\r\n"):
                pass


async def test_names_are_answered_by_the_policy_and_never_looked_up() -> None:
    async with open_door(policy_for(GOOD)) as door:

        def ask(name: str) -> bytes:
            labels = b"".join(bytes([len(part)]) + part.encode() for part in name.split("."))
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
                asking.settimeout(BOUND)
                asking.sendto(
                    struct.pack(">HHHHHH", 1, 256, 1, 0, 0, 0) + labels + b"\0\0\1\0\1", ("127.0.0.1", door.names)
                )
                return asking.recv(512)

        assert (await to_thread.run_sync(ask, GOOD)).endswith(b"\xc6\x12\0\1")
        assert (await to_thread.run_sync(ask, "data.evil.example"))[3] & 15 == 3
        assert door.asked == []
