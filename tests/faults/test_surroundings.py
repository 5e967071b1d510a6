"""What a gateway stands on fails under it: the database server is started again, the disk is full, the clock is set."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.store.disk import Disk, mount, unmount
from tests.support.gateway import LIMPET, Gateway, lasting
from tests.support.host import eventually
from tests.support.postgres import found_programs, restarted, server
from tests.support.set_clock import wall_clock
from tests.wire.asking import SHELL, entries, run, shell_blocks
from tests.wire.schema import check_error, check_events
from tests.wire.streams import asking, replayed
from tests.wire.test_postgres import config_on

WAITS = "echo $PPID >> ran; echo begun; until [ -e go ]; do sleep 0.02; done; for n in 1 2 3 4 5; do echo $n; done; wc -l <ran"
WHOLE = "begun\n1\n2\n3\n4\n5\n1\n"


@pytest.fixture(autouse=True)
def _with_faults(every_event: bool) -> None:
    if not every_event:
        pytest.skip("each takes ten seconds or more: with --faults, in .ci/run")


def let_go(gateway: Gateway) -> None:
    """The command that waits in the gateway's only container goes on."""
    (data,) = gateway.home.glob("boxes/cntr_*/data")
    (data / "go").touch()


def test_the_database_server_is_started_again_in_the_middle(tmp_path: Path) -> None:
    """A server of the test's own, on its data."""
    if found_programs() is None:
        pytest.skip("PostgreSQL is not installed")
    with (
        server(tmp_path) as own,
        own.database(migrated=False) as url,
        lasting(tmp_path, config=config_on(url)) as gateway,
    ):
        with asking(gateway, model="limpet/script", input=shell_blocks(WAITS), tools=SHELL) as stream:
            made = stream.until("response.created")["response"]["id"]
            stream.until_printed("begun")
            with restarted(own, tmp_path):
                let_go(gateway)  # what it prints now has no server to be kept at
            events = stream.rest()
        check_events(events)
        assert events[-1]["type"] == "response.completed"
        assert entries(gateway.client().responses.retrieve(made))[0].stdout == WHOLE
        assert replayed(gateway, made) == events
        assert entries(run(gateway.client(), "echo next"))[0].stdout == "next\n"


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    path = tmp_path / "disk"
    path.mkdir()
    if reason := mount(path, size=64 << 20):
        pytest.skip(reason)
    try:
        yield Disk(path)
    finally:
        unmount(path)


def test_a_full_disk_costs_what_needs_it_until_there_is_room_again(tmp_path: Path, disk: Disk) -> None:
    tmp_path.chmod(0o711)
    for above in tmp_path.parents:
        if above.stat().st_uid == os.geteuid():
            above.chmod(above.stat().st_mode | 0o011)
    gateway = Gateway(tmp_path, home=disk.path / "home").start()
    try:
        before = run(gateway.client(), "echo before")
        with asking(gateway, model="limpet/script", input=shell_blocks(WAITS), tools=SHELL) as stream:
            made = stream.until("response.created")["response"]["id"]
            stream.until_printed("begun")
            disk.fill()
            with gateway.http() as http:
                answer = http.post("/v1/responses", json={"model": "limpet/script", "input": "x" * 100_000})
                check_error(answer.json())
                assert answer.status_code >= 500
                assert "disk is full" in answer.json()["error"]["message"]
                assert http.get("/livez").status_code == 200
                assert (
                    http.get(f"/v1/responses/{before.id}").json()["status"] == "completed"
                )  # what there is can be read
            disk.empty()
        assert entries(run(gateway.client(), "echo again"))[0].stdout == "again\n"
        assert gateway.client().responses.cancel(made).status in ("cancelled", "completed", "failed")
    finally:
        gateway.arguments = ("--stop-boxes",)
        gateway.stop()
        gateway.start().stop()


@contextmanager
def executed(directory: Path, config: str, env: dict[str, str]) -> Iterator[Gateway]:
    """A gateway that a fresh interpreter runs, so that what loads it counts."""
    with lasting(directory, config=config) as gateway:
        gateway.stop()
        words = [str(LIMPET), "serve", "--config", str(directory / "limpet.toml"), "--port", "0"]
        log = directory / "executed.log"
        environment = {**{name: os.environ[name] for name in ("PATH",)}, "LIMPET_HOME": str(gateway.home), **env}
        with log.open("wb") as written:
            process = subprocess.Popen(words, env=environment, stdout=written, stderr=written, stdin=subprocess.DEVNULL)
        try:
            assert eventually(lambda: b"limpet serves http" in log.read_bytes(), within=60), log.read_text()
            gateway.url = log.read_text().partition("limpet serves ")[2].split()[0]
            yield gateway
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()


@pytest.mark.parametrize("ahead", [-7200, 7200])
def test_a_clock_that_is_set_costs_no_response(postgres: Any, tmp_path: Path, ahead: int) -> None:
    """That of one gateway of two: the other one takes nothing over from it, and requests pass between them."""
    clock = wall_clock(tmp_path)
    soon = "[features.responses]\ntakeover_secs = 3\n"
    with ExitStack() as stack:
        config = config_on(stack.enter_context(postgres.database(migrated=False))) + soon
        (tmp_path / "one").mkdir()
        (tmp_path / "other").mkdir()
        one = stack.enter_context(executed(tmp_path / "one", config, clock.environment))
        other = stack.enter_context(lasting(tmp_path / "other", config=config))
        with asking(one, model="limpet/script", input=shell_blocks(WAITS), tools=SHELL) as stream:
            made = stream.until("response.created")["response"]
            stream.until_printed("begun")
            clock.set_ahead(ahead)
            time.sleep(6)  # twice the silence after which a gateway has lost its responses
            created = other.client().containers.files.create(made["container_id"], file=("go", b""))
            events = stream.rest()
        assert created.path == "/mnt/data/go"
        check_events(events)
        assert events[-1]["type"] == "response.completed"
        assert entries(other.client().responses.retrieve(made["id"]))[0].stdout == WHOLE
