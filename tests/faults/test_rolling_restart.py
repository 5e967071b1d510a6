"""Three gateways on one PostgreSQL are started again one after the other while clients work: no response is lost, no command runs twice,
and no client sees more than a connection that breaks off or an answer that tells it to try again."""

import itertools
import json
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Any

import httpx2
import pytest
from sqlalchemy import create_engine, text

from limpet.core.ids import new_id
from limpet.store.postgres import locate_server
from tests.faults.test_resume import check_unbroken
from tests.support.gateway import Gateway, lasting
from tests.wire.asking import SHELL, shell_blocks
from tests.wire.test_postgres import config_on

CLIENTS = 6
MOST_BREAKS = 400  # of one response: each is followed by a pause
PAUSE = 0.1
PATIENT = "[features.responses]\ntakeover_secs = 60\n"
Json = dict[str, Any]


@pytest.fixture
def database(postgres: Any, every_event: bool) -> Iterator[str]:
    if not every_event:
        pytest.skip("three nodes are started four times each: with --faults")
    with postgres.database(migrated=False) as url:
        yield url


@pytest.fixture
def nodes(database: str, tmp_path: Path) -> Iterator[list[Gateway]]:
    with ExitStack() as stack:
        config = config_on(database) + PATIENT
        gateways = []
        for name in ("one", "two", "three"):
            (tmp_path / name).mkdir()
            gateways.append(stack.enter_context(lasting(tmp_path / name, config=config)))
        yield gateways


@dataclass
class Client:
    """Asks the nodes by turns, as behind a load balancer, and comes back where it is cut off."""

    nodes: list[Gateway]
    number: int
    is_over: Event
    breaks: int = 0
    responses: list[list[Json]] = field(default_factory=list)
    _turn: "itertools.count[int]" = field(default_factory=itertools.count)

    def work(self) -> None:
        """One response after the other, each in the container of the first one."""
        previous: str | None = None
        while not (self.is_over.is_set() and self.responses):
            mark = f"{self.number}.{len(self.responses)}"
            commands = (f"echo {mark} >> ran; echo begun; sleep 0.3; echo over", "cat ran")
            body = {"model": "limpet/script", "input": shell_blocks(*commands), "tools": SHELL, "stream": True}
            whole = self._whole({**body, **({"previous_response_id": previous} if previous else {})})
            self.responses.append(whole)
            previous = whole[0]["response"]["id"]

    def _whole(self, body: Json) -> list[Json]:
        """All events of a response, however often its stream breaks off."""
        key, seen = new_id("key"), list[Json]()
        for _ in range(MOST_BREAKS):
            node = self.nodes[(self.number + next(self._turn)) % len(self.nodes)]
            try:
                self._read(node, body, key, seen)
            except httpx2.HTTPError:
                pass
            if seen and seen[-1]["type"] in ("response.completed", "response.failed", "response.incomplete"):
                return seen
            self.breaks += 1
            Event().wait(PAUSE)
        raise AssertionError(f"no end after {MOST_BREAKS} tries: {seen[-1:]}")

    def _read(self, node: Gateway, body: Json, key: str, seen: list[Json]) -> None:
        with httpx2.Client(base_url=node.url, timeout=90, trust_env=False) as http:
            if seen:
                path = f"/v1/responses/{seen[0]['response']['id']}"
                where = {"stream": "true", "starting_after": str(seen[-1]["sequence_number"])}
                request = http.stream("GET", path, params=where)
            else:
                request = http.stream("POST", "/v1/responses", json=body, headers={"idempotency-key": key})
            with request as answer:
                if answer.status_code != 200:
                    assert answer.status_code in (502, 503), answer.read()
                    return
                for line in answer.iter_lines():
                    if line.startswith("data: {") and (event := json.loads(line[6:]))["type"] != "error":
                        seen.append(event)


@pytest.mark.timeout(600)
def test_clients_work_on_while_each_node_is_started_again(nodes: list[Gateway], database: str) -> None:
    """Each node in turn, three times over."""
    is_over, logs = Event(), list[str]()
    clients = [Client(nodes, number, is_over) for number in range(CLIENTS)]
    with ThreadPoolExecutor(len(clients)) as threads:
        working: list[Future[None]] = [threads.submit(client.work) for client in clients]
        try:
            for node in nodes * 3:
                node.stop()
                logs.append(node.log.read_text(errors="replace"))
                node.start()
        finally:
            is_over.set()
        for each in working:
            each.result()
    for client in clients:
        for number, events in enumerate(client.responses):
            check_unbroken(events)
            assert events[-1]["type"] == "response.completed"
            done = [event["item"] for event in events if event["type"] == "response.output_item.done"]
            outputs = [item for item in done if item["type"] == "shell_call_output"]
            first, marks = [item["output"][0]["stdout"] for item in outputs]
            wanted = [f"{client.number}.{earlier}" for earlier in range(number + 1)]
            if (first, marks.split()) != ("begun\nover\n", wanted):
                logs += [node.log.read_text(errors="replace") for node in nodes]
                pytest.fail("\n".join([f"wanted {wanted} of {outputs}", *told_of(events, database, logs)]))


def told_of(events: list[Json], database: str, logs: list[str]) -> Iterator[str]:
    """What there is to know of a response: its commands and its journal as they are stored, and what the gateways logged of it."""
    response = events[0]["response"]["id"]
    yield from rows_of(database, "executions", response)
    yield from rows_of(database, "journal", response)
    for line in "\n".join(logs).splitlines():
        if response in line or "reason" in line:
            yield line


def rows_of(database: str, table: str, response: str) -> list[str]:
    """What is stored of a response there, a line each."""
    engine = create_engine(locate_server(database).url)
    try:
        with engine.connect() as connection:
            rows = connection.execute(text(f"SELECT * FROM {table} WHERE response_id = :id"), {"id": response})
            return [str(dict(row)) for row in rows.mappings()]
    finally:
        engine.dispose()
