"""What /metrics says of boxes, files and waiting, before and after things happened."""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import openai
import pytest

from tests.support.gateway import Gateway, running
from tests.support.host import eventually
from tests.wire.asking import container_of, run
from tests.wire.test_health import breakable, counted

__all__ = ["breakable"]  # a fixture

MANUAL = Path(__file__).parents[2] / "docs/operating.md"


@pytest.fixture(scope="module")
def narrow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A gateway where one box may live at a time."""
    with running(tmp_path_factory.mktemp("narrow"), config="[features.containers]\nmax_live_boxes = 1\n") as gateway:
        yield gateway


class Watch:
    """Counters since it began, and gauges as they are."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._before = counted(gateway)

    def moved(self, name: str, **labels: str) -> float:
        key = (name, frozenset(labels.items()))
        return counted(self._gateway).get(key, 0) - self._before.get(key, 0)

    def now(self, name: str, **labels: str) -> float:
        return counted(self._gateway)[name, frozenset(labels.items())]


def test_boots_wakes_evictions_and_captures_are_counted(narrow: Gateway) -> None:
    client = narrow.client()
    watch = Watch(narrow)

    first = container_of(run(client, "echo one > f"))
    run(client, "echo two > f")
    run(client, "cat f", container=first)

    assert watch.moved("limpet_boots_total", result="booted") == 3
    assert watch.moved("limpet_boots_total", result="failed") == 0
    assert watch.moved("limpet_boot_seconds_count") == 3
    assert 0 < watch.moved("limpet_boot_seconds_sum") < 30
    assert watch.moved("limpet_wakes_total") == 1
    assert watch.moved("limpet_evictions_total") == 2
    assert watch.moved("limpet_box_wait_seconds_count") == 3
    assert watch.moved("limpet_capture_seconds_count") >= 3
    assert watch.moved("limpet_capture_seconds_sum") > 0
    assert (watch.now("limpet_boxes_living"), watch.now("limpet_boxes_busy")) == (1, 0)


def test_who_waits_for_a_box_is_seen_while_it_waits_and_its_time_afterwards(narrow: Gateway) -> None:
    client = narrow.client()
    watch = Watch(narrow)
    holding = client.containers.create(name="holding").id

    with ThreadPoolExecutor() as pool:
        held = pool.submit(run, client, "until [ -e go ]; do sleep 0.02; done", container=holding)
        eventually(lambda: watch.now("limpet_boxes_busy") == 1)
        waiting = pool.submit(run, client, "true")
        eventually(lambda: watch.now("limpet_boxes_waiting") == 1)
        client.containers.files.create(holding, file=("go", b""))
        assert (held.result().status, waiting.result().status) == ("completed", "completed")

    assert watch.now("limpet_boxes_waiting") == 0
    assert watch.moved("limpet_box_wait_seconds_count") == 2
    assert watch.moved("limpet_box_wait_seconds_sum") > 0


def test_bytes_are_shown_by_area_and_backend(narrow: Gateway) -> None:
    client = narrow.client()
    watch = Watch(narrow)

    upload = client.files.create(file=("a", bytes(5000)), purpose="user_data")
    container = client.containers.create(name="bytes").id
    client.containers.files.create(container, file=("b", bytes(300)))

    def moved() -> tuple[float, float]:
        return tuple(
            watch.moved("limpet_stored_bytes", area=area, backend="filesystem") for area in ("files", "container_files")
        )  # type: ignore[return-value]  # two of them

    assert moved() == (5000, 300)
    client.files.delete(upload.id)
    client.containers.delete(container)
    assert moved() == (0, 0)


def test_a_box_that_could_not_be_had_is_counted(breakable: tuple[Gateway, Path]) -> None:
    gateway, bubblewrap = breakable
    watch = Watch(gateway)
    bubblewrap.unlink()

    run(gateway.client(), "echo never")

    assert watch.moved("limpet_boots_total", result="failed") == 1
    assert watch.moved("limpet_boots_total", result="booted") == 0
    assert watch.now("limpet_boxes_living") == 0


def test_the_manual_names_every_metric_and_no_other(gateway: Gateway, client: openai.OpenAI) -> None:
    run(client, "true")
    with gateway.http() as http:
        page = http.get("/metrics").text
    shown = set(re.findall(r"^# TYPE (limpet_\w+) ", page, re.MULTILINE))
    written = set(re.findall(r"^\| `(limpet_\w+)", MANUAL.read_text(), re.MULTILINE))

    # When a counter was first made is the library's own business.
    assert {name for name in shown if not name.endswith("_created")} == written
