"""`limpet db`, `limpet backup`, `limpet restore`: from one kind of database to the other, with a gateway before and after."""

from pathlib import Path
from typing import Any

import pytest

from limpet.store.schema import head
from tests.support.gateway import Gateway, running
from tests.support.postgres import PASSWORD
from tests.support.prepared import ran
from tests.wire.test_postgres import config_on


def limpet(home: Path, *arguments: str, env: dict[str, str] | None = None, code: int = 0) -> str:
    """What it said."""
    done = ran(arguments, env={"LIMPET_HOME": str(home), "PATH": "/usr/bin:/bin", **(env or {})})
    assert done.returncode == code, done.stderr
    assert PASSWORD not in done.stdout + done.stderr
    return done.stdout + done.stderr


def test_tables_are_made_looked_at_and_backed_up_by_hand(tmp_path: Path) -> None:
    home, other, file = tmp_path / "one", tmp_path / "other", tmp_path / "backup"
    assert f"is empty; the newest version is {head()}" in limpet(home, "db", "check", code=1)
    assert "has no data" in limpet(home, "backup", str(file), code=2)
    assert f"was brought from version 0 (empty) to {head()}" in limpet(home, "db", "upgrade")
    assert f"is at version {head()}, the newest" in limpet(home, "db", "check")
    limpet(home, "keys", "create", "mine")
    assert "rows of sqlite:" in limpet(home, "backup", str(file))
    assert file.stat().st_mode & 0o777 == 0o600
    assert sorted(path.name for path in tmp_path.iterdir()) == ["backup", "one"]
    assert "exists; name a new one" in limpet(home, "backup", str(file), code=2)
    limpet(other, "restore", str(file))
    assert limpet(home, "keys", "list") == limpet(other, "keys", "list")
    assert "It has tables already" in limpet(other, "restore", str(file), code=1)
    assert "names no kind of database" in limpet(home, "db", "move", "--to", "mysql://db/x", code=2)


@pytest.mark.parametrize("way", ["move", "backup"])
def test_a_gateway_goes_on_with_another_database(tmp_path: Path, postgres: Any, way: str) -> None:
    with postgres.database(migrated=False) as url, running(tmp_path, runtime="memory") as gateway:
        response = gateway.client().responses.create(model="limpet/script", input="remember")
        if way == "move":
            assert "locked" in limpet(gateway.home, "db", "move", "--to", url, code=1)
            gateway.stop()
            assert "the old database is as it was" in limpet(gateway.home, "db", "move", "--to", url)
        else:
            limpet(gateway.home, "backup", str(tmp_path / "backup"))  # while it serves
            gateway.stop()
            there = {"LIMPET_DATABASE__URL": url, "LIMPET_SERVER__SECRET_KEY": "any"}
            limpet(gateway.home, "restore", str(tmp_path / "backup"), env=there)
        gateway.config = config_on(url)
        _answers_as_before(gateway.start(), response)


def test_a_database_that_gateways_of_other_homes_serve_from_is_not_moved(tmp_path: Path, postgres: Any) -> None:
    with postgres.database() as url:
        name = url.rpartition("/")[2]
        now = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
        postgres.query(name, f"INSERT INTO nodes (home, tenant, seen_at) VALUES ('home_other', 'default', {now})")
        here = {"LIMPET_DATABASE__URL": url, "LIMPET_SERVER__SECRET_KEY": "any"}
        move = ("db", "move", "--to", f"sqlite:{tmp_path}/moved.db")
        refused = limpet(tmp_path / "home", *move, env=here, code=2)
        assert "home_other" in refused
        assert not (tmp_path / "moved.db").exists()
        postgres.query(name, "UPDATE nodes SET seen_at = seen_at - 16000000")
        assert "the old database is as it was" in limpet(tmp_path / "home", *move, env=here)


def _answers_as_before(gateway: Gateway, before: Any) -> None:
    client = gateway.client()
    assert client.responses.retrieve(before.id) == before
    assert (
        client.responses.create(model="limpet/script", input="more", previous_response_id=before.id).status
        == "completed"
    )
