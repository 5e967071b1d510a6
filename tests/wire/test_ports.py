"""What listens in a container, and the way to it: HTTP, WebSocket and plain TCP, and nothing of the gateway's on the way."""

import contextlib
import json
import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import openai
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from tests.support.gateway import LIMPET, Gateway, running
from tests.support.host import eventually
from tests.support.prepared import ran
from tests.wire.asking import container_of, printed, run
from tests.wire.test_keys import CONFIG, Keyed

_SERVER = Path(__file__).with_name("port_server.py").read_text()
_START = f"cat > server.py <<'EOF'\n{_SERVER}\nEOF\n" + (
    "setsid python3 server.py > log 2>&1 &\n"
    "for i in $(seq 200); do (: < /dev/tcp/127.0.0.1/3000) 2> /dev/null && break; sleep 0.05; done; echo up"
)


@dataclass(frozen=True)
class Served:
    """A container in which the server runs."""

    gateway: Gateway
    container: str

    def path(self, rest: str, *, port: int = 3000) -> str:
        return f"/v1/containers/{self.container}/ports/{port}{rest}"

    def ask(self, rest: str, *, method: str = "GET", port: int = 3000, **options: Any) -> httpx2.Response:
        with self.gateway.http() as http:
            return http.request(method, self.path(rest, port=port), **options)

    def echo(self, rest: str = "/echo", **options: Any) -> Any:
        answer = self.ask(rest, **options)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def link(self, **body: int) -> str:
        answer = self.ask("", method="POST", json=body)
        assert answer.status_code == 200, answer.text
        return str(answer.json()["url"])


@pytest.fixture(scope="module")
def served(gateway: Gateway, client: openai.OpenAI) -> Served:
    response = run(client, _START)
    assert printed(response) == "up\n"
    return Served(gateway, container_of(response))


@pytest.fixture(scope="module")
def client(gateway: Gateway) -> openai.OpenAI:
    return gateway.client()


@pytest.mark.promise("container-ports-are-listed")
def test_ports_are_listed(served: Served) -> None:
    listed = served.ask("", port=3000).json()
    with served.gateway.http() as http:
        page = http.get(f"/v1/containers/{served.container}/ports").json()

    assert listed == {"id": "3000", "object": "container.port", "container_id": served.container, "port": 3000}
    assert page == {"object": "list", "data": [listed], "first_id": "3000", "last_id": "3000", "has_more": False}


@pytest.mark.promise("container-port-carries-http")
def test_http_is_carried_as_it_is(served: Served) -> None:
    got = served.echo("/a/%2e%2e/b%2F%20c;d?q=1&r=%2e")
    put = served.echo("/x", method="PUT", content=b"\x00\xff", headers={"Content-Type": "application/json"})
    chunked = served.echo("/y", method="POST", content=iter([b"{", b"}"]), headers={"Content-Type": "application/json"})
    head = served.ask("/z", method="HEAD")

    assert (got["method"], got["path"]) == ("GET", "/a/%2e%2e/b%2F%20c;d?q=1&r=%2e")
    assert (put["method"], put["body"]) == ("PUT", "\x00\xff")
    assert chunked["body"] == "{}"
    assert (head.status_code, head.content) == (200, b"")


def test_the_box_is_told_nothing_of_the_clients_keys(served: Served) -> None:
    sent = {
        "Authorization": "Bearer sk-secret",
        "Cookie": "session=secret",
        "Proxy-Authorization": "secret",
        "X-Api-Key": "secret",
        "Referer": f"{served.gateway.url}/secret",
        "X-Forwarded-For": "secret",
        "Connection": "x-hop",
        "X-Hop": "secret",
        "X-Kept": "1",
    }

    told = dict(served.echo(headers=sent)["headers"])

    assert "secret" not in json.dumps(told)
    assert (told["host"], told["x-kept"], told["connection"]) == ("localhost:3000", "1", "close")


@pytest.mark.promise("container-port-is-isolated-from-the-gateway")
def test_a_page_cannot_act_as_the_gateway(served: Served) -> None:
    headers = served.ask("/page").headers

    for name in (
        "set-cookie www-authenticate clear-site-data access-control-allow-origin strict-transport-security service-worker-allowed"
        " alt-svc x-own"
    ).split():
        assert name not in headers
    policies = headers.get_list("content-security-policy")
    assert len(policies) == 2
    assert policies[1].startswith("sandbox ")
    assert "allow-same-origin" not in policies[1]
    assert "allow-top-navigation" not in policies[1]
    assert headers.get_list("x-content-type-options") == ["nosniff"]
    assert (headers["x-kept"], headers["referrer-policy"]) == ("1", "no-referrer")


def test_redirects_of_the_server_stay_below_its_port(served: Served) -> None:
    def led(to: str) -> str:
        return str(served.ask(f"/go?{to}").headers["location"])

    assert led("/v1/responses") == served.path("/v1/responses")
    assert led("http://localhost:3000/x") == served.path("/x")
    assert led("next") == "next"
    for elsewhere in ("http://localhost:8420/x", "//example.com/x", "https://example.com/"):
        assert led(elsewhere) == elsewhere


@pytest.mark.parametrize(
    "name",
    [
        "not-http",
        "two-lengths",
        "length-and-chunks",
        "huge-head",
        "many-heads",
        "silent",
        "switches",
        "no-class",
        "return-in-value",
    ],
)
def test_a_server_that_breaks_the_rules_is_a_bad_gateway(served: Served, name: str) -> None:
    answer = served.ask(f"/raw/{name}")

    assert (answer.status_code, answer.json()["error"]["code"]) == (502, "port_failed")


def test_answers_that_could_be_read_twice_are_read_once(served: Served) -> None:
    with served.gateway.http() as http:
        folded, doubled = (http.get(served.path(f"/raw/{name}")) for name in ("folded", "two-answers"))
        after = http.get("/livez")
    with pytest.raises(httpx2.HTTPError):
        served.ask("/raw/cut")

    unnamed = served.ask("/raw/no-name")

    assert (unnamed.status_code, unnamed.text) == (400, "ok")
    assert "set-cookie" not in folded.headers
    assert doubled.text == "ok"
    assert after.json()["status"] == "ok"


@pytest.mark.parametrize(
    "way, status",
    [
        ("/v1/containers/{id}/ports/0/", 400),
        ("/v1/containers/{id}/ports/65536/", 400),
        ("/v1/containers/{id}/ports/03000/", 400),
        ("/v1/containers/{id}/ports/3000%2F..%2F..%2Ffiles/", 404),
        ("/v1/containers/{id}/ports/127.0.0.1:8420/", 400),
        ("/v1/containers/{id}%2Fports/3000/x", 404),
        ("/v1/containers/cntr_00000000000000000000000000000000/ports/3000/", 404),
        ("/v1/containers/{id}/ports/3001/", 404),
    ],
)
def test_other_ways_of_writing_an_address_lead_nowhere_else(served: Served, way: str, status: int) -> None:
    host, port = urlsplit(served.gateway.url).hostname, urlsplit(served.gateway.url).port
    with socket.create_connection((host, port), 20) as raw:
        raw.sendall(
            f"GET {way.replace('{id}', served.container)} HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n\r\n".encode()
        )
        answer = b"".join(iter(lambda: raw.recv(65536), b""))

    assert answer.startswith(f"HTTP/1.1 {status} ".encode()), answer[:300]


def test_the_gateways_own_port_is_not_reached_through_a_container(served: Served) -> None:
    port = urlsplit(served.gateway.url).port
    assert port is not None

    assert served.ask("/livez", port=port).json()["error"]["code"] == "port_not_open"


@pytest.mark.promise("container-port-carries-websocket")
def test_websockets_are_carried(served: Served) -> None:
    address = served.gateway.url.replace("http", "ws") + served.path("/ws?x=1")
    with connect(address, additional_headers={"Authorization": "Bearer secret"}, proxy=None) as ws:
        told = dict(json.loads(ws.recv(20))["headers"])
        ws.send("hello")
        ws.send(b"\x00" * 5000)

        assert (ws.recv(20), ws.recv(20)) == ("hello", b"\x00" * 5000)
        assert "set-cookie" not in (ws.response.headers if ws.response else {})
    assert (told["host"], "authorization" in told) == ("localhost:3000", False)
    with connect(f"{served.link().replace('http', 'ws', 1)}ws", origin="null", proxy=None) as ws:  # type: ignore[arg-type]  # a plain text
        assert dict(json.loads(ws.recv(20))["headers"])["origin"] == "http://localhost:3000"
    with pytest.raises(InvalidStatus):
        connect(served.gateway.url.replace("http", "ws") + served.path("/echo"), proxy=None)


def test_a_web_page_of_another_origin_opens_no_websocket(served: Served) -> None:
    address = served.gateway.url.replace("http", "ws") + served.path("/ws")
    with pytest.raises(InvalidStatus, match="403"):
        connect(address, origin="https://evil.example", proxy=None)  # type: ignore[arg-type]  # a plain text


@pytest.mark.promise("container-port-takes-any-tcp-by-upgrade")
def test_plain_tcp_is_carried_by_an_upgrade(served: Served) -> None:
    with _upgraded(served) as raw:
        raw.sendall(b"GET /echo HTTP/1.0\r\n\r\n")
        answer = b"".join(iter(lambda: raw.recv(65536), b""))

    assert answer.startswith(b"HTTP/1.1 200 OK")


def test_half_a_wish_for_another_protocol_is_refused_and_costs_nothing(served: Served) -> None:
    for path, wish in (("", "limpet-tcp"), ("/ws", "websocket")):
        answer = served.ask(path, headers={"Upgrade": wish, "Connection": "keep-alive", "Sec-WebSocket-Key": "x"})

        assert (answer.status_code, answer.json()["error"]["code"]) == (400, "upgrade_unsupported")


@contextlib.contextmanager
def _upgraded(served: Served) -> Iterator[socket.socket]:
    place = urlsplit(served.gateway.url)
    with socket.create_connection((place.hostname, place.port), 20) as raw:
        raw.sendall(
            f"GET {served.path('')} HTTP/1.1\r\nHost: {place.netloc}\r\nUpgrade: limpet-tcp\r\nConnection: Upgrade\r\n\r\n".encode()
        )
        head = b""
        while b"\r\n\r\n" not in head:
            head += (piece := raw.recv(1))
            assert piece, head
        assert head.startswith(b"HTTP/1.1 101 ")
        yield raw


def test_the_command_line_forwards_a_port(served: Served) -> None:
    env = {"PATH": os.environ["PATH"], "LIMPET_HOME": str(served.gateway.home), "LIMPET_URL": served.gateway.url}
    words = [str(LIMPET), "containers", "forward", served.container]
    listed = ran(words[1:], env=env).stdout
    with subprocess.Popen([*words, "0:3000"], env=env, stdout=subprocess.PIPE, text=True) as forwarding:
        try:
            assert forwarding.stdout is not None
            address = forwarding.stdout.readline().split()[0]
            with httpx2.Client(trust_env=False) as browser:
                asked = [browser.get(f"{address}/v1/echo", headers={"Cookie": "own=1"}).json() for _ in range(3)]
        finally:
            forwarding.send_signal(signal.SIGINT)
        ended = forwarding.wait(30)
    wrong = ran([*words[1:], "8000:x"], env=env)

    assert listed == "PORT\n3000\n"
    assert [(told["path"], dict(told["headers"])["cookie"]) for told in asked] == [("/v1/echo", "own=1")] * 3
    assert ended == 0
    assert (wrong.returncode != 0, "8000:3000" in wrong.stderr) == (True, True)


def test_connections_of_a_container_are_bounded_and_come_free(served: Served) -> None:
    with contextlib.ExitStack() as held:
        for _ in range(16):
            held.enter_context(_upgraded(served))
        http, reading = held.enter_context(served.gateway.http()), []
        for _ in range(16):
            answer = held.enter_context(http.stream("GET", served.path("/endless")))
            reading.append(answer.iter_raw())  # which ends the answer when it is dropped
            next(reading[-1])

        assert served.ask("/echo").json()["error"]["code"] == "too_many_port_connections"

    assert eventually(lambda: served.ask("/echo").status_code == 200)
    with contextlib.ExitStack() as held:  # all of them, though no answer ever ended
        for _ in range(32):
            held.enter_context(eventually_upgraded(served))


def eventually_upgraded(served: Served) -> contextlib.AbstractContextManager[socket.socket]:
    """One more connection, as soon as there is room for it."""
    assert eventually(lambda: "too_many" not in served.ask("/echo").text)
    return _upgraded(served)


@pytest.mark.promise("container-port-link-expires")
def test_a_link_opens_its_port_for_a_browser_and_nothing_else(served: Served) -> None:
    link = served.link(expires_in_secs=60)
    of_a_page = {"Origin": "null", "Sec-Fetch-Site": "cross-site", "Content-Type": "text/plain"}
    with httpx2.Client(trust_env=False) as browser:
        got = browser.get(f"{link}echo?q=1", headers=of_a_page)
        posted = browser.post(f"{link}echo", headers=of_a_page, content=b"x")
        asked_before = browser.options(f"{link}echo", headers={**of_a_page, "Access-Control-Request-Method": "PUT"})
        led = browser.get(f"{link}go?/x", headers=of_a_page)
        outside = [
            browser.get(link.replace("/ports/3000/", "/ports/3001/")),
            browser.get(link[:-3] + ("00/" if not link.endswith("00/") else "11/")),
            browser.get(served.gateway.url + served.path("/"), headers=of_a_page),
            browser.get(f"{link}echo", headers={"Host": "evil.example"}),
        ]

    assert (got.json()["path"], posted.json()["body"]) == ("/echo?q=1", "x")
    assert got.headers["access-control-allow-origin"] == "*"
    assert (asked_before.status_code, asked_before.headers["access-control-allow-methods"]) == (204, "*")
    assert led.headers["location"] == urlsplit(link).path + "x"
    assert "sandbox" in got.headers["content-security-policy"]
    assert [answer.status_code for answer in outside] == [403, 403, 403, 403]
    assert "~" not in served.gateway.log.read_text()


@pytest.mark.parametrize(
    "body", [{"expires_in_secs": 9}, {"expires_in_secs": 86_401}, {"expires_in_secs": "60"}, {"a": 1}, []]
)
def test_links_have_bounds(served: Served, body: Any) -> None:
    answer = served.ask("", method="POST", json=body)

    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "expires_in_secs")


def test_ports_are_their_tenants_alone_and_a_link_needs_no_key(tmp_path_factory: pytest.TempPathFactory) -> None:
    with running(tmp_path_factory.mktemp("ports"), config=CONFIG) as gateway:
        keyed = Keyed(gateway)
        ann, bob = keyed.key("ann", "--tenant", "ann"), keyed.key("bob", "--tenant", "bob")
        container = container_of(run(keyed.as_(ann), _START))
        unknown = "cntr_" + "0" * 32
        with gateway.http() as http:

            def asked(key: str | None, path: str, id: str = container, method: str = "GET") -> httpx2.Response:
                headers = {} if key is None else {"Authorization": f"Bearer {key}"}
                body = {"json": {}} if method == "POST" else {}
                return http.request(method, f"/v1/containers/{id}/ports{path}", headers=headers, **body)

            own = asked(ann, "/3000/echo").json()
            link = asked(ann, "/3000", method="POST").json()["url"]
            for method, path in (("GET", ""), ("GET", "/3000"), ("GET", "/3000/echo"), ("POST", "/3000")):
                foreign, missing = asked(bob, path, method=method), asked(bob, path, unknown, method)
                assert foreign.status_code == missing.status_code == 404
                assert foreign.text == missing.text.replace(unknown, container)
                assert asked(None, path, method=method).status_code == 401
            linked = http.get(f"{link}echo")
            http.delete(f"/v1/containers/{container}", headers={"Authorization": f"Bearer {ann}"})
            gone = http.get(f"{link}echo")

    assert "sk-limpet" not in json.dumps(own)
    assert linked.json()["path"] == "/echo"
    assert gone.status_code == 404
