"""A gateway as clients meet it: the built-in model, and a scripted provider that speaks chat completions."""

from collections.abc import Iterator

import pytest

from tests.clients.caches import INSTALL_SECONDS
from tests.support.gateway import Gateway, running
from tests.support.providers.openai_chat import ScriptedChat
from tests.wire.provider import Provider, scripted_provider


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All of these are one group: `-m clients` runs them alone, `-m "not clients"` all others."""
    for item in items:
        if "tests/clients/" in item.nodeid:
            item.add_marker(pytest.mark.clients)
            # The first of them installs its client.
            item.add_marker(pytest.mark.timeout(INSTALL_SECONDS + 60))


@pytest.fixture(scope="session")
def chat() -> Iterator[Provider]:
    with scripted_provider(ScriptedChat) as provider:
        yield provider


@pytest.fixture(scope="session")
def gateway(chat: Provider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    config = f'[providers.chat]\ntype = "openai_chat"\nbase_url = "{chat.server.base_url}"\nmodels = ["chat-*"]\n'
    with running(tmp_path_factory.mktemp("clients"), config=config) as gateway:
        yield gateway
