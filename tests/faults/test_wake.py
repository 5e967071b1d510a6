"""The gateway is killed while a container wakes: the next one wakes it with all its files, and nothing of the first try is left."""

import threading
import time
from pathlib import Path

import httpx2
import pytest

from tests.support.gateway import Gateway, lasting
from tests.support.host import eventually, processes_of
from tests.wire.asking import container_of, printed, referring_to, run, shell_blocks

ONE_SEAT = "[features.containers]\nmax_live_boxes = 1\n"
WRITTEN = "echo kept > f; mkdir d; echo deep > d/g; chmod 750 d; echo home > ~/h"


def ask_without_waiting(gateway: Gateway, container: str) -> threading.Thread:
    """A request that wakes a container, from a client that nobody listens to."""
    body = {"model": "limpet/script", "input": shell_blocks("cat f"), "tools": referring_to(container)}

    def ask() -> None:
        try:
            httpx2.post(f"{gateway.url}/v1/responses", json=body, timeout=20, trust_env=False)
        except httpx2.HTTPError:
            pass  # the gateway is killed under it

    asking = threading.Thread(target=ask)
    asking.start()
    return asking


def wait_for_a_socket(gateway: Gateway, before: set[Path]) -> None:
    """Until a box is on its way: its listening socket is the first that there is of it."""
    until = time.monotonic() + 10
    while not {*gateway.home.glob("run/*.sock")} - before:
        assert time.monotonic() < until, "no box was begun"


@pytest.mark.parametrize("attempt", range(2))
def test_a_gateway_killed_in_the_middle_of_a_wake_loses_nothing(tmp_path: Path, attempt: int) -> None:
    with lasting(tmp_path, config=ONE_SEAT) as gateway:
        client = gateway.client()
        sleeper = container_of(run(client, WRITTEN))
        run(client, "true")  # takes the only seat
        eventually(lambda: processes_of(sleeper) == [], says="its box did not sleep")
        before = {*gateway.home.glob("run/*.sock")}

        asking = ask_without_waiting(gateway, sleeper)
        wait_for_a_socket(gateway, before)
        gateway.kill()
        asking.join()

        woken = run(gateway.start().client(), "cat f d/g ~/h; stat -c %a d; ls -A", container=sleeper)
        assert printed(woken) == "kept\ndeep\nhome\n750\nd\nf\n"
        (own,) = {*gateway.home.glob("run/*.sock")}
        eventually(lambda: len(processes_of(sleeper)) > 0, says=f"the box of {own} has no process")
