"""Quotas while many requests ask at once over sockets of their own: exactly as many as there are come through."""

import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import openai
import pytest

from tests.support.gateway import Gateway, running
from tests.wire.asking import entries, run
from tests.wire.test_skills import bundle, zipped

AT_ONCE = 30


def all_at_once(count: int, ask: Callable[[int], Any]) -> list[Any]:
    """What each call gave, or the error that it raised; they begin together."""
    barrier = Barrier(count)

    def one(number: int) -> Any:
        barrier.wait(timeout=5)
        try:
            return ask(number)
        except openai.APIStatusError as error:
            return error

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(one, range(count)))


def refusals(answers: list[Any]) -> list[str | None]:
    return [answer.code for answer in answers if isinstance(answer, openai.APIStatusError)]


def clients(gateway: Gateway) -> list[openai.OpenAI]:
    return [gateway.client() for _ in range(AT_ONCE)]


@pytest.mark.promise("hadrian-quotas-bound-each-tenant")
def test_containers_at_once_never_pass_their_quota(tmp_path: Path) -> None:
    with running(tmp_path, config="[features.quotas]\nmax_containers = 3\n", runtime="memory") as gateway:
        each = clients(gateway)
        answers = all_at_once(AT_ONCE, lambda number: each[number].containers.create(name=str(number)))
        assert refusals(answers) == ["quota_exceeded"] * (AT_ONCE - 3)
        assert len(each[0].containers.list().data) == 3


def test_containers_that_responses_boot_at_once_never_pass_it_either(tmp_path: Path) -> None:
    with running(tmp_path, config="[features.quotas]\nmax_containers = 3\n", runtime="memory") as gateway:
        each = clients(gateway)
        answers = all_at_once(12, lambda number: run(each[number], "echo ran"))
        printed = [entries(answer)[0] for answer in answers if not isinstance(answer, openai.APIStatusError)]
        assert sum(entry.stdout == "ran\n" for entry in printed) == 3
        told = [entry.stderr for entry in printed if entry.stdout != "ran\n"]
        assert all("The quota of containers is reached" in text for text in told)
        statuses = [container.status for container in each[0].containers.list()]
        assert statuses.count("running") == 3


@pytest.mark.parametrize("kind", ["files", "container files", "skills"])
def test_bytes_at_once_never_pass_their_quota(tmp_path: Path, kind: str) -> None:
    most, size = 40_000, 6000
    with running(tmp_path, config=f"[features.quotas]\nmax_bytes = {most}\n", runtime="memory") as gateway:
        each = clients(gateway)
        containers = [each[0].containers.create(name=str(number)).id for number in range(AT_ONCE)]
        content = bytes(size)
        packed = zipped({**bundle(), "tables/x": random.Random(1).randbytes(size)})

        def ask(number: int) -> Any:
            if kind == "files":
                return each[number].files.create(file=("x", content), purpose="user_data")
            if kind == "skills":
                return each[number].skills.create(files=("s.zip", packed, "application/zip"))
            return each[number].containers.files.create(containers[number], file=("x", content))

        answers = all_at_once(AT_ONCE, ask)
        assert set(refusals(answers)) == {"quota_exceeded"}
        kept = AT_ONCE - len(refusals(answers))
        assert 1 <= kept <= most // size
        if kind == "container files":
            listed = [file for one in containers for file in each[0].containers.files.list(one)]
            assert len(listed) == kept
        # What was refused left nothing: there is room for what still fits.
        for _ in range(most // size - kept):
            each[0].files.create(file=("x", content[: size - 500]), purpose="user_data")


def test_files_of_a_container_at_once_never_pass_their_quota(tmp_path: Path) -> None:
    with running(tmp_path, config="[features.quotas]\nmax_files_per_container = 3\n", runtime="memory") as gateway:
        each = clients(gateway)
        container = each[0].containers.create(name="one").id
        answers = all_at_once(
            AT_ONCE, lambda number: each[number].containers.files.create(container, file=(f"x{number}", b"1"))
        )
        assert refusals(answers) == ["quota_exceeded"] * (AT_ONCE - 3)
        assert len(each[0].containers.files.list(container).data) == 3
