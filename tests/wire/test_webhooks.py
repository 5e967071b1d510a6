"""Endpoints of a tenant are told of the ends of its background responses: signed as OpenAI does, again until they are taken."""

import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import openai
import pytest
import trustme

from tests.support.gateway import Gateway, lasting
from tests.support.host import eventually, rows
from tests.wire.asking import SHELL, shell_blocks
from tests.wire.conftest import RUNTIME
from tests.wire.schema import check_error
from tests.wire.streams import replayed


@dataclass
class Receiver:
    """An https server that keeps what it is posted. `statuses` are its next answers; afterwards it says 204."""

    port: int = 0
    trust: Path = Path()
    statuses: list[int] = field(default_factory=list)
    posted: list[tuple[dict[str, str], bytes]] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}/hook"


@contextmanager
def receiver(directory: Path) -> Iterator[Receiver]:
    authority, kept = trustme.CA(), Receiver(trust=directory / "authority.pem")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    authority.cert_pem.write_to_path(str(kept.trust))

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            kept.posted.append((dict(self.headers.items()), body))
            self.send_response(kept.statuses.pop(0) if kept.statuses else 204)
            self.send_header("location", "https://127.0.0.1/elsewhere")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            """Tests read their own asserts."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        kept.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield kept
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def told(directory: Path, *, retry: float = 0.1) -> Iterator[tuple[Gateway, Receiver]]:
    with receiver(directory) as hook:
        config = (
            f"[features.webhooks]\nallowed_networks = ['127.0.0.0/8']\nports = [443, {hook.port}]\n"
            f"first_retry_secs = {retry}\nmax_attempts = 3\nmax_endpoints = 3\n"
        )
        env = {"SSL_CERT_FILE": str(hook.trust)}
        with lasting(directory, runtime=RUNTIME, config=config, env=env) as gateway:
            yield gateway, hook


def unwrapped(client: openai.OpenAI, hook: Receiver, number: int, secret: str) -> Any:
    headers, body = hook.posted[number]
    return client.webhooks.unwrap(body, headers, secret=secret)


def background(gateway: Gateway, script: str = "true", **fields: Any) -> str:
    body = {"model": "limpet/script", "input": shell_blocks(script), "tools": SHELL, "background": True, **fields}
    with gateway.http() as http:
        return http.post("/v1/responses", json=body).json()["id"]


def test_the_official_client_makes_an_endpoint_and_verifies_what_it_is_told(home_directory: Path) -> None:
    """Told of background responses alone, once each, also where the endpoint fails at first and the gateway is killed meanwhile."""
    with told(home_directory, retry=1.0) as (gateway, hook):
        client = gateway.client()
        made = client.webhooks.create(
            name="mine", url=hook.url, event_types=["response.completed", "response.cancelled"]
        )
        assert made.signing_secret.startswith("whsec_")
        assert made.signing_secret.encode() not in b"".join(
            path.read_bytes() for path in gateway.home.glob("limpet.db*")
        )
        assert client.webhooks.retrieve(made.id).signing_secret_hint == f"whsec_…{made.signing_secret[-4:]}"
        assert [each.id for each in client.webhooks.list()] == [made.id]
        assert "response.failed" in client.webhooks.event_types.list().data

        client.responses.create(model="limpet/script", input="in the foreground")
        hook.statuses = [500]
        finished = background(gateway)
        replayed(gateway, finished)
        eventually(lambda: owed(gateway, "attempts = 1 AND next_at < created_at + 20000000"), within=20.0)
        gateway.kill()
        gateway.start()
        client = gateway.client()
        eventually(lambda: not owed(gateway), within=40.0)
        cancelled = background(gateway, "sleep 619.5")
        client.responses.cancel(cancelled)
        eventually(lambda: not owed(gateway), within=20.0)
        events = [unwrapped(client, hook, number, made.signing_secret) for number in range(len(hook.posted))]

    assert {(event.type, event.data.id) for event in events} == {
        ("response.completed", finished),
        ("response.cancelled", cancelled),
    }
    assert len({event.id for event in events}) == 2
    assert events[0].object == "event"


def owed(gateway: Gateway, where: str = "TRUE") -> list[dict]:
    return rows(gateway.home / "limpet.db", f"SELECT id FROM webhook_deliveries WHERE {where}")


def test_secrets_rotate_and_a_delivery_is_given_up_in_the_end(home_directory: Path) -> None:
    with told(home_directory) as (gateway, hook):
        client = gateway.client()
        made = client.webhooks.create(name="mine", url=hook.url, event_types=["response.completed"])
        kept = client.webhooks.rotate_secret(made.id, keep_old_secret_active_for_24_hours=True)
        tested = client.webhooks.test(made.id, event_type="response.failed")
        assert (tested.status_code, tested.success) == (204, True)
        for secret in (made.signing_secret, kept.signing_secret):
            assert unwrapped(client, hook, 0, secret).type == "response.failed"
        fresh = client.webhooks.rotate_secret(made.id)
        hook.statuses = [301, 500, 429]
        replayed(gateway, background(gateway))
        eventually(lambda: len(hook.posted) == 4 and not owed(gateway), within=20.0)
        assert unwrapped(client, hook, 3, fresh.signing_secret).type == "response.completed"
        with pytest.raises(openai.InvalidWebhookSignatureError):
            unwrapped(client, hook, 3, kept.signing_secret)
        with gateway.http() as http:
            metrics = http.get("/metrics").text
        assert 'limpet_webhooks_total{result="given_up"} 1.0' in metrics

        client.webhooks.update(made.id, event_types=["response.failed"])
        assert client.webhooks.delete(made.id).deleted is True
        with pytest.raises(openai.NotFoundError):
            client.webhooks.retrieve(made.id)


@pytest.mark.parametrize(
    "changed, param",
    [
        ({"url": "http://hooks.example.com/"}, "url"),
        ({"url": "https://user@hooks.example.com/"}, "url"),
        ({"url": "https://hooks.example.com:8443/"}, "url"),
        ({"event_types": []}, "event_types"),
        ({"event_types": ["batch.completed"]}, "event_types[0]"),
        ({"name": ""}, "name"),
    ],
)
def test_an_endpoint_that_cannot_be_told_is_refused(gateway: Gateway, changed: dict, param: str) -> None:
    good = {"name": "mine", "url": "https://hooks.example.com/", "event_types": ["response.completed"]}
    with gateway.http() as http:
        answer = http.post("/v1/webhook_endpoints", json={**good, **changed})
    assert answer.status_code == 400
    check_error(answer.json())
    assert answer.json()["error"]["param"] == param


def test_an_endpoint_at_a_private_address_is_not_dialed(gateway: Gateway) -> None:
    body = {"name": "mine", "url": "https://127.0.0.1/", "event_types": ["response.completed"]}
    with gateway.http() as http:
        made = http.post("/v1/webhook_endpoints", json=body).json()
        tested = http.post(f"/v1/webhook_endpoints/{made['id']}/test", json={"event_type": "response.completed"})
        http.delete(f"/v1/webhook_endpoints/{made['id']}")
    assert (tested.status_code, tested.json()["error"]["code"]) == (400, "webhook_unreachable")
