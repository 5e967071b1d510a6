"""The gateway that the wire tests talk to: the program itself, its default runtime, its built-in model."""

import os
from collections.abc import Iterator
from pathlib import Path

import openai
import pytest

from tests.support.gateway import Gateway, running

# Another runtime by name, to see how the wire looks over it; the default is what users get.
RUNTIME = os.environ.get("LIMPET_TEST_RUNTIME", "bubblewrap")


@pytest.fixture(scope="session")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """One for all tests of a worker that do not change it."""
    with running(tmp_path_factory.mktemp("gateway"), runtime=RUNTIME) as gateway:
        yield gateway


@pytest.fixture
def client(gateway: Gateway) -> openai.OpenAI:
    return gateway.client()


@pytest.fixture
def home_directory(tmp_path: Path) -> Path:
    """For a gateway of a test's own: `with running(home_directory, config=...) as gateway`."""
    return tmp_path
