"""The same gateway on PostgreSQL: what it answers, stores and replays is what it is on SQLite."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.support.gateway import Gateway, running
from tests.wire.asking import SHELL, entries, run, shell_blocks
from tests.wire.schema import check_error, check_events
from tests.wire.streams import asking, replayed
from tests.wire.test_quotas_under_load import AT_ONCE, all_at_once, refusals


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


def test_quotas_hold_over_all_gateways_of_a_database(postgres: Any, tmp_path: Path) -> None:
    with ExitStack() as stack:
        config = config_on(stack.enter_context(postgres.database())) + "[features.quotas]\nmax_containers = 3\n"
        directories = [tmp_path / "one", tmp_path / "other"]
        for directory in directories:
            directory.mkdir()
        gateways = [
            stack.enter_context(running(directory, config=config, runtime="memory")) for directory in directories
        ]
        each = [gateway.client() for gateway in gateways]
        answers = all_at_once(AT_ONCE, lambda number: each[number % 2].containers.create(name=str(number)))
        assert refusals(answers) == ["quota_exceeded"] * (AT_ONCE - 3)
        assert len(each[0].containers.list().data) == len(each[1].containers.list().data) == 3


def test_an_outage_of_the_database_is_waited_for(gateway: Gateway, database: str, postgres: Any) -> None:
    """Between the events of a running response, and by requests that come meanwhile."""
    name = database.rpartition("/")[2]
    waits = "echo begun; until [ -e go ]; do sleep 0.02; done; for n in 1 2 3 4 5; do echo $n; done"
    with asking(gateway, model="limpet/script", input=shell_blocks(waits), tools=SHELL) as stream:
        made = stream.until("response.created")["response"]
        stream.until_printed("begun")
        postgres.administer(
            f"ALTER DATABASE {name} ALLOW_CONNECTIONS false",
            f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'",
        )
        with ThreadPoolExecutor(1) as pool:
            asked = pool.submit(
                lambda: gateway.client().containers.files.create(made["container_id"], file=("go", b""))
            )
            with pytest.raises(TimeoutError):
                asked.result(timeout=1)
            postgres.administer(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
            asked.result(timeout=20)
        events = stream.rest()
    check_events(events)
    assert events[-1]["type"] == "response.completed"
    assert entries(gateway.client().responses.retrieve(made["id"]))[0].stdout == "begun\n1\n2\n3\n4\n5\n"
