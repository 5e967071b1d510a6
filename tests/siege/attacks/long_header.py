"""A header whose value is 200 MB long"""

from tests.siege.attack import Target


def attack(target: Target) -> None:
    with target.socket() as connection:
        connection.sendall(b"GET /livez HTTP/1.1\r\nHost: siege\r\nX-Long: ")
        for _ in range(200):
            connection.sendall(b"x" * (1 << 20))
        connection.sendall(b"\r\n\r\n")
        connection.recv(64)


def holds(target: Target) -> None:
    with target.socket() as connection:
        connection.settimeout(5)
        try:
            connection.sendall(b"GET /livez HTTP/1.1\r\nHost: siege\r\nX-Long: " + b"x" * 200_000 + b"\r\n\r\n")
            answer = connection.recv(64)
        except ConnectionError:
            return
        assert not answer.startswith(b"HTTP/1.1 2"), f"a header of 200 kB was answered {answer[:20]!r}"
