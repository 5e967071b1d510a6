"""Which models there are, and whether the gateway is alive, well, and what it has done."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest
from prometheus_client.parser import text_string_to_metric_families

from limpet.store.home import home_id
from tests.support.gateway import Gateway, running
from tests.support.homes import home_apart
from tests.support.host import eventually, processes_of
from tests.wire.asking import printed, run
from tests.wire.conftest import RUNTIME
from tests.wire.schema import check_error, check_model_list


def get(gateway: Gateway, path: str, *, status: int = 200) -> Any:
    with gateway.http() as http:
        answer = http.get(path)
    assert answer.status_code == status, answer.text
    return answer.json()


def counted(gateway: Gateway) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """Every sample of /metrics."""
    with gateway.http() as http:
        answer = http.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=")
    families = text_string_to_metric_families(answer.text)
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in families
        for sample in family.samples
    }


def test_models_are_listed_and_found(gateway: Gateway, client: openai.OpenAI) -> None:
    page = get(gateway, "/v1/models")

    check_model_list(page)
    assert "limpet/script" in [model.id for model in client.models.list()]
    found = client.models.retrieve("limpet/script")
    assert (found.object, found.owned_by) == ("model", "limpet")
    assert found.created <= time.time()


def test_an_unknown_model_is_404_and_names_those_that_there_are(client: openai.OpenAI) -> None:
    for ask in (
        lambda: client.models.retrieve("gpt-nonsense"),
        lambda: client.responses.create(model="gpt-nonsense", input="hello"),
    ):
        with pytest.raises(openai.NotFoundError) as refused:
            ask()
        check_error(refused.value.response.json())
        assert "limpet/script" in str(refused.value)


def test_livez_is_cheap(gateway: Gateway) -> None:
    with gateway.http() as http:
        began = time.monotonic()
        answers = [http.get("/livez") for _ in range(50)]
        each = (time.monotonic() - began) / 50

    assert {(answer.status_code, answer.text) for answer in answers} == {
        (200, f'{{"status":"ok","home":"{home_id(gateway.home)}"}}')
    }
    # A box costs tens of milliseconds.
    assert each < 0.02


def test_healthz_tells_of_a_probe_that_ran_at_most_ten_seconds_ago(gateway: Gateway) -> None:
    first = get(gateway, "/healthz")
    second = get(gateway, "/healthz")

    for health in (first, second):
        assert health["status"] == "ok"
        assert (health["runtime"]["name"], health["runtime"]["works"]) == (RUNTIME, True)
        assert 0 <= health["runtime"]["probed_seconds_ago"] <= 11
        assert health["runtime"]["detail"]
    # The same probe, unless it had become too old in between.
    assert second["runtime"]["probed_seconds_ago"] >= first["runtime"]["probed_seconds_ago"] or (
        first["runtime"]["probed_seconds_ago"] > 9
    )
    with gateway.http() as http:
        assert http.get("/healthz").headers["content-type"] == "application/json"


@pytest.mark.promise("runtime-is-chosen-by-configuration")
@pytest.mark.parametrize("runtime", ["memory", "local", "bubblewrap"])
def test_the_runtime_is_the_one_that_was_configured(tmp_path: Path, runtime: str) -> None:
    with running(tmp_path, runtime=runtime) as gateway:
        assert get(gateway, "/healthz")["runtime"]["name"] == runtime
        assert printed(run(gateway.client(), "echo here")) == "here\n"
        assert f"commands run in {runtime}, chosen by {tmp_path / 'limpet.toml'}" in gateway.log.read_text()


@pytest.fixture
def breakable(tmp_path: Path) -> Iterator[tuple[Gateway, Path]]:
    """A gateway whose bubblewrap can be taken away while it serves."""
    with home_apart() as home:
        programs = home.parent / "bin"
        programs.mkdir()
        (programs / "bwrap").write_text('#!/bin/sh\nPATH=/usr/bin:/bin exec bwrap "$@"\n')
        (programs / "bwrap").chmod(0o755)
        for name in ("sh", "bash", "python3", "setpriv"):
            (programs / name).symlink_to(
                next(path for path in (Path("/usr/bin") / name, Path("/bin") / name) if path.exists())
            )
        gateway = Gateway(tmp_path, home=home, arguments=("--stop-boxes",), env={"PATH": str(programs)})
        try:
            yield gateway.start(), programs / "bwrap"
        finally:
            gateway.stop()


@pytest.mark.skipif(RUNTIME == "local", reason="the runtime local has no part that can be taken away")
def test_healthz_is_503_with_the_reason_when_no_box_can_be_had_any_more(breakable: tuple[Gateway, Path]) -> None:
    gateway, bubblewrap = breakable
    # The first request makes a fresh probe.
    bubblewrap.unlink()

    health = get(gateway, "/healthz", status=503)

    assert (health["status"], health["runtime"]["works"]) == ("failing", False)
    assert "bubblewrap" in health["runtime"]["detail"] + health["runtime"]["remedy"]
    assert "apt-get install" in health["runtime"]["remedy"]
    assert get(gateway, "/livez")["status"] == "ok"
    # The model is told, and the response does not end in silence.
    response = run(gateway.client(), "echo never")
    (output,) = [item for item in response.output if item.type == "shell_call_output"]
    assert output.status == "incomplete"
    assert "bubblewrap" in output.output[0].stderr


def test_a_probe_leaves_nothing_behind(gateway: Gateway) -> None:
    get(gateway, "/healthz")

    assert eventually(lambda: processes_of("probe-") == [], says="a probe's box lives on")
    assert [path for path in (gateway.home / "run").iterdir() if "probe" in path.name] == []


def test_counters_move_with_what_happened(gateway: Gateway, client: openai.OpenAI) -> None:
    before = counted(gateway)

    run(client, "echo x > file", "false")
    get(gateway, "/v1/containers/cntr_unknown", status=404)

    after = counted(gateway)

    def moved(name: str, **labels: str) -> float:
        key = (name, frozenset(labels.items()))
        return after.get(key, 0) - before.get(key, 0)

    assert moved("limpet_responses_total", status="completed") == 1
    assert moved("limpet_commands_total", outcome="exited") == 2
    assert moved("limpet_command_seconds_count") == 2
    assert moved("limpet_captured_files_total") == 1
    assert moved("limpet_http_requests_total", method="POST", route="/v1/responses", status="200") == 1
    unknown = {"method": "GET", "route": "/v1/containers/{container_id}", "status": "404"}
    assert moved("limpet_http_requests_total", **unknown) == 1
    assert after[("limpet_responses_running", frozenset())] == 0
    # No name of a client's making becomes a label: the number of series is bounded.
    assert not any("cntr_" in value for _, labels in after for _, value in labels)
