"""One parser for the tests of a module: to start the reader behind it takes longer than most of them."""

from collections.abc import AsyncIterator

import pytest

from limpet.guard.policy.bash.parser import Parser


@pytest.fixture(scope="module")
async def parser(anyio_backend: str) -> AsyncIterator[Parser]:
    async with Parser() as parser:
        yield parser
