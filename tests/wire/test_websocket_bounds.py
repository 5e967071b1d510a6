"""WebSocket clients that break the rules, send too much or read too little: each ends its own connection and no other's."""

import json
import os
import socket as sockets
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tests.support.gateway import Gateway, running
from tests.support.host import eventually
from tests.support.providers.turns import reply
from tests.wire.asking import SHELL, shell_blocks
from tests.wire.provider import MODEL, Provider
from tests.wire.sockets import connected
from tests.wire.test_keys import CONFIG, Keyed

MIB = 1 << 20
_MASK = b"\0\0\0\0"
TIGHT = """
[server.connections]
body_timeout_secs = 0.4
write_timeout_secs = 0.5
max_body_memory_mb = 64
max_connections = 16
"""


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Keyed]:
    """With tight bounds, too."""
    with running(tmp_path_factory.mktemp("keyed"), config=CONFIG + TIGHT) as gateway:
        yield Keyed(gateway)


@pytest.fixture(scope="module")
def key(keyed: Keyed) -> dict[str, str]:
    return {"Authorization": f"Bearer {keyed.key('usual')}"}


def head(size: int, *, first: int = 0x81) -> bytes:
    """Of a masked frame with so many bytes."""
    return struct.pack("!BBQ", first, 0xFF, size) + _MASK


@pytest.mark.promise("websocket-is-bounded")
@pytest.mark.parametrize(
    "sent, code",
    [
        (b"\x81\x02{}", 1002),  # not masked
        (b"\xc1\x82" + _MASK + b"{}", 1002),  # says that it is compressed
        (b"\x83\x80" + _MASK, 1002),  # an opcode that there is not
        (b"\x80\x82" + _MASK + b"{}", 1002),  # goes on with nothing
        (b"\x89\xfe\x00\x7e" + _MASK + b"x" * 126, 1002),  # a ping that is too long
        (b"\x01\x81" + _MASK + b"{" + b"\x81\x82" + _MASK + b"{}", 1002),  # a message within a message
        (b"\x82\x82" + _MASK + b"{}", 1003),  # binary
        (head(65 * MIB), 1009),
        (head(2**62), 1009),
        (b"\x01\x81" + _MASK + b"{" + head(64 * MIB, first=0x80), 1009),  # in fragments
    ],
)
def test_what_is_no_message_ends_its_connection_only(gateway: Gateway, sent: bytes, code: int) -> None:
    with connected(gateway) as other, connected(gateway) as bad:
        bad.connection.socket.sendall(sent)
        assert bad.close_code() == code
        assert other.response(input="hello")["status"] == "completed"


@pytest.mark.promise("websocket-is-bounded")
def test_garbage_is_answered_and_a_flood_of_it_ends_its_connection_only(gateway: Gateway) -> None:
    garbage = ["{", "[]", "5", '"x"', "null", "\x00", "{" * 5000, '{"type": 5}', '{"type": []}', "[" * 100_000]
    with connected(gateway) as other, connected(gateway) as bad:
        for text in garbage:
            bad.send(text)
        codes = {bad.error()["error"]["code"] for _ in garbage}
        good = bad.response(input="hello")
        for _ in range(40):
            bad.send("{")
        code = bad.close_code()
        assert other.response(input="hello")["status"] == "completed"

    assert codes == {"invalid_json", None}
    assert good["status"] == "completed"
    assert code == 1008


@pytest.mark.promise("websocket-is-bounded")
def test_a_message_in_fragments_with_pings_between_is_one(gateway: Gateway) -> None:
    whole = json.dumps({"type": "response.create", "model": "limpet/script", "input": "hello"}).encode()
    ping = b"\x89\x81" + _MASK + b"p"
    frames = [bytes([0x01 if at == 0 else 0x00, 0x81]) + _MASK + whole[at : at + 1] for at in range(len(whole))]
    with connected(gateway) as socket:
        socket.connection.socket.sendall(ping.join(frames) + b"\x80\x80" + _MASK)
        assert socket.ended()["type"] == "response.completed"


@pytest.mark.promise("websocket-is-bounded")
def test_more_than_64_requests_do_not_wait(scripted_gateway: Gateway, provider: Provider) -> None:
    provider.play(reply("Held.", hold_after=1))
    with connected(scripted_gateway) as socket:
        socket.create(model=MODEL, input="go", store=False)
        provider.wait_held()
        for _ in range(65):
            socket.create(model=MODEL, input="go", store=False)
        refused = socket.error()
    provider.wait_left()

    assert (refused["status"], refused["error"]["code"]) == (503, "too_many_waiting_requests")


@pytest.mark.promise("websocket-is-bounded")
def test_a_message_that_does_not_arrive_ends_its_connection(keyed: Keyed, key: dict[str, str]) -> None:
    with connected(keyed.gateway, additional_headers=key) as socket:
        socket.connection.socket.sendall(head(1000) + b"{" * 100)
        assert socket.close_code() == 1008


@pytest.mark.promise("websocket-is-bounded")
def test_messages_that_arrive_share_the_memory_of_all_bodies(keyed: Keyed, key: dict[str, str]) -> None:
    options: Any = {"additional_headers": key}
    with connected(keyed.gateway, **options) as first, connected(keyed.gateway, **options) as second:
        for socket in (first, second):
            socket.connection.socket.sendall(head(60 * MIB))
        piece = b"x" * MIB
        with pytest.raises((ConnectionClosed, OSError)):
            for _ in range(60):
                for socket in (first, second):
                    socket.connection.socket.sendall(piece)
        with keyed.gateway.http() as http:
            assert http.get("/livez").status_code == 200


@pytest.mark.promise("websocket-is-bounded")
def test_a_client_that_does_not_read_loses_its_connection_only(keyed: Keyed, key: dict[str, str]) -> None:
    slow = sockets.socket()
    slow.setsockopt(sockets.SOL_SOCKET, sockets.SO_RCVBUF, 4096)
    host, _, port = keyed.gateway.url.removeprefix("http://").partition(":")
    slow.connect((host, int(port)))
    named = {**key, "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="}
    lines = "".join(f"{name}: {value}\r\n" for name, value in named.items())
    slow.sendall(
        f"GET /v1/responses HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n{lines}\r\n".encode()
    )
    asked = {"type": "response.create", "model": "limpet/script", "input": shell_blocks("seq 150000"), "tools": SHELL}
    body = json.dumps(asked).encode()
    slow.sendall(struct.pack("!BBH", 0x81, 0xFE, len(body)) + _MASK + body)
    with connected(keyed.gateway, additional_headers=key) as other:
        assert other.response(input="hello")["status"] == "completed"
    eventually(lambda: "does not read the answer" in keyed.gateway.log.read_text(), within=30)
    slow.close()


@pytest.mark.promise("websocket-lives-for-an-hour")
def test_an_old_connection_is_told_and_closed(tmp_path: Path) -> None:
    aged = "[server.connections]\nwebsocket_lifetime_secs = 1\n"
    with running(tmp_path, config=aged, runtime="memory") as gateway, connected(gateway) as socket:
        told = socket.error()
        code = socket.close_code()

    assert (told["status"], told["error"]["code"]) == (400, "websocket_connection_limit_reached")
    assert code == 1001


@pytest.mark.promise("websocket-is-bounded")
def test_connections_without_a_response_make_room_for_new_ones(keyed: Keyed, key: dict[str, str]) -> None:
    with connected(keyed.gateway, additional_headers=key) as oldest:
        idle = [sockets.create_connection(oldest.connection.remote_address[:2]) for _ in range(17)]
        with keyed.gateway.http() as http:
            assert http.get("/livez").status_code == 200
        assert oldest.close_code() == 1006
        for each in idle:
            each.close()


@pytest.mark.promise("websocket-work-counts-for-its-key")
def test_each_response_counts_for_its_key(keyed: Keyed) -> None:
    key = {"Authorization": f"Bearer {keyed.key('slow', '--per-minute', '3', '--concurrent', '1')}"}
    with pytest.raises(InvalidStatus) as stranger, connected(keyed.gateway):
        pass
    with connected(keyed.gateway, additional_headers=key) as socket:
        answered = [socket.response(input="hello")["status"] for _ in range(2)]
        socket.create(input="hello")
        refused = socket.error()

    assert stranger.value.response.status_code == 401
    assert answered == ["completed", "completed"]
    assert (refused["status"], refused["error"]["code"]) == (429, "rate_limit_exceeded")
    assert int(refused["error"]["headers"]["retry-after"]) > 0


@pytest.mark.promise("websocket-work-counts-for-its-key")
def test_a_revoked_key_makes_no_more_responses_and_tenants_are_apart(keyed: Keyed) -> None:
    key = {"Authorization": f"Bearer {keyed.key('leaver', '--tenant', 'left')}"}
    other = keyed.as_(keyed.key("stranger", "--tenant", "other"))
    with connected(keyed.gateway, additional_headers=key) as socket:
        made = socket.response(input="hello")["id"]
        with pytest.raises(openai.NotFoundError):
            other.responses.retrieve(made)
        line = next(line for line in keyed.cli("list").splitlines() if "leaver" in line)
        keyed.cli("revoke", line.split()[0])
        socket.create(input="hello")
        refused = socket.error()

    assert (refused["status"], refused["error"]["code"]) == (401, "invalid_api_key")


def test_a_connection_that_ends_leaves_nothing_behind(gateway: Gateway) -> None:
    def open_files() -> int:
        assert gateway.process is not None
        return len(os.listdir(f"/proc/{gateway.process.pid}/fd"))

    with connected(gateway) as socket:
        socket.response(input="hello", store=False)
    before: Any = open_files()
    for _ in range(10):
        with connected(gateway) as socket:
            socket.response(input="hello", store=False)
    eventually(lambda: open_files() <= before)
