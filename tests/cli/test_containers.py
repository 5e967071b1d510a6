"""`limpet containers`: through a gateway and, where none runs, in the home itself."""

import json
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from limpet.cli.containers import amount
from limpet.cli.containers_http import GatewayFailed, GatewayPlace
from limpet.containers.requested_spec import parse_memory
from limpet.store.home import gateway_of, home_id
from tests.cli.conftest import Limpet, environment
from tests.support.gateway import Gateway, running
from tests.support.host import eventually, processes_of
from tests.support.prepared import ran
from tests.wire.asking import container_of, run


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """Of the runtime memory: what is asked here has nothing to do with boxes."""
    with running(tmp_path_factory.mktemp("gateway"), runtime="memory") as gateway:
        yield gateway


@pytest.fixture
def limpet(tmp_path: Path) -> Limpet:
    """As the one for all, but loaded once: dozens of calls are made here."""

    def run(*args: str, **variables: str) -> "subprocess.CompletedProcess[str]":
        return ran(args, env=environment(tmp_path / "home", **variables), directory=tmp_path)

    return run


@pytest.fixture
def container(gateway: Gateway) -> str:
    """One with two files, of which one is in a directory."""
    return container_of(run(gateway.client(), "mkdir d; printf 'a\\0b' > d/a.bin; echo x > x.txt"))


def made(gateway: Gateway, name: str) -> str:
    with gateway.http() as http:
        created: str = http.post("/v1/containers", json={"name": name}).raise_for_status().json()["id"]
    return created


def listed(limpet: Limpet, gateway: Gateway, *args: str) -> list[dict[str, Any]]:
    done = limpet("containers", "ls", "--json", *args, LIMPET_URL=gateway.url)
    assert (done.returncode, done.stderr) == (0, "")
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def test_ls_shows_every_container_newest_first_over_more_than_a_page(limpet: Limpet, gateway: Gateway) -> None:
    ids = [made(gateway, f"c{number}") for number in range(101)]

    found = listed(limpet, gateway)

    assert [each["id"] for each in found][:101] == ids[::-1]
    table = limpet("containers", "ls", "--status", "running", "--url", gateway.url).stdout.splitlines()
    assert table[0].split() == ["ID", "NAME", "STATUS", "CREATED", "EXPIRES", "MEMORY"]
    assert table[1].split()[:3] == [ids[-1], "c100", "running"]
    assert listed(limpet, gateway, "--status", "expired") == []


def test_rm_removes_each_and_names_what_is_not_there(limpet: Limpet, gateway: Gateway) -> None:
    one, two = made(gateway, "one"), made(gateway, "two")

    done = limpet("containers", "rm", one, "cntr_0", "no such?id", two, LIMPET_URL=gateway.url)

    assert (done.returncode, done.stdout.split()) == (1, [one, two])
    said = done.stderr.splitlines()
    assert [line.startswith("limpet: There is no container ") for line in said] == [True, True]
    assert {one, two} & {each["id"] for each in listed(limpet, gateway)} == set()


def test_files_are_listed_and_fetched_by_id_path_and_name(
    limpet: Limpet, gateway: Gateway, container: str, tmp_path: Path
) -> None:
    table = limpet("containers", "files", container, LIMPET_URL=gateway.url).stdout
    assert [line.split()[-1] for line in table.splitlines()] == ["PATH", "/mnt/data/x.txt", "/mnt/data/d/a.bin"]
    rows = json.loads(limpet("containers", "files", container, "--json", LIMPET_URL=gateway.url).stdout)

    for name in (rows[1]["id"], "/mnt/data/d/a.bin", "d/a.bin"):
        done = limpet("containers", "files", container, "--get", name, "-o", "-", LIMPET_URL=gateway.url)
        assert (done.returncode, done.stdout, done.stderr) == (0, "a\0b", "")
    limpet("containers", "files", container, "--get", "d/a.bin", LIMPET_URL=gateway.url)
    assert (tmp_path / "a.bin").read_bytes() == b"a\0b"
    limpet("containers", "files", container, "--get", "x.txt", "-o", "a.bin", LIMPET_URL=gateway.url)
    assert (tmp_path / "a.bin").read_bytes() == b"x\n"


def test_a_file_that_is_here_is_not_overwritten_unless_it_is_named(
    limpet: Limpet, gateway: Gateway, container: str, tmp_path: Path
) -> None:
    (tmp_path / "x.txt").write_text("mine")

    done = limpet("containers", "files", container, "--get", "x.txt", LIMPET_URL=gateway.url)

    assert (done.returncode, "x.txt is here already" in done.stderr) == (2, True)
    assert (tmp_path / "x.txt").read_text() == "mine"
    unknown = limpet("containers", "files", container, "--get", "y.txt", LIMPET_URL=gateway.url)
    assert (unknown.returncode, "has no file y.txt" in unknown.stderr) == (1, True)
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".limpet-")] == []


def test_with_keys_each_sees_its_own_tenant_and_the_home_all_of_them(limpet: Limpet, tmp_path: Path) -> None:
    with running(tmp_path, runtime="memory", config='[auth]\nmode = "keys"\n') as gateway:
        config = tmp_path / "limpet.toml"
        home = str(gateway.home)
        ids, keys = {}, {}
        for tenant in ("a", "b"):
            create = limpet("keys", "create", "k", "--tenant", tenant, "--config", str(config), LIMPET_HOME=home)
            keys[tenant] = create.stdout.strip()
            with gateway.http() as http:
                made = http.post(
                    "/v1/containers", json={"name": tenant}, headers={"authorization": f"Bearer {keys[tenant]}"}
                )
            ids[tenant] = made.raise_for_status().json()["id"]

        own = limpet("containers", "ls", "--json", LIMPET_URL=gateway.url, LIMPET_API_KEY=keys["a"])
        everyones = limpet("containers", "ls", "--json", "--config", str(config), LIMPET_HOME=home)
        of_b = limpet("containers", "ls", "--tenant", "b", "--config", str(config), LIMPET_HOME=home)
        theirs = limpet("containers", "rm", ids["b"], LIMPET_URL=gateway.url, LIMPET_API_KEY=keys["a"])
        keyless = limpet("containers", "ls", LIMPET_URL=gateway.url)

        assert [each["id"] for each in json.loads(own.stdout)] == [ids["a"]]
        assert [(each["tenant"], each["id"]) for each in json.loads(everyones.stdout)] == [
            ("b", ids["b"]),
            ("a", ids["a"]),
        ]
        assert of_b.stdout.splitlines()[1].split()[:2] == [ids["b"], "b"]
        assert (theirs.returncode, "There is no container" in theirs.stderr) == (1, True)
        assert (keyless.returncode, "LIMPET_API_KEY" in keyless.stderr) == (1, True)
        held = limpet("containers", "rm", ids["b"], "--config", str(config), LIMPET_HOME=home)
        assert (held.returncode, "Name it with --url or LIMPET_URL" in held.stderr) == (1, True)


def test_without_a_gateway_the_home_is_asked(limpet: Limpet, tmp_path: Path) -> None:
    with running(tmp_path, runtime="bubblewrap") as gateway:
        kept = container_of(run(gateway.client(), "echo kept > f; echo > $'a\\e[2Jb\\nc'"))
        gone = container_of(run(gateway.client(), "sleep 1000 & echo data > f"))
        gateway.kill()
        at = {"LIMPET_HOME": str(gateway.home)}
        config = str(tmp_path / "limpet.toml")

        found = json.loads(limpet("containers", "ls", "--json", "--config", config, **at).stdout)
        removed = limpet("containers", "rm", gone, "--config", config, **at)
        table = limpet("containers", "files", kept, "--config", config, **at).stdout
        fetched = limpet("containers", "files", kept, "--get", "f", "-o", "-", "--config", config, **at)

        assert [each["id"] for each in found] == [gone, kept]
        assert (removed.returncode, removed.stdout, removed.stderr) == (0, f"{gone}\n", "")
        assert eventually(lambda: processes_of(gone) == [], says="its box lives on")
        assert not (gateway.home / "boxes" / gone).exists()
        assert (fetched.returncode, fetched.stdout) == (0, "kept\n")
        # What a box named cannot steer the terminal, nor make two lines of one.
        assert [line.split()[-1] for line in table.splitlines()] == [
            "PATH",
            "/mnt/data/f",
            "/mnt/data/a\ufffd[2Jb\ufffdc",
        ]


def test_a_gateway_that_cannot_be_had_and_a_home_without_containers_are_one_sentence(
    limpet: Limpet, tmp_path: Path
) -> None:
    away = limpet("containers", "ls", "--url", "http://127.0.0.1:9")
    empty = limpet("containers", "ls", "--tenant", "t")

    assert (away.returncode, away.stderr.count("\n")) == (1, 1)
    assert "No gateway answers at http://127.0.0.1:9" in away.stderr
    assert (empty.returncode, empty.stderr.count("\n")) == (1, 1)
    assert f"There are no containers in {tmp_path / 'home'}" in empty.stderr
    assert not (tmp_path / "home").exists()
    assert limpet("containers", "ls", "--status", "asleep").returncode == 2
    assert limpet("containers", "files", "cntr_1", "-o", "x").returncode == 2


def test_rm_acts_on_the_gateway_of_this_home_and_on_no_other(limpet: Limpet, gateway: Gateway, tmp_path: Path) -> None:
    with running(tmp_path, runtime="memory") as own:
        there, here = made(gateway, "there"), made(own, "here")
        home = {"LIMPET_HOME": str(own.home)}

        wrong = limpet("containers", "rm", there, **home)
        right = limpet("containers", "rm", here, **home)

        assert (wrong.returncode, "There is no container" in wrong.stderr) == (1, True), wrong.stderr
        assert (right.returncode, right.stdout.split()) == (0, [here])
        assert here not in [each["id"] for each in listed(limpet, own)]
        assert there in [each["id"] for each in listed(limpet, gateway)]
        assert gateway_of(own.home) == own.url
    assert gateway_of(own.home) is None


def test_a_gateway_of_another_home_at_the_address_is_refused_with_both_named(
    limpet: Limpet, gateway: Gateway, tmp_path: Path
) -> None:
    there = made(gateway, "there")
    with running(tmp_path, runtime="memory") as own:
        record = own.home / "gateway.json"
        record.write_text(record.read_text().replace(own.url, gateway.url))

        done = limpet("containers", "rm", there, LIMPET_HOME=str(own.home))

        assert (done.returncode, done.stdout) == (1, "")
        for named in (home_id(own.home), home_id(gateway.home), str(own.home), gateway.url):
            assert named in done.stderr
    assert there in [each["id"] for each in listed(limpet, gateway)]


def test_what_a_killed_gateway_left_counts_for_nothing(limpet: Limpet, tmp_path: Path) -> None:
    with running(tmp_path, runtime="memory") as own:
        container = made(own, "left")
        own.kill()
        assert (own.home / "gateway.json").exists()
        assert gateway_of(own.home) is None

        done = limpet("containers", "rm", container, LIMPET_HOME=str(own.home))

        assert (done.returncode, done.stdout.split()) == (0, [container]), done.stderr


LISTED = b'{"id":"c","object":"container","name":"x","created_at":1,"status":"running"}'
FOREIGN = {
    "a page without what is listed": (b"{}", "missing required field `data`"),
    "objects that are empty": (b'{"data":[{}]}', "missing required field `id` - at `$.data[0]`"),
    "containers of another service": (b'{"data":[' + LISTED + b"]}", "missing required field `last_active_at`"),
    "a list": (b"[]", "Expected `object`, got `array`"),
    "a web page": (b"<html>", "JSON is malformed"),
    "other bytes": (b'{"data":"\xff"}', "invalid start byte"),
    "brackets without end": (b"[" * 100_000, "recursion"),
}


@pytest.fixture
def foreign() -> Iterator[tuple[str, list[bytes]]]:
    """A server that answers every GET with the last of these bodies, and its URL."""
    bodies: list[bytes] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(bodies[-1])

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", bodies
        server.shutdown()
        thread.join()


def test_what_is_no_gateway_is_told_in_one_sentence(foreign: tuple[str, list[bytes]]) -> None:
    url, bodies = foreign
    for body, sentence in FOREIGN.values():
        bodies.append(body)
        with pytest.raises(GatewayFailed) as told:
            GatewayPlace(url).containers()
        assert told.value.message.startswith(f"What answers at {url} is no gateway of Limpet's: ")
        assert sentence in told.value.message


@pytest.mark.parametrize("text", ["16m", "512m", "1g", "1536m", "65537k", "16777217", "2t"])
def test_an_amount_of_memory_is_shown_as_a_request_writes_it(text: str) -> None:
    assert amount(parse_memory(text)) == text
