"""Whose `X-Forwarded-For` is believed."""

import pytest
from starlette.types import Receive, Scope, Send

from limpet.ingress.server import HttpServer
from limpet.ingress.settings import ServerSettings

pytestmark = pytest.mark.anyio
FORWARDED = [(b"x-forwarded-for", b"203.0.113.9, 10.1.1.1"), (b"x-forwarded-proto", b"https")]


async def _client_of(connection: str, trusted_proxies: tuple[str, ...]) -> tuple[str, str]:
    """Whom an application takes for the client of a request from that address, and under which scheme."""
    seen: list[Scope] = []

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(scope)

    server = HttpServer(
        application,
        render=lambda refusal: b"",
        write=lambda *event, **facts: None,
        trusted_proxies=trusted_proxies,
    )
    scope = {"type": "http", "client": (connection, 4711), "scheme": "http", "headers": FORWARDED}
    await server.config.loaded_app(scope, None, None)  # type: ignore[arg-type]  # it asks nothing and says nothing
    return seen[0]["client"][0], seen[0]["scheme"]


@pytest.mark.parametrize("connection", ["127.0.0.1", "::1", "10.1.1.1"])
async def test_by_default_nobody_is_believed(connection: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORWARDED_ALLOW_IPS", "*")

    assert await _client_of(connection, ()) == (connection, "http")


async def test_a_trusted_proxy_says_for_whom_it_asks() -> None:
    trusted = ("127.0.0.1", "10.0.0.0/8")

    assert await _client_of("127.0.0.1", trusted) == ("203.0.113.9", "https")
    assert await _client_of("10.9.9.9", trusted) == ("203.0.113.9", "https")
    assert await _client_of("192.0.2.1", trusted) == ("192.0.2.1", "http")


def test_what_is_no_address_is_refused() -> None:
    assert list(ServerSettings(trusted_proxies=("127.0.0.1", "10.0.0.0/8", "::1", "fd00::/8")).conflicts()) == []
    for wrong in ("*", "proxy.example", "10.0.0.1/8", ""):
        ((key, problem),) = ServerSettings(trusted_proxies=(wrong,)).conflicts()
        assert (key, repr(wrong) in problem) == ("trusted_proxies", True)
