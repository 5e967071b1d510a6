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

from limpet.core.ids import new_id
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
def nodes(postgres: Any, tmp_path: Path, every_event: bool) -> Iterator[list[Gateway]]:
    if not every_event:
        pytest.skip("three nodes are started four times each: with --faults")
    with ExitStack() as stack:
        config = config_on(stack.enter_context(postgres.database(migrated=False))) + PATIENT
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
def test_clients_work_on_while_each_node_is_started_again(nodes: list[Gateway]) -> None:
    """Each node in turn, three times over."""
    is_over = Event()
    clients = [Client(nodes, number, is_over) for number in range(CLIENTS)]
    with ThreadPoolExecutor(len(clients)) as threads:
        working: list[Future[None]] = [threads.submit(client.work) for client in clients]
        try:
            for node in nodes * 3:
                node.stop()
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
            first, marks = [item["output"][0]["stdout"] for item in done if item["type"] == "shell_call_output"]
            assert first == "begun\nover\n", done
            assert marks.split() == [f"{client.number}.{earlier}" for earlier in range(number + 1)], done
