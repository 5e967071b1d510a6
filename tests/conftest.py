"""What holds for every test: coroutines run under anyio on the stock asyncio loop. pyproject.toml sets the time limit."""

import gc

import pytest


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.hookimpl(tryfirst=True)
def pytest_collection() -> None:
    """What is imported stays until the end: looking through it for garbage, again and again, is a third of its cost."""
    gc.disable()


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()
