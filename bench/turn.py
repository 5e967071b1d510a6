"""One whole turn over HTTP: a request, a model's call, a command in a box, the model's answer, all journalled. Beside the command."""

from functools import partial
from typing import Any

import httpx2

from bench.gateway import gateway
from bench.table import Line, Scale, by_turns, compared
from limpet import open_workspace


async def rows(scale: Scale) -> list[Line]:
    async with gateway(scale.runtime) as url, httpx2.AsyncClient(base_url=url, trust_env=False, timeout=60.0) as client:
        container = (await client.post("/v1/containers", json={"name": "bench"})).raise_for_status().json()["id"]
        async with open_workspace("bench", runtime=scale.runtime, home=scale.home) as box:
            streamed, whole, command = await by_turns(
                partial(_turn, client, container, stream=True),
                partial(_turn, client, container, stream=False),
                partial(box.run, "true"),
                n=scale.of(100),
            )
    floor = f"the command alone, in a box of {scale.runtime}"
    return [
        compared(f"one turn over HTTP, {scale.runtime}, streamed", streamed, floor, command, target="≤ floor + 25 ms"),
        compared(f"one turn over HTTP, {scale.runtime}, not streamed", whole, floor, command, target="≤ floor + 25 ms"),
    ]


async def _turn(client: httpx2.AsyncClient, container: str, *, stream: bool) -> None:
    body: dict[str, Any] = {
        "model": "limpet/script",
        "input": "```sh\ntrue\n```",
        "tools": [{"type": "shell", "environment": {"type": "container_reference", "container_id": container}}],
        "stream": stream,
    }
    response = await client.post("/v1/responses", json=body)
    if response.status_code != httpx2.codes.OK or "ended with exit code 0" not in response.text:
        raise RuntimeError(f"The turn went wrong: {response.text[:1000]}")
