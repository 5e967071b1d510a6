"""What holds for every test: coroutines run under anyio on the stock asyncio loop. pyproject.toml sets the time limit."""

import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.homes import short_home


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--faults", action="store_true", help="kill the gateway at every event instead of at a few: minutes"
    )


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def home() -> Iterator[Path]:
    """Short, for a socket's address, and passable, for boxes that run as users of their own."""
    with short_home() as home:
        yield home


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Any]:
    """A server of the run's own (`tests.support.postgres.Server`)."""
    from tests.support.postgres import found_programs, server  # noqa: PLC0415 - only tests that need it load its driver

    if found_programs() is None:
        pytest.skip(
            "PostgreSQL is not installed: neither /usr/lib/postgresql/*/bin nor the PATH has initdb and postgres"
        )
    own = tmp_path_factory.getbasetemp()
    with server(own.parent if hasattr(request.config, "workerinput") else own) as started:
        yield started


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    from tests.support.scheduling import LongTestsFirst  # noqa: PLC0415 - only where xdist is there

    return LongTestsFirst(config, log)


@pytest.hookimpl(tryfirst=True)
def pytest_collection() -> None:
    """What is imported stays until the end: looking through it for garbage, again and again, is a third of its cost."""
    gc.disable()


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()
