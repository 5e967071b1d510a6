"""A request of very many very small headers"""

from tests.siege.attack import Target

HEADERS = b"".join(b"a%d: b\r\n" % number for number in range(100_000))


def attack(target: Target) -> None:
    """30 MB of them on each connection, on and on."""
    with target.socket() as connection:
        connection.sendall(b"GET /livez HTTP/1.1\r\nHost: siege\r\n")
        for _ in range(30):
            connection.sendall(HEADERS)


def holds(target: Target) -> None:
    with target.socket() as connection:
        connection.settimeout(5)
        few = b"".join(b"a%d: b\r\n" % number for number in range(1000))
        connection.sendall(b"GET /livez HTTP/1.1\r\nHost: siege\r\n" + few + b"\r\n")
        answer = connection.recv(64)
        assert not answer.startswith(b"HTTP/1.1 2"), f"a request with 1,000 headers was answered {answer[:20]!r}"
