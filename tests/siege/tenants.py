"""The tenants at work: small commands through /v1/responses, one after the other at a steady pace, and /livez, each time on a
new connection. Measures; decides nothing."""

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import anyio
import httpx2

from tests.siege.attack import Target, turn
from tests.siege.judge import Durations, Window

PACE = 0.5  # seconds between the starts of two commands of one tenant
LIVEZ_PACE = 0.05
PATIENCE = 20.0  # seconds after which a command counts as failed
LIVEZ_PATIENCE = 5.0


@dataclass(slots=True)
class Record:
    """What was measured since it was begun."""

    commands: list[float] = field(default_factory=list)
    livez: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def window(self) -> Window:
        return Window(
            commands=Durations(seconds=tuple(self.commands)),
            livez=Durations(seconds=tuple(self.livez)),
            failures=tuple(self.failures),
        )


class Tenants:
    """`record` is where measurements go; None for those that nobody asked for. A command counts for the record in which it began."""

    def __init__(self, targets: Sequence[Target]) -> None:
        self._targets = targets
        self.record = Record()

    @asynccontextmanager
    async def at_work(self) -> AsyncIterator["Tenants"]:
        async with AsyncExitStack() as stack, anyio.create_task_group() as tasks:
            for number, target in enumerate(self._targets):
                client = await stack.enter_async_context(
                    httpx2.AsyncClient(base_url=target.url, timeout=PATIENCE, trust_env=False)
                )
                tasks.start_soon(self._work, client, target, PACE * number / len(self._targets))
            tasks.start_soon(self._ask_livez, self._targets[0].url)
            yield self
            tasks.cancel_scope.cancel()

    async def _work(self, client: httpx2.AsyncClient, target: Target, offset: float) -> None:
        environment = {"type": "container_reference", "container_id": target.container}
        count = 0
        begins = anyio.current_time() + offset
        while True:
            await anyio.sleep_until(begins)
            count += 1
            record, begun = self.record, time.monotonic()
            word = f"tick-{target.container[-6:]}-{count}"
            body = turn(f"echo {word} >> ticks; tail -n 1 ticks", environment, store=False)
            try:
                answer = await client.post(
                    "/v1/responses", json=body, headers={"Authorization": f"Bearer {target.key}"}
                )
                if answer.status_code != 200 or answer.text.count(word) < 2 or '"completed"' not in answer.text:
                    record.failures.append(f"{answer.status_code}: {answer.text[:300]}")
            except (httpx2.HTTPError, OSError) as error:
                record.failures.append(f"{type(error).__name__} {error}".strip())
            record.commands.append(time.monotonic() - begun)
            begins = max(begins + PACE, anyio.current_time())

    async def _ask_livez(self, url: str) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None
        assert parts.port is not None
        while True:
            record, begun = self.record, time.monotonic()
            try:
                with anyio.fail_after(LIVEZ_PATIENCE):
                    await _get_livez(parts.hostname, parts.port)
                record.livez.append(time.monotonic() - begun)
            except (OSError, TimeoutError, anyio.EndOfStream, anyio.BrokenResourceError):
                record.livez.append(LIVEZ_PATIENCE)
            await anyio.sleep(max(0.0, begun + LIVEZ_PACE - time.monotonic()))


async def _get_livez(host: str, port: int) -> None:
    async with await anyio.connect_tcp(host, port) as stream:
        await stream.send(f"GET /livez HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n\r\n".encode())
        answer = await stream.receive()
        if not answer.startswith(b"HTTP/1.1 200"):
            raise OSError(answer[:40])
