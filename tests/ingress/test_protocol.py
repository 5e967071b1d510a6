"""What a client may cost: each bound tried over a real socket, by the client that it is there for."""

import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from tests.ingress.conftest import Serve, answer

GET = b"GET / HTTP/1.1\r\nHost: x\r\n"
POST = b"POST / HTTP/1.1\r\nHost: x\r\n"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n"


@pytest.mark.parametrize(
    "head, status",
    [
        pytest.param(GET + b"A: b\r\n" * 300, 431, id="many headers"),
        pytest.param(GET + b"A: b\r\n" * 6_000_000, 431, id="36 MB of tiny headers"),
        pytest.param(GET + b"A: " + b"a" * (70 * 1024), 431, id="a header value that does not end"),
        pytest.param(GET + b"a" * (70 * 1024), 431, id="a header name that does not end"),
        pytest.param(GET + b"A: " + b"a" * (200 << 20), 431, id="a header value of 200 MB"),
        pytest.param(
            GET + b"A: " + b"a" * (40 * 1024) + b"\r\nB: " + b"b" * (40 * 1024) + b"\r\n\r\n", 431, id="two values"
        ),
        pytest.param(b"GET /" + b"a" * (20 * 1024) + b" HTTP/1.1\r\n\r\n", 414, id="a long URL"),
        pytest.param(b"GET /" + b"a" * (50 << 20), 414, id="a URL that does not end"),
        pytest.param(b"G" * 100_000, 400, id="a method that does not end"),
        pytest.param(b"\x16\x03\x01" + b"\0" * 100, 400, id="TLS"),
        pytest.param(b"GET /\xff HTTP/1.1\r\nHost: x\r\n\r\n", 400, id="bytes beyond ASCII in the path"),
    ],
)
def test_a_head_that_passes_a_bound_is_refused_at_once(serve: Serve, head: bytes, status: int) -> None:
    with serve() as served:
        began = time.monotonic()
        found, body = served.ask(head)
        took = time.monotonic() - began

        # A client that goes on sending for as long as it likes is cut, and may lose the answer.
        assert found in (status, 0) if len(head) > 4 << 20 else found == status
        assert body == b"" or b"code" in body
        assert took < 5
        assert served.is_alive()


def test_a_usual_large_head_is_answered(serve: Serve) -> None:
    with serve() as served:
        cookies = b"".join(b"X-Header-%d: %s\r\n" % (number, b"v" * 200) for number in range(200))
        assert served.ask(GET + cookies + b"Connection: close\r\n\r\n") == (200, b"0")


@pytest.mark.parametrize(
    "pieces",
    [
        pytest.param([b""], id="nothing at all"),
        pytest.param([b"G", b"ET /", b"a"], id="a request line that does not end"),
        pytest.param([GET, b"A", b":", b" "], id="headers that do not end"),
        pytest.param([b"\r\n"] * 8, id="empty lines"),
    ],
)
def test_a_head_that_does_not_come_in_time_is_given_up(serve: Serve, pieces: list[bytes]) -> None:
    with serve(header_timeout_secs=0.5) as served, served.connect() as client:
        with dripping(client, pieces):
            status, _ = answer(client)

        assert status == (408 if pieces[0] else 0)
        assert served.is_alive()


@contextmanager
def dripping(client: socket.socket, pieces: list[bytes]) -> Iterator[None]:
    """Sends the pieces, and the last one again and again, ten times a second."""
    over = threading.Event()

    def drip() -> None:
        try:
            for piece in pieces:
                client.sendall(piece)
            while not over.wait(0.1):
                client.sendall(pieces[-1])
        except OSError:
            pass  # cut

    thread = threading.Thread(target=drip)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(timeout=5)


@pytest.mark.parametrize(
    "pieces",
    [
        pytest.param([POST + b"Content-Length: 1000\r\n\r\n", b"a"], id="a byte at a time"),
        pytest.param([CHUNKED, b"1\r\na\r\n"], id="a chunk at a time"),
        pytest.param([CHUNKED, b"5;x=", b"y"], id="an extension that does not end"),
        pytest.param([CHUNKED, b"1\r\na\r\n0\r\n", b"A: b\r\n"], id="trailers that do not end"),
    ],
)
def test_a_body_that_trickles_is_given_up(serve: Serve, pieces: list[bytes]) -> None:
    with serve(body_timeout_secs=1.0, min_bytes_per_sec=50) as served, served.connect() as client:
        with dripping(client, pieces):
            status, body = answer(client)

        assert (status, b"request_timeout" in body) == (408, True)
        served.wait_until(lambda: served.ended == ["/"])  # its application was told
        assert served.is_alive()


def test_a_slow_body_that_keeps_its_rate_is_taken(serve: Serve) -> None:
    with serve(body_timeout_secs=0.5, min_bytes_per_sec=200) as served, served.connect() as client:
        client.sendall(POST + b"Content-Length: 3000\r\nConnection: close\r\n\r\n")
        for _ in range(30):
            client.sendall(b"a" * 100)
            time.sleep(0.1)

        assert answer(client) == (200, b"3000")


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"5;" + b"x" * 200_000, id="an extension"),
        pytest.param(
            b"5;x=" + b"y" * 60_000 + b"\r\nhello\r\n" + b"5;x=" + b"y" * 60_000 + b"\r\nhello\r\n0\r\n\r\n", id="two"
        ),
        pytest.param(b"1\r\na\r\n" * 200_000, id="chunks of one byte"),
        pytest.param(b"100000\r\n" + b"a" * 0x100000 + b"\r\n0\r\nA: " + b"a" * 400_000, id="a trailer behind much"),
        pytest.param(b"0\r\n" + b"A: b\r\n" * 1_000, id="many trailers"),
        pytest.param(b"fffffffffffffffffffff\r\n", id="a size beyond numbers"),
    ],
)
def test_framing_without_a_body_in_it_is_refused(serve: Serve, body: bytes) -> None:
    with serve() as served:
        status, _ = served.ask(CHUNKED + body)

        assert status in (400, 431)
        assert served.is_alive()


def test_a_trailer_is_no_header_of_the_request(serve: Serve) -> None:
    with serve() as served:
        head = CHUNKED.replace(b"POST /", b"POST /headers")
        status, names = served.ask(head + b"1\r\na\r\n0\r\nAuthorization: Bearer x\r\n\r\n")

        assert (status, names) == (200, b"host,transfer-encoding,connection")


def test_pipelined_requests_are_answered_in_their_order_up_to_a_bound(serve: Serve) -> None:
    with serve() as served:
        with served.connect() as client:
            client.sendall(b"".join(POST + b"Content-Length: %d\r\n\r\n%s" % (n, b"a" * n) for n in range(20)))
            client.sendall(GET + b"Connection: close\r\n\r\n")
            said = b""
            while piece := client.recv(65536):
                said += piece
        assert re.findall(rb"\r\n\r\n(\d+)", said) == [b"%d" % n for n in range(20)] + [b"0"]

        with served.connect() as client:
            client.sendall(b"POST /waits HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
            client.sendall((GET + b"\r\n") * 10_000)
            assert answer(client) == (0, b"")
        assert served.is_alive()


def test_more_connections_than_may_be_close_the_idle_and_refuse_the_rest(serve: Serve) -> None:
    with serve(max_connections=20, max_connections_per_address=20) as served, ExitStack() as open_ones:
        idle = [open_ones.enter_context(served.connect()) for _ in range(60)]
        assert served.is_alive()
        assert answer(idle[0]) == (0, b"")  # closed

        busy = [open_ones.enter_context(served.connect()) for _ in range(20)]
        for client in busy:
            client.sendall(b"POST /waits HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
        served.wait_until(lambda: len(served.server.server_state.tasks) == 20)
        status, body = served.ask(GET + b"\r\n")
        assert (status, b"too_many_connections" in body) == (503, True)

        for client in busy[:5]:
            client.close()
        served.wait_until(lambda: len(served.server.server_state.tasks) == 15)
        assert served.is_alive()


def test_an_address_with_its_share_open_keeps_no_other_out(serve: Serve) -> None:
    with serve(max_connections=100, max_connections_per_address=5) as served, ExitStack() as open_ones:
        for _ in range(5):
            client = open_ones.enter_context(served.connect())
            client.sendall(b"POST /waits HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
        served.wait_until(lambda: len(served.server.server_state.tasks) == 5)

        assert served.ask(GET + b"\r\n")[0] == 503
        with socket.create_connection(("127.0.0.1", served.port), source_address=("127.0.0.2", 0)) as other:
            other.sendall(GET + b"Connection: close\r\n\r\n")
            assert answer(other) == (200, b"0")


def test_a_thousand_idle_connections_keep_nobody_out(serve: Serve) -> None:
    with serve() as served, ExitStack() as open_ones:
        for _ in range(1500):
            open_ones.enter_context(served.connect())

        assert served.is_alive()


def test_an_answer_that_is_not_read_is_cut_and_holds_no_memory(serve: Serve) -> None:
    with serve(write_timeout_secs=1.0) as served, ExitStack() as open_ones:
        clients = [open_ones.enter_context(served.connect(receive_buffer=4096)) for _ in range(300)]
        for client in clients:
            client.sendall(b"GET /endless HTTP/1.1\r\nHost: x\r\n\r\n")
        until = time.monotonic() + 20
        while len(served.ended) < 300 and time.monotonic() < until:
            assert served.is_alive()
            time.sleep(0.2)

        assert served.ended.count("/endless") == 300


def test_all_unread_answers_together_are_bounded(serve: Serve) -> None:
    with serve(max_unread_memory_mb=1, write_timeout_secs=60.0) as served, ExitStack() as open_ones:
        for _ in range(100):
            client = open_ones.enter_context(served.connect(receive_buffer=4096))
            client.sendall(b"GET /endless HTTP/1.1\r\nHost: x\r\n\r\n")
        served.wait_until(lambda: served.ended.count("/endless") > 10)
        assert served.is_alive()


def test_the_log_has_one_line_a_second_of_it(serve: Serve) -> None:
    with serve() as served:
        began = time.monotonic()
        for _ in range(200):
            served.ask(b"nonsense\r\n\r\n")
        took = time.monotonic() - began

        assert 1 <= len(served.notices) <= took + 1
        assert [event for event, _ in served.notices] == ["request_cut"] * len(served.notices)


def test_an_upgrade_is_answered_as_a_request_without_it(serve: Serve) -> None:
    with serve() as served:
        head = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n"
        assert served.ask(GET + head + b"\r\n") == (200, b"0")


def test_a_half_closed_connection_leaves_nothing(serve: Serve) -> None:
    with serve() as served:
        with served.connect() as client:
            client.sendall(b"POST /waits HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
            client.shutdown(socket.SHUT_WR)
            assert answer(client) == (0, b"")
        served.wait_until(lambda: served.ended == ["/waits"])
