"""Who is let in over HTTP, and what a request must look like. The server is the program itself."""

from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from tests.cli.conftest import environment
from tests.mcp.conftest import http_program, over_http
from tests.mcp.test_endings import HANDSHAKE
from tests.support.host import processes_of
from tests.support.prepared import ran

TOKEN = "correct-horse-battery"
INITIALIZE = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HANDSHAKE}
ACCEPTED = {"accept": "application/json, text/event-stream"}


@pytest.fixture
def url(home: Path) -> Iterator[str]:
    with http_program(home, "--runtime", "memory") as (url, _):
        yield url


def asked(url: str, **headers: str) -> httpx2.Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return httpx2.post(url, json=INITIALIZE, headers={**ACCEPTED, **named}, trust_env=False, timeout=20)


def test_a_web_page_gets_nothing_and_neither_does_a_rebound_name(url: str) -> None:
    port = url.split(":")[2].split("/")[0]
    refused = [
        asked(url, origin="http://evil.example"),
        asked(url, origin=f"http://127.0.0.1:{port}"),
        asked(url, origin="null"),
        asked(url, sec_fetch_site="cross-site"),
        asked(url, host="evil.example"),
        asked(url, host=f"evil.example:{port}"),
        asked(url, host="127.0.0.1.evil.example"),
        asked(url, host=f"localhost:{port}@evil.example"),
        asked(url, host="127.0.0.1, evil.example"),
    ]
    assert [response.status_code for response in refused] == [403] * len(refused)
    assert [asked(url, host=host).status_code for host in ("localhost", f"127.0.0.1:{port}", f"[::1]:{port}")] == [
        200
    ] * 3


def test_with_a_token_only_who_knows_it_is_let_in_and_still_no_web_page(home: Path) -> None:
    with http_program(home, "--runtime", "memory", LIMPET_MCP_TOKEN=TOKEN) as (url, _):
        refused = [
            asked(url),
            asked(url, authorization=f"Bearer {TOKEN}x"),
            asked(url, authorization=f"Bearer {TOKEN[:-1]}"),
            asked(url, authorization="Bearer"),
            asked(url, authorization=f"Basic {TOKEN}"),
        ]
        assert [response.status_code for response in refused] == [401] * len(refused)
        assert refused[0].headers["www-authenticate"] == "Bearer"
        assert asked(url, authorization=f"Bearer {TOKEN}", host="box.example").status_code == 200
        assert asked(url, authorization=f"Bearer {TOKEN}", origin="http://box.example").status_code == 403


@pytest.mark.anyio
async def test_the_official_client_brings_the_token(home: Path) -> None:
    with http_program(home, "--runtime", "memory", LIMPET_MCP_TOKEN=TOKEN) as (url, _):
        async with over_http(url, headers={"authorization": f"Bearer {TOKEN}"}) as client:
            result = await client.call_tool("Bash", {"command": "echo in"})
    assert result.structured_content["stdout"] == "in\n"


@pytest.mark.parametrize(
    "arguments, variables, word",
    [
        (["--http", "0.0.0.0:0"], {}, "LIMPET_MCP_TOKEN"),
        (["--http", "[::]:0"], {}, "LIMPET_MCP_TOKEN"),
        (["--http", "127.0.0.1:0"], {"LIMPET_MCP_TOKEN": "short"}, "16 printable"),
        (["--http", "127.0.0.1:0"], {"LIMPET_MCP_TOKEN": ""}, "16 printable"),
        (["--http", "8421"], {}, "HOST:PORT"),
        (["--http", "127.0.0.1:99999"], {}, "HOST:PORT"),
        (["--runtime", "local"], {}, "--unsafe-local"),
        (["--runtime", "microsandbox"], {}, "not built yet"),
        (["--name", "a__b"], {}, "single _"),
        (["--name", "workspace__x"], {}, "workspace__"),
        (["--directory", "/nowhere/at/all"], {}, "not a directory"),
        (["--config", "/nowhere.toml"], {}, "cannot be read"),
    ],
)
def test_what_cannot_be_served_is_refused_in_a_sentence(
    home: Path, arguments: list[str], variables: dict[str, str], word: str
) -> None:
    done = ran(["mcp", *arguments], env=environment(home, **variables))
    assert (done.returncode, done.stdout) == (2, "")
    assert word in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_request_that_opens_no_session_starts_no_box(home: Path) -> None:
    with http_program(home) as (url, process):
        stateless = {**ACCEPTED, "mcp-protocol-version": "2026-07-28"}
        listing = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        with httpx2.Client(trust_env=False, timeout=20) as client:
            answers = [
                client.post(url, json=listing, headers=ACCEPTED),
                client.post(url, content=b"{", headers={**ACCEPTED, "content-type": "application/json"}),
                client.post(url, content=b"[" * 100_000, headers={**ACCEPTED, "content-type": "application/json"}),
                client.get(url, headers=ACCEPTED),
                client.post(url, json=listing, headers={**ACCEPTED, "mcp-session-id": "0" * 32}),
                client.post(url, json=INITIALIZE, headers=stateless),
                client.get(url.removesuffix("/mcp"), headers=ACCEPTED),
            ]
        assert [answer.status_code for answer in answers] == [400, 400, 400, 400, 404, 400, 404]
        assert answers[5].json()["error"]["data"]["supported"][-1] == "2025-11-25"
        assert [pid for pid in processes_of(str(home)) if pid != process.pid] == []
