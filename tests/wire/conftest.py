"""The gateway that the wire tests talk to: the program itself, its default runtime, its built-in model."""

import os
from collections.abc import Iterator
from pathlib import Path

import openai
import pytest

from tests.support.gateway import Gateway, running
from tests.wire.provider import Provider, config_of, scripted_provider
from tests.wire.voices import KEY, KEY_VARIABLE, KINDS, Voice, all_voices, section_of

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


@pytest.fixture(scope="session")
def provider() -> Iterator[Provider]:
    """A scripted provider; `play` says what its model will say."""
    with scripted_provider() as provider:
        yield provider


@pytest.fixture(scope="session")
def scripted_gateway(provider: Provider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A gateway whose models `gpt-*` are the scripted provider's. Commands may take 3 s, a response 6 model turns."""
    limits = (
        "[features.server_tools]\nmax_iterations = 6\n[features.server_tools.shell_limits]\ncommand_timeout_secs = 3\n"
    )
    directory = tmp_path_factory.mktemp("scripted")
    with running(directory, runtime=RUNTIME, config=config_of(provider) + limits) as gateway:
        yield gateway


@pytest.fixture(scope="session")
def voices() -> Iterator[dict[str, Voice]]:
    """A scripted provider for each way in which the gateway speaks to one."""
    with all_voices() as voices:
        yield voices


@pytest.fixture(params=KINDS)
def voice(request: pytest.FixtureRequest, voices: dict[str, Voice]) -> Voice:
    """Each of them in turn."""
    return voices[request.param]


@pytest.fixture(scope="session")
def speaking_gateway(voices: dict[str, Voice], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A gateway whose providers they all are, with a key that must be seen nowhere."""
    directory = tmp_path_factory.mktemp("speaking")
    config = "".join(map(section_of, voices.values()))
    with running(directory, runtime=RUNTIME, config=config, env={KEY_VARIABLE: KEY}) as gateway:
        yield gateway


COMPACTION = """
[features.responses.compaction]
enabled = true
default_threshold_tokens = 1_000
keep_recent_items = 2
[providers.limpet]
type = "script"
"""


@pytest.fixture(scope="session")
def compacting_gateway(voices: dict[str, Voice], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """Its providers are all voices and the built-in model; the gateway compacts for those that do not."""
    config = "".join(map(section_of, voices.values())) + COMPACTION
    directory = tmp_path_factory.mktemp("compacting")
    with running(directory, runtime=RUNTIME, config=config, env={KEY_VARIABLE: KEY}) as gateway:
        yield gateway
