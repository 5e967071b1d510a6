"""What holds for every test: coroutines run under anyio on the stock asyncio loop. pyproject.toml sets the time limit."""

import pytest


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"
