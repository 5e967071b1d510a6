"""Several gateways on one PostgreSQL: one goes on where another was killed or slept, and each tells what the others do."""

import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import openai
import pytest

from tests.faults.test_resume import BODY, ask, check_unbroken, essence, go_on, points, undisturbed
from tests.support.gateway import Gateway, lasting
from tests.support.host import eventually, processes_with
from tests.support.kill_points import KillPoint
from tests.wire.asking import SHELL, container_of, entries, referring_to, run, shell_blocks
from tests.wire.schema import check_error, check_events
from tests.wire.streams import asking, replayed, replaying
from tests.wire.test_postgres import config_on

SETTINGS = '[features.responses]\ntakeover_secs = {}\n[storage.container_files]\nbackend = "database"\n'
SOON, NEVER = 5, 600  # seconds of silence after which the other one takes over
PAIRS = 3  # of each kind that are killed at once
WAITS = "echo $PPID >> ran; echo begun; until [ -e go ]; do sleep 0.02; done; echo over"


@contextmanager
def pair(postgres: Any, directory: Path, *, takeover: int = SOON) -> Iterator[tuple[Gateway, Gateway]]:
    """Two of them on a database of their own."""
    with ExitStack() as stack:
        config = config_on(stack.enter_context(postgres.database(migrated=False))) + SETTINGS.format(takeover)
        gateways = []
        for name in ("one", "other"):
            (directory / name).mkdir(parents=True)
            gateways.append(stack.enter_context(lasting(directory / name, config=config)))
        yield gateways[0], gateways[1]


@pytest.fixture(scope="module")
def nodes(postgres: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Gateway, Gateway]]:
    with pair(postgres, tmp_path_factory.mktemp("nodes")) as both:
        yield both


def begun(gateway: Gateway, *commands: str) -> str:
    """A background response, by its id."""
    body = {"model": "limpet/script", "input": shell_blocks(*commands), "tools": SHELL, "background": True}
    with gateway.http() as http:
        made: str = http.post("/v1/responses", json=body).raise_for_status().json()["id"]
    return made


def test_another_goes_on_with_the_response_of_a_killed_one(nodes: tuple[Gateway, Gateway]) -> None:
    """In the same container, which wakes there with its files."""
    one, other = nodes
    response = begun(one, "echo first | tee kept", WAITS, "cat kept")
    with replaying(other, response) as stream:
        stream.until_printed("begun")  # told by one, read at the other
        one.kill()
        events = stream.rest()
    try:
        check_events(events)
        assert events[-1]["type"] == "response.completed"
        told = other.client().responses.retrieve(response)
        first, lost, last = entries(told)
        assert (first.stdout, lost.stdout, last.stdout) == ("first\n", "begun\n", "first\n")
        assert "box was lost" in last.stderr + lost.stderr
        assert replayed(other, response) == events
    finally:
        one.start()
    assert replayed(one, response) == events
    assert entries(run(one.client(), "cat kept", container=container_of(told)))[0].stdout == "first\n"
    assert not list(one.home.glob("boxes/cntr_*"))


def test_one_that_slept_appends_nothing_more_and_tells_what_the_other_did(nodes: tuple[Gateway, Gateway]) -> None:
    one, other = nodes
    assert one.process is not None
    with asking(one, model="limpet/script", input=shell_blocks(WAITS), tools=SHELL) as stream:
        response = stream.until("response.created")["response"]["id"]
        stream.until_printed("begun")
        os.kill(one.process.pid, signal.SIGSTOP)
        try:
            there = replayed(other, response)
        finally:
            os.kill(one.process.pid, signal.SIGCONT)
        here = stream.rest()
    check_events(there)
    assert there[-1]["type"] == "response.completed"
    assert here == there == replayed(one, response)


def test_a_response_is_cancelled_at_any_of_them(nodes: tuple[Gateway, Gateway]) -> None:
    one, other = nodes
    mark = "limpet-cancelled-elsewhere"
    response = begun(one, f"echo begun; sleep 1000; : {mark}")
    with replaying(other, response) as stream:
        stream.until_printed("begun")
        assert other.client().responses.cancel(response).status == "cancelled"
        events = stream.rest()
    check_events(events)
    eventually(lambda: not processes_with(mark))
    assert one.client().responses.retrieve(response).status == "cancelled"


@pytest.mark.promise("hadrian-container-has-one-home")
def test_a_container_is_used_at_any_of_them(nodes: tuple[Gateway, Gateway]) -> None:
    """Responses that are streamed, whole, chained and not stored, files, ports and the container itself."""
    one, other = nodes
    first = run(one.client(), "echo kept > kept")
    container = container_of(first)
    there = other.client()
    with asking(other, model="limpet/script", input=shell_blocks("cat kept"), tools=referring_to(container)) as stream:
        events = stream.rest()
    check_events(events)
    assert entries(run(there, "cat kept", container=container))[0].stdout == "kept\n"
    assert entries(run(there, "cat kept", previous_response_id=first.id))[0].stdout == "kept\n"
    assert entries(run(there, "cat kept", container=container, store=False))[0].stdout == "kept\n"
    assert replayed(one, events[0]["response"]["id"]) == replayed(other, events[0]["response"]["id"]) == events
    big = os.urandom(3_000_000)
    put = there.containers.files.create(container, file=("big", big))
    assert {file.path for file in there.containers.files.list(container)} == {"/mnt/data/kept", "/mnt/data/big"}
    assert there.containers.files.content.retrieve(put.id, container_id=container).content == big
    there.containers.files.delete(put.id, container_id=container)
    there.containers.delete(container)
    with pytest.raises(openai.NotFoundError):
        one.client().containers.retrieve(container)


def test_ports_and_links_to_them_lead_to_the_container(nodes: tuple[Gateway, Gateway]) -> None:
    one, other = nodes
    serve = "mkdir w; cd w; echo page > page; python3 -m http.server 8000 >/dev/null 2>&1 & "
    container = container_of(run(one.client(), serve + "until (: </dev/tcp/127.0.0.1/8000) 2>/dev/null; do :; done"))
    root = f"/v1/containers/{container}/ports"
    with one.http() as here, other.http() as there:
        assert [port["port"] for port in there.get(root).json()["data"]] == [8000]
        assert there.get(f"{root}/8000/page").text == "page\n"
        link = there.post(f"{root}/8000", json={}).json()["url"]
        assert link.startswith(other.url)
        assert there.get(f"{link}page").text == here.get(link.replace(other.url, one.url) + "page").text == "page\n"
        assert there.get(f"{root}/8001/page").status_code == 404


def test_what_is_refused_where_the_container_lies_is_refused_elsewhere(nodes: tuple[Gateway, Gateway]) -> None:
    one, other = nodes
    container = container_of(run(one.client(), "true"))
    with other.http() as http:
        body = {"model": "limpet/script", "input": "x", "tools": referring_to(container)}
        refused = [
            http.post(f"/v1/containers/{container}", json={"name": "new"}),
            http.get(f"/v1/containers/{container}/files/cfile_none"),
            http.post("/v1/responses", json={**body, "previous_response_id": "resp_none"}),
        ]
        forged = http.get(f"/v1/containers/{container}/files", headers={"limpet-forwarded": "e30.00"})
    assert [answer.status_code for answer in refused] == [400, 404, 404]
    for answer in [*refused, forged]:
        check_error(answer.json())
    assert forged.json()["error"]["code"] == "forward_refused"


def test_a_container_that_was_never_used_is_used_anywhere(nodes: tuple[Gateway, Gateway], tmp_path: Path) -> None:
    one, other = nodes
    container = one.client().containers.create(name="fresh").id
    assert entries(run(other.client(), "echo here", container=container))[0].stdout == "here\n"
    assert entries(run(one.client(), "echo there", container=container))[0].stdout == "there\n"


@pytest.mark.timeout(1800)
def test_killed_at_any_event_in_turn_it_goes_on(
    nodes: tuple[Gateway, Gateway], postgres: Any, tmp_path: Path, every_event: bool
) -> None:
    """Each way at each of them with `--faults`, else once: at the other node, where the command that was running is lost with its box, and
    none runs again; and by itself when it is started again, the whole as if nothing had been. Several pairs of nodes are killed at once."""
    wanted = undisturbed(nodes[0], BODY)
    moments = points(wanted, every_event)
    if not every_event:
        check_goes_on_elsewhere(*nodes, moments[0])
        return
    assert len(moments) >= 50  # each in two ways
    with ExitStack() as stack:
        elsewhere, again = [
            [stack.enter_context(pair(postgres, tmp_path / f"{takeover}-{n}", takeover=takeover)) for n in range(PAIRS)]
            for takeover in (SOON, NEVER)
        ]
        workers = stack.enter_context(ThreadPoolExecutor(2 * PAIRS))
        ways = ((elsewhere, check_goes_on_elsewhere), (again, partial(check_goes_on_again, wanted=wanted)))
        lefts = [queued(moments) for _ in ways]
        runs = [
            workers.submit(kill_in_turn, each, left, check)
            for (pairs, check), left in zip(ways, lefts, strict=True)
            for each in pairs
        ]
        try:
            for ended in as_completed(runs):
                ended.result()
        finally:
            for left in lefts:
                kill_in_turn(nodes, left, lambda *_: None)  # what is left of it, where one has failed


def queued(moments: list[KillPoint]) -> "SimpleQueue[KillPoint]":
    left: SimpleQueue[KillPoint] = SimpleQueue()
    for moment in moments:
        left.put(moment)
    return left


def kill_in_turn(nodes: tuple[Gateway, Gateway], left: "SimpleQueue[KillPoint]", check: Callable[..., None]) -> None:
    with suppress(Empty):
        while True:
            check(*nodes, left.get_nowait())
            nodes = nodes[::-1]


def check_goes_on_elsewhere(victim: Gateway, other: Gateway, point: KillPoint) -> None:
    if seen := killed_at(victim, point):
        whole = go_on(other, seen)
        assert whole[-1]["type"] == "response.completed", point
        check_unbroken(whole)
        marks = marked(whole, other)
        assert len(set(marks)) == len(marks), point
    victim.start()


def check_goes_on_again(victim: Gateway, other: Gateway, point: KillPoint, *, wanted: list[dict[str, Any]]) -> None:
    seen = killed_at(victim, point)
    victim.start()
    if seen:
        whole = go_on(other, seen)
        assert essence(whole) == essence(wanted), point
        check_unbroken(whole)
        assert marked(whole, other) == ["one", "two"], point


def killed_at(victim: Gateway, point: KillPoint) -> list[dict[str, Any]]:
    """What a client has seen of a response until then; nothing where it does not know of it."""
    victim.kill()
    victim.kill_point = point
    seen = ask(victim.start(), BODY)
    assert victim.process is not None
    assert victim.process.wait(timeout=60) == -9
    victim.process = victim.kill_point = None
    return seen


def marked(events: list[dict[str, Any]], gateway: Gateway) -> list[str]:
    """The commands that have run, in their order."""
    container = next(event["item"] for event in events if event.get("item", {}).get("type") == "shell_call")
    where = referring_to(container["environment"]["container_id"])
    body = {"model": "limpet/script", "input": shell_blocks("touch ran; cat ran"), "tools": where, "stream": True}
    done = [event["item"] for event in ask(gateway, body) if event["type"] == "response.output_item.done"]
    text: str = next(item["output"][0]["stdout"] for item in done if item["type"] == "shell_call_output")
    return text.splitlines()
