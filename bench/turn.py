"""Whole turns over HTTP: a request, a model's call, a command in a box, the model's answer, all journalled. Beside the command."""

import time
from functools import partial
from typing import Any

import anyio
import httpx2

from bench.gateway import RunningProgram, gateway, gateway_process
from bench.table import Line, Row, Scale, by_turns, compared
from limpet import open_workspace

CONTAINERS = 40
TARGET = "≤ floor + 6 ms"
MILLISECONDS = 1000


async def rows(scale: Scale) -> list[Line]:
    async with gateway(scale.runtime) as url, httpx2.AsyncClient(base_url=url, trust_env=False, timeout=60.0) as client:
        return await _one_by_one(scale, client)


async def rows_at_once(scale: Scale) -> list[Line]:
    """A benchmark of its own: it boots many boxes."""
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=None)
    async with (
        gateway_process(scale.runtime) as process,
        httpx2.AsyncClient(base_url=process.said, trust_env=False, timeout=60.0, limits=limits) as client,
    ):
        return await _at_once(scale, process, client)


async def _one_by_one(scale: Scale, client: httpx2.AsyncClient) -> list[Line]:
    container = await _container(client)
    async with open_workspace("bench", runtime=scale.runtime, home=scale.home) as box:
        streamed, whole, command = await by_turns(
            partial(_turn, client, container, stream=True),
            partial(_turn, client, container, stream=False),
            partial(box.run, "true"),
            n=scale.of(100),
        )
    floor = f"the command alone, in a box of {scale.runtime}"
    return [
        compared(f"one turn over HTTP, {scale.runtime}, streamed", streamed, floor, command, target=TARGET),
        compared(f"one turn over HTTP, {scale.runtime}, not streamed", whole, floor, command, target=TARGET),
    ]


async def _at_once(scale: Scale, process: RunningProgram, client: httpx2.AsyncClient) -> list[Line]:
    """One turn after the other in each of many containers whose boxes run; beside one container alone."""
    containers = [await _container(client) for _ in range(CONTAINERS)]
    for container in containers:
        await _turn(client, container, stream=False)
    alone, cpu_alone = await _rate(process, client, containers[:1], scale.of(60))
    together, cpu_together = await _rate(process, client, containers, scale.of(15))
    name = f"shell turns over {CONTAINERS} warm containers"
    beside = "one container alone"
    return [
        Row(name=name, ours=together, beside=beside, floor=alone, unit="/s", n=CONTAINERS, target="≥ 180/s"),
        Row(
            name=f"{name}, CPU of the gateway for a turn",
            ours=cpu_together,
            beside=beside,
            floor=cpu_alone,
            unit="ms",
            n=CONTAINERS,
            target="≤ 5 ms",
        ),
    ]


async def _rate(
    process: RunningProgram, client: httpx2.AsyncClient, containers: list[str], turns: int
) -> tuple[float, float]:
    """Turns a second, and the gateway's CPU for one in milliseconds."""

    async def use(container: str) -> None:
        for _ in range(turns):
            await _turn(client, container, stream=False)

    used, begun = process.cpu_seconds(), time.perf_counter()
    async with anyio.create_task_group() as tasks:
        for container in containers:
            tasks.start_soon(use, container)
    count = turns * len(containers)
    taken, spent = time.perf_counter() - begun, process.cpu_seconds() - used
    return count / taken, spent / count * MILLISECONDS


async def _container(client: httpx2.AsyncClient) -> str:
    made: str = (await client.post("/v1/containers", json={"name": "bench"})).raise_for_status().json()["id"]
    return made


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
