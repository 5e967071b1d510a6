"""Files that processes write which run on after their command: captured when something happens next, and cited only where they belong."""

import threading
from typing import Any

import openai
import pytest

from tests.support.gateway import Gateway, running
from tests.support.host import eventually, rows
from tests.support.providers.turns import ShellCall, reply
from tests.wire.asking import SHELL, container_of, output_files, run
from tests.wire.conftest import RUNTIME
from tests.wire.provider import Provider

pytestmark = pytest.mark.skipif(RUNTIME == "memory", reason="a box in memory has no processes that run on")

WAITING = "until [ -e {0} ]; do sleep 0.01; done"


def writing(*steps: tuple[str, str]) -> str:
    """A command that returns at once and leaves a process: for each step it waits for one file, then writes another."""
    script = "; ".join(f"{WAITING.format(waited)}; echo {written} > {written}" for waited, written in steps)
    return f"({script}) >/dev/null 2>&1 &"


def paths(client: openai.OpenAI, container: str) -> set[str]:
    return {file.path.removeprefix("/mnt/data/") for file in client.containers.files.list(container)}


def cited(response: Any) -> list[str]:
    notes = [note for item in response.output if item.type == "message" for note in item.content[0].annotations]
    return [note.filename for note in notes]


@pytest.mark.promise("files-of-detached-processes-are-captured-later")
def test_they_are_captured_when_files_are_listed_and_at_the_next_command(client: openai.OpenAI) -> None:
    first = run(client, writing(("go", "listed"), ("on", "between"), ("last", "during")))
    container = container_of(first)
    assert (output_files(first), paths(client, container)) == ([], set())

    client.containers.files.create(container, file=("go", b""))
    assert eventually(lambda: "listed" in paths(client, container))

    client.containers.files.create(container, file=("on", b""))
    waiting = run(client, WAITING.format("between"), container=container)
    second = run(client, f"touch last; {WAITING.format('during')}", container=container)

    # What came to be before a response's first command is not that response's.
    assert [file["filename"] for file in output_files(second)] == ["during", "last"]
    assert sorted(cited(second)) == ["during", "last"]
    assert set(cited(waiting)) <= {"between"}
    assert paths(client, container) == {"go", "listed", "on", "between", "last", "during"}


@pytest.mark.promise("files-of-detached-processes-are-captured-later")
def test_they_are_captured_and_cited_at_the_responses_end(scripted_gateway: Gateway, provider: Provider) -> None:
    client = scripted_gateway.client()
    provider.play(ShellCall((writing(("go", "late")),)), reply("Done.", hold_after=1))
    answers: list[Any] = []
    asking = threading.Thread(
        target=lambda: answers.append(client.responses.create(model="gpt-scripted", input="Go.", tools=SHELL))
    )
    asking.start()
    try:
        provider.wait_held()
        (container,) = client.containers.list(order="desc", limit=1).data
        client.containers.files.create(container.id, file=("go", b""))
        data = scripted_gateway.home / "boxes" / container.id / "data"
        eventually((data / "late").exists)
    finally:
        provider.let_go()
        asking.join()

    (response,) = answers
    assert (cited(response), container_of(response)) == (["late"], container.id)
    assert cited(client.responses.retrieve(response.id)) == ["late"]


@pytest.mark.promise("files-of-detached-processes-are-captured-later")
def test_they_are_captured_before_their_container_expires(home_directory: Any) -> None:
    config = "[features.containers]\ndefault_idle_ttl_secs = 1\n"
    with running(home_directory, runtime=RUNTIME, config=config) as gateway:
        client = gateway.client()
        container = container_of(run(client, "(sleep 0.3; echo late > late) >/dev/null 2>&1 &"))
        status = "SELECT status FROM containers WHERE id = ?"
        eventually(lambda: rows(gateway.home / "limpet.db", status, container)[0]["status"] == "expired", within=15)
        assert paths(client, container) == {"late"}


@pytest.mark.promise("many-files-stay-with-the-call-that-wrote-them")
def test_of_very_many_files_a_thousand_are_listed_with_their_call_and_the_rest_is_counted(
    client: openai.OpenAI,
) -> None:
    response = run(client, "mkdir out; cd out; seq 1421 | xargs touch", "true", "echo x > mine")

    items = [item for item in response.output if item.type == "shell_call_output"]
    assert [item.output[-1].stderr for item in items] == ["", "", ""]
    told = [item.model_extra or {} for item in items]
    assert [len(each["output_files"]) for each in told] == [1000, 0, 1]
    assert [each.get("output_files_omitted") for each in told] == [421, None, None]
    assert len(cited(response)) == 1001
    assert sum(1 for _ in client.containers.files.list(container_of(response), limit=100)) == 1422


@pytest.mark.promise("generated-trees-are-neither-recorded-nor-cited")
def test_what_tools_generate_is_neither_listed_nor_cited(client: openai.OpenAI) -> None:
    response = run(
        client,
        "python3 -m venv --without-pip v; mkdir -p node_modules/p .git src/__pycache__; "
        "touch node_modules/p/index.js .git/HEAD src/__pycache__/m.pyc; echo mine > src/m.py",
        "true",
        "v/bin/python -c 'print(1)'",
    )

    items = [item for item in response.output if item.type == "shell_call_output"]
    assert [item.output[-1].stderr for item in items] == ["", "", ""]
    told = [[file["path"] for file in (item.model_extra or {})["output_files"]] for item in items]
    assert told == [["/mnt/data/src/m.py"], [], []]
    assert cited(response) == ["m.py"]
    assert [file.path for file in client.containers.files.list(container_of(response))] == ["/mnt/data/src/m.py"]


@pytest.mark.promise("files-that-are-gone-at-the-end-are-not-cited")
def test_a_file_that_is_gone_at_the_responses_end_is_not_cited(client: openai.OpenAI) -> None:
    response = run(client, "echo a > gone; echo b > old; echo c > kept", "rm gone; mv old new")

    assert sorted(cited(response)) == ["kept", "new"]
