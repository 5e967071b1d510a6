"""What is written on a stream while nothing happens."""

from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest

from limpet.responses.replay import DecodedEvent
from limpet.server.sse import EventStream

pytestmark = pytest.mark.anyio
KEEP_ALIVE = 1.0


async def test_a_comment_comes_so_long_after_the_last_byte_and_not_a_window_later() -> None:
    written: list[tuple[float, bytes]] = []
    commented = anyio.Event()

    async def events() -> AsyncIterator[list[DecodedEvent]]:
        yield [DecodedEvent(seq=0, type="response.created", data={})]
        await commented.wait()

    async def receive() -> dict[str, Any]:
        await anyio.sleep_forever()
        raise AssertionError

    async def send(message: dict[str, Any]) -> None:
        written.append((anyio.current_time(), message.get("body", b"")))
        if message.get("body", b"").startswith(b":"):
            commented.set()

    async def release() -> None:
        pass

    with anyio.fail_after(5):
        await EventStream(events(), release=release, keep_alive=KEEP_ALIVE)({}, receive, send)  # type: ignore[arg-type]

    (told,) = (at for at, body in written if body.startswith(b"event:"))
    first = next(at for at, body in written if body.startswith(b":"))
    # Half a window of grace for a busy machine; a window counted from anywhere else would come a whole one later.
    assert KEEP_ALIVE <= first - told < 1.8 * KEEP_ALIVE
