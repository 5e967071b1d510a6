"""The same gateway on PostgreSQL: what it answers, stores and replays is what it is on SQLite."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.gateway import Gateway, running
from tests.wire.asking import SHELL, entries, run, shell_blocks
from tests.wire.schema import check_error, check_events
from tests.wire.streams import asking, replayed


def config_on(database: str) -> str:
    return f'[server]\nsecret_key = "the same for all of them"\n[database]\nurl = "{database}"\n'


@pytest.fixture(scope="module")
def database(postgres: Any) -> Iterator[str]:
    with postgres.database(migrated=False) as url:
        yield url


@pytest.fixture(scope="module")
def gateway(database: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    config = config_on(database)
    with running(tmp_path_factory.mktemp("on-postgres"), config=config) as gateway:
        yield gateway


def test_a_streamed_response_with_a_hosted_shell_is_stored_and_replayed(gateway: Gateway) -> None:
    with asking(
        gateway, model="limpet/script", input=shell_blocks("echo kept > kept; echo told"), tools=SHELL
    ) as stream:
        events = stream.rest()
    check_events(events)

    response = gateway.client().responses.retrieve(events[0]["response"]["id"])
    assert (response.status, entries(response)[0].stdout) == ("completed", "told\n")
    assert replayed(gateway, response.id) == events
    chained = run(gateway.client(), "cat kept", previous_response_id=response.id)
    assert entries(chained)[0].stdout == "kept\n"


def test_a_character_that_postgresql_cannot_keep_is_no_fault_of_ours(gateway: Gateway) -> None:
    client = gateway.client()
    asked = client.responses.create(model="limpet/script", input="what\0ever", metadata={"key": "a\0b"})
    assert client.responses.retrieve(asked.id).metadata == {"key": "a\0b"}
    with gateway.http() as http:
        answer = http.get("/v1/responses/resp_%00")
        assert answer.status_code == 404
        check_error(answer.json())
