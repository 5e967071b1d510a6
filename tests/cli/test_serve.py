import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from limpet.cli.serve import announcement
from limpet.config import load_config
from tests.cli.conftest import Limpet
from tests.support.gateway import Gateway, running
from tests.support.host import eventually
from tests.support.prepared import ran


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with running(tmp_path_factory.mktemp("gateway"), runtime="local") as gateway:
        yield gateway


def test_the_announcement_says_where_it_is_and_what_runs_commands_and_why(served: Gateway) -> None:
    first, second = served.log.read_text().splitlines()[:2]
    assert first == f"limpet serves {served.url}"
    assert second.startswith(f"commands run in local, chosen by {served.directory}/limpet.toml: ")


def test_the_announcement_names_settings_home_models_and_docs(served: Gateway) -> None:
    said = served.log.read_text()
    for line in (
        f"settings: {served.directory}/limpet.toml",
        f"home: {served.home}",
        "  limpet (script): limpet/script",
        f"docs: docs/gateway.md, docs/config.md, {served.url}/openapi.json",
    ):
        assert f"\n{line}\n" in said


def test_where_keys_are_asked_for_the_announced_request_has_a_place_for_one() -> None:
    environ = {"LIMPET_AUTH__MODE": "keys", "OPENAI_API_KEY": "sk-x-12345", "LIMPET_HOME": "/h"}
    settings = load_config(environ=environ, working_directory=Path("/"))
    said = announcement(settings, address="http://h", runtime="memory", reason="why")
    assert "-H 'Authorization: Bearer sk-limpet-…'" in said
    assert "limpet keys create NAME" in said
    assert "  openai (openai): gpt-*, o[1-9]*, codex-*\n" in said
    assert "12345" not in said


def test_each_request_leaves_one_line_and_what_no_key_let_in_one_a_second(tmp_path: Path) -> None:
    with running(tmp_path, runtime="memory", config='[auth]\nmode = "keys"\n') as gateway:
        env = {"PATH": os.environ["PATH"], "LIMPET_HOME": str(gateway.home)}
        key = ran(["keys", "create", "ann", "--tenant", "acme"], env=env).stdout.strip()
        with gateway.http() as http:
            headers = {"Authorization": f"Bearer {key}"}
            made = http.post("/v1/responses", json={"model": "limpet/script", "input": "hi"}, headers=headers).json()
            http.get("/v1/models?secret=word", headers=headers)
            for _ in range(50):
                http.get("/livez")
                http.get("/v1/files", headers={})
        lines = [line for line in gateway.log.read_text().splitlines() if " request " in line]
    ours = [line for line in lines if "tenant=acme" in line]
    assert len(ours) == 2
    assert all(word in ours[0] for word in ("method=POST", "path=/v1/responses", "status=200", "ms=", made["id"]))
    assert "status=200" in ours[1]
    assert 1 <= len(lines) - len(ours) < 20
    assert not any(word in "".join(lines) for word in ("secret", key, "livez"))


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
