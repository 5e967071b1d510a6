"""The runtime `docker` is asked every promise of the conformance suite, over a real engine, with an image that has no Python."""

from collections.abc import Mapping
from pathlib import Path

import anyio
import pytest

from limpet.testing.run import ALL_CASES
from limpet.testing.suite import Case, Passed, Result, run_case
from tests.runtimes.docker.conftest import DockerEngine
from tests.support.homes import short_home

AT_ONCE = 6  # a container's start and end are mostly waits for the kernel
BOUND = 60.0


@pytest.fixture(scope="module")
def results(docker_engine: DockerEngine, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Result]:
    """Of every case, by its name."""
    room = tmp_path_factory.mktemp("promises")
    with short_home() as home:
        return anyio.run(_ask_all, docker_engine, home, room)


async def _ask_all(engine: DockerEngine, home: Path, room: Path) -> Mapping[str, Result]:
    found: dict[str, Result] = {}
    places = anyio.CapacityLimiter(AT_ONCE)

    async def ask(case: Case) -> None:
        async with places:
            directory = room / case.name
            directory.mkdir()
            found[case.name] = await run_case(case, runtime, directory=directory, bound=BOUND)

    async with engine.runtime(home) as runtime, anyio.create_task_group() as tasks:
        for case in ALL_CASES:
            tasks.start_soon(ask, case)
    return found


@pytest.mark.parametrize("case", ALL_CASES, ids=lambda case: case.name)
def test_promise(case: Case, results: Mapping[str, Result]) -> None:
    assert results[case.name] == Passed()
