"""The program itself, driven by the official client; each test has a home of its own."""

import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

mcp = pytest.importorskip("mcp", reason="the extra limpet[mcp] is not installed")
from mcp import Client  # noqa: E402 - after the skip
from mcp.client.stdio import StdioServerParameters  # noqa: E402
from mcp.client.streamable_http import streamable_http_client  # noqa: E402

from tests.cli.conftest import environment  # noqa: E402

LIMPET = str(Path(sys.executable).parent / "limpet")
ANNOUNCED = "limpet mcp serves "


Connect = Callable[..., AbstractAsyncContextManager[Client]]


@pytest.fixture
def stdio(home: Path) -> Connect:
    """`async with stdio("--readonly", mode="legacy", elicitation_callback=…) as client`: a program and a client of its own."""

    @asynccontextmanager
    async def connect(*arguments: str, **settings: Any) -> AsyncIterator[Client]:
        server = StdioServerParameters(command=LIMPET, args=["mcp", *arguments], env={"LIMPET_HOME": str(home)})
        async with Client(server, read_timeout_seconds=30, **settings) as client:
            yield client

    return connect


@contextmanager
def program(home: Path, *arguments: str, **variables: str) -> Iterator["subprocess.Popen[bytes]"]:
    """`limpet mcp` with pipes; ended with the block, if it has not ended by itself."""
    process = subprocess.Popen(
        [LIMPET, "mcp", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(home, **variables),
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
        process.communicate(timeout=20)


@contextmanager
def http_program(home: Path, *arguments: str, **variables: str) -> Iterator[tuple[str, "subprocess.Popen[bytes]"]]:
    """The same over HTTP on a free port: its address, once it answers, and the process."""
    with program(home, "--http", "127.0.0.1:0", *arguments, **variables) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        said = process.stdout.readline().decode()
        assert said.startswith(ANNOUNCED), process.stderr.read().decode()
        yield said.removeprefix(ANNOUNCED).strip(), process


@asynccontextmanager
async def over_http(url: str, *, headers: dict[str, str] | None = None, **settings: Any) -> AsyncIterator[Client]:
    async with httpx2.AsyncClient(headers=headers, timeout=30, trust_env=False) as carrier:
        transport = streamable_http_client(url, http_client=carrier)
        async with Client(transport, read_timeout_seconds=30, **settings) as client:
            yield client


@pytest.fixture(params=["stdio 2026-07-28", "stdio 2025-11-25", "http"])
async def client_of(request: pytest.FixtureRequest, home: Path, stdio: Connect) -> Connect:
    """As `stdio`, over each transport and in both eras of the protocol."""

    @asynccontextmanager
    async def connect(*arguments: str, **settings: Any) -> AsyncIterator[Client]:
        if request.param == "http":
            with http_program(home, *arguments) as (url, _):
                async with over_http(url, **settings) as client:
                    yield client
        else:
            mode = "auto" if "2026" in request.param else "legacy"
            async with stdio(*arguments, mode=mode, **settings) as client:
                yield client

    return connect


def text_of(result: Any) -> str:
    (part,) = result.content
    text: str = part.text
    return text
