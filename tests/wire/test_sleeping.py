"""Containers whose boxes sleep and wake: for want of admission, after a gateway's end, and what a wake brings back."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import openai
import pytest

from tests.support.gateway import running
from tests.wire.asking import container_of, entries, printed, run

TWO_SEATS = "[features.containers]\nmax_live_boxes = 2\nbox_wait_secs = 20\n"
WRITE = (
    "echo kept > f; mkdir -p d; ln -s ../f d/link; chmod 640 f; touch -d 2001-02-03 f; echo $HOME > ~/h; sleep 600 &"
)
READ = "cat f d/link ~/h; stat -c '%a %y' f; pgrep -c sleep"


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[openai.OpenAI]:
    with running(tmp_path_factory.mktemp("crowded"), config=TWO_SEATS) as gateway:
        yield gateway.client()


def told(response: openai.types.responses.Response) -> str:
    return "".join(entry.stderr for entry in entries(response))


def test_the_longest_idle_box_sleeps_for_the_third_and_wakes_with_its_files(crowded: openai.OpenAI) -> None:
    first = container_of(run(crowded, WRITE))
    for _ in range(2):
        run(crowded, "true")
    woken = run(crowded, READ, container=first)
    (entry,) = entries(woken)
    assert entry.stdout.startswith("kept\nkept\n/home/agent\n640 2001-02-03 00:00:00"), entry
    assert entry.stdout.endswith("\n0\n")
    assert "processes that ran in it are gone" in told(woken)
    assert "gone" not in told(run(crowded, "true", container=first))


def test_a_box_in_use_never_sleeps_and_who_needs_one_waits(crowded: openai.OpenAI) -> None:
    containers = [crowded.containers.create(name=str(number)).id for number in range(4)]
    with ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(run, crowded, "sleep 0.5; echo $$ > pid; cat pid", container=one) for one in containers]
        answers = [each.result(timeout=60) for each in asked]
    assert all(printed(answer).strip().isdigit() for answer in answers)
    assert [told(answer) for answer in answers] == [""] * 4


def test_where_no_box_comes_free_in_time_the_model_is_told(tmp_path: Path) -> None:
    config = "[features.containers]\nmax_live_boxes = 1\nbox_wait_secs = 0.2\n"
    with running(tmp_path, config=config) as gateway, ThreadPoolExecutor(1) as pool:
        client = gateway.client()
        busy = client.containers.create(name="busy").id
        stream = client.responses.create(
            model="limpet/script",
            input="```sh\necho up; sleep 5\n```",
            tools=[{"type": "shell", "environment": {"type": "container_reference", "container_id": busy}}],
            stream=True,
        )
        for event in stream:
            if "output_content.delta" in event.type or "delta" in event.type:
                break
        refused = pool.submit(run, client, "true").result(timeout=30)
        (entry,) = entries(refused)
        assert "No box came free within 0.2 s" in entry.stderr
        stream.close()


@pytest.mark.parametrize(
    "config, wanted",
    [
        ("max_containers = 2", "The quota of containers is reached: 2 of 2"),
        ("max_bytes = 1000", "The quota of bytes is reached: "),
        ("max_files_per_container = 2", "The quota of files in this container is reached: 2 of 2"),
    ],
)
@pytest.mark.promise("hadrian-quotas-bound-each-tenant")
def test_a_quota_is_refused_with_its_numbers(tmp_path: Path, config: str, wanted: str) -> None:
    with running(tmp_path, config=f"[features.quotas]\n{config}\n", runtime="memory") as gateway:
        client = gateway.client()
        container = client.containers.create(name="one").id
        with pytest.raises(openai.PermissionDeniedError) as refused:
            client.containers.create(name="two")
            client.containers.create(name="three")
            for name in "abc":
                client.containers.files.create(container, file=(name, b"x" * 400))
        assert wanted in refused.value.message
        assert refused.value.code == "quota_exceeded"
        if "bytes" in config:
            with pytest.raises(openai.PermissionDeniedError):
                client.files.create(file=("big", b"x" * 400), purpose="user_data")
            assert list(client.files.list()) == []
            client.containers.delete(container)
            client.files.create(file=("big", b"x" * 400), purpose="user_data")


def test_files_beyond_a_containers_quota_are_told_and_recorded_when_there_is_room(tmp_path: Path) -> None:
    with running(tmp_path, config="[features.quotas]\nmax_files_per_container = 2\n") as gateway:
        client = gateway.client()
        response = run(client, "touch a b c d")
        assert "the quota of 2 files in this container is reached, so 2 new ones are not" in told(response)
        container = container_of(response)
        names = [file.path for file in client.containers.files.list(container, order="asc")]
        assert names == ["/mnt/data/a", "/mnt/data/b"]
        assert told(run(client, "rm a b d; echo new > c", container=container)) == ""
        assert [file.path for file in client.containers.files.list(container)] == ["/mnt/data/c"]
