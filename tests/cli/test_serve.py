import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Limpet
from tests.support.gateway import Gateway, running
from tests.support.host import eventually


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with running(tmp_path_factory.mktemp("gateway"), runtime="local") as gateway:
        yield gateway


def test_the_announcement_says_where_it_is_and_what_runs_commands_and_why(served: Gateway) -> None:
    first, second = served.log.read_text().splitlines()[:2]
    assert first == f"limpet serves {served.url}"
    assert second.startswith(f"commands run in local, chosen by {served.directory}/limpet.toml: ")


def test_the_log_says_what_the_runtime_does_not_hold(served: Gateway) -> None:
    eventually(lambda: "There is no isolation" in served.log.read_text().partition("[warning")[2])


@pytest.mark.skipif(shutil.which("curl") is None, reason="There is no curl on this machine to paste the request into.")
def test_the_announced_request_can_be_pasted(served: Gateway) -> None:
    announced = next(line for line in served.log.read_text().splitlines() if line.startswith("  curl "))
    done = subprocess.run(["bash", "-c", announced], capture_output=True, text=True, timeout=30, check=True)
    assert '"status":"completed"' in done.stdout.replace(" ", "")
    assert "hello.txt" in done.stdout


def test_ask_shows_the_output_and_ends_with_the_commands_code(served: Gateway, limpet: Limpet) -> None:
    done = limpet("ask", "-", "--url", served.url, stdin="```sh\necho out; echo err >&2; exit 5\n```")
    assert (done.returncode, done.stderr) == (5, "err\n")
    assert done.stdout.startswith("out\nI ran 1 command.")


def test_ask_goes_on_in_a_container(served: Gateway, limpet: Limpet) -> None:
    with served.http() as client:
        container = client.post("/v1/containers", json={"name": "mine"}).raise_for_status().json()["id"]
    args = ("--url", served.url, "--container", container)
    assert limpet("ask", "```sh\necho 41 > n\n```", *args).returncode == 0
    assert limpet("ask", "```sh\ncat n\n```", *args).stdout.startswith("41\n")


def test_an_address_in_use_is_one_sentence_and_nothing_is_left_half_done(served: Gateway, limpet: Limpet) -> None:
    port = served.url.rpartition(":")[2]
    done = limpet("serve", "--port", port, LIMPET_FEATURES__SHELL__TYPE="memory")
    assert (done.returncode, done.stdout) == (1, "")
    assert re.fullmatch(rf"limpet: [^\n]*{port}[^\n]*in use[^\n]*\n", done.stderr)


def test_a_home_in_use_is_one_sentence(served: Gateway, limpet: Limpet) -> None:
    done = limpet("serve", "--port", "0", LIMPET_FEATURES__SHELL__TYPE="memory", LIMPET_HOME=str(served.home))
    assert (done.returncode, done.stdout) == (1, "")
    assert re.fullmatch(rf"limpet: [^\n]*{served.home}[^\n]*\n", done.stderr)


def test_a_home_that_is_a_file_is_one_sentence(limpet: Limpet, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    home = str(tmp_path / "file" / "home")
    done = limpet("serve", "--port", "0", LIMPET_FEATURES__SHELL__TYPE="memory", LIMPET_HOME=home)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert "Traceback" not in done.stderr


def test_without_bubblewrap_the_gateway_does_not_serve_and_says_how_to_mend_it(limpet: Limpet) -> None:
    done = limpet("serve", "--port", "0", PATH="/nonexistent")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("limpet: The runtime bubblewrap does not work here: ")
    assert "bubblewrap" in done.stderr.partition("here: ")[2]


def test_a_signal_ends_it_in_order(tmp_path: Path) -> None:
    gateway = Gateway(tmp_path, runtime="memory").start()
    assert gateway.stop() == 0
    assert "Traceback" not in gateway.log.read_text()
