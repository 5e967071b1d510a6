"""The journal's connection to PostgreSQL: batches in two round trips, without SQLAlchemy, since every event passes here.

The fence: the rows of the batch's runs are read and locked first, so no other process can claim one of them before the batch is committed.
The same transaction tells other gateways that there is something to read (`store/notices.py`).
"""

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from sqlalchemy import Engine

from limpet.store.backend import TakenOver
from limpet.store.entries import COLUMNS, Row
from limpet.store.notices import CHANNEL, JOURNAL
from limpet.store.postgres import is_lost
from limpet.store.tables import journal, runs

# A server that is being started again is waited for: an event that cannot be kept costs its response.
RETRY_SECONDS = 10.0
PAUSE = 0.1

_TYPES = ("text", "bigint", "text", "integer", "text", "bytea", "text", "text", "bigint")
# In the order of their ids, as every other writer: two batches never wait for each other.
_EPOCHS = (
    f"SELECT response_id, epoch FROM {runs.name} WHERE response_id = ANY(%s) ORDER BY response_id FOR NO KEY UPDATE"
)
_INSERT = (
    f"INSERT INTO {journal.name} ({', '.join(COLUMNS)}) SELECT * FROM "
    f"unnest({', '.join(f'%s::{type}[]' for type in _TYPES)})"
)
# After a connection was lost at the commit: what is there already is ours, since the fence has held.
_AGAIN = f"{_INSERT} ON CONFLICT (response_id, seq) DO NOTHING"
_CHECKPOINT = f"UPDATE {runs.name} SET checkpoint = %s WHERE response_id = %s"
_NOTIFY = f"SELECT pg_notify('{CHANNEL}', '{JOURNAL}' || id) FROM unnest(%s::text[]) AS id"


class PostgresJournalWriter:
    """See `store.backend.JournalWriter`. Raises the driver's error where it cannot connect."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        driver: Any = engine.dialect.loaded_dbapi
        self.failures: tuple[type[Exception], ...] = (driver.Error, ValueError, OverflowError)
        self._connection: Any = None
        self._connect()

    def commit(
        self, rows: Sequence[Row], *, epochs: Mapping[str, int], checkpoints: Sequence[tuple[str, bytes]]
    ) -> None:
        until = time.monotonic() + RETRY_SECONDS
        is_repeated = False
        while True:
            try:
                if self._connection is None:
                    self._connect()
                self._commit(rows, epochs, checkpoints, is_repeated=is_repeated)
                return
            except self.failures as error:
                if not is_lost(error):
                    raise
                self.close()
                # Without a fence nothing says whose rows those would be.
                if time.monotonic() >= until or any(row[0] not in epochs for row in rows):
                    raise
                is_repeated = True
                time.sleep(PAUSE)

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _connect(self) -> None:
        pooled = self._engine.raw_connection()
        connection: Any = pooled.driver_connection
        pooled.detach()
        connection.autocommit = True
        self._connection = connection

    def _commit(
        self,
        rows: Sequence[Row],
        epochs: Mapping[str, int],
        checkpoints: Sequence[tuple[str, bytes]],
        *,
        is_repeated: bool,
    ) -> None:
        connection = self._connection
        told = list(dict.fromkeys(row[0] for row in rows))
        try:
            with connection.pipeline():
                connection.execute("BEGIN")
                if epochs:
                    found = dict(connection.execute(_EPOCHS, (list(epochs),)).fetchall())
                    if any(found.get(id) != epoch for id, epoch in epochs.items()):
                        raise TakenOver
                if rows:
                    columns = [list(column) for column in zip(*rows, strict=True)]
                    connection.execute(_AGAIN if is_repeated else _INSERT, columns)
                for response_id, checkpoint in checkpoints:
                    connection.execute(_CHECKPOINT, (checkpoint, response_id))
                if told:
                    connection.execute(_NOTIFY, (told,))
                connection.execute("COMMIT")
        except BaseException:
            if not connection.closed:
                with suppress(*self.failures):
                    connection.execute("ROLLBACK")
            raise
