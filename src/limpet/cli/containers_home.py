"""Containers as they are in a home directory, for its operator: every tenant's. Lists them while a gateway serves; what changes or
reads files needs a home that none uses."""

from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
from msgspec import to_builtins

from limpet import wiring
from limpet.config import Config
from limpet.containers.wire_objects import Container, container_file_object, container_object
from limpet.core.clock import SystemClock
from limpet.core.errors import HomeUnusable, LimpetError
from limpet.core.ports import Held
from limpet.store.containers import Containers
from limpet.store.database import Database, may_exist
from limpet.store.settings import DatabaseSettings

if TYPE_CHECKING:
    from limpet.wiring.boxes import HomeContainers

PAGE = 100
Json = dict[str, Any]


class HomeFailed(LimpetError):
    """The home has no containers, or a gateway uses it."""


class HomePlace:
    """The containers of a home, or of one tenant in it."""

    def __init__(self, config: Config, *, tenant: str | None) -> None:
        self._config = config
        self._tenant = tenant

    @property
    def path(self) -> Path:
        return self._config.home

    def containers(self) -> list[Json]:
        """All of them, newest first. HomeFailed."""
        return anyio.run(self._containers)

    def remove(self, container_id: str) -> None:
        """With its box and its files. HomeFailed, NotFound."""
        anyio.run(self._remove, container_id)

    def files(self, container_id: str) -> list[Json]:
        """All of a container's files, newest first. HomeFailed, NotFound."""
        return anyio.run(self._files, container_id)

    def fetch(self, container_id: str, file_id: str, write: Callable[[bytes], object]) -> None:
        """Hand on a file's bytes, in pieces. HomeFailed, NotFound."""
        anyio.run(self._fetch, container_id, file_id, write)

    async def _containers(self) -> list[Json]:
        settings = self._database()
        now = SystemClock().now()
        async with Database(settings, home=self._config.home) as database:
            found = await Containers(database).everyones(self._tenant)
        return [{"tenant": record.tenant, **_shown(container_object(record, now, Held()))} for record in found]

    async def _remove(self, container_id: str) -> None:
        async with self._opened() as containers:
            record = await containers.find(container_id)
            await containers.manager.delete(record.tenant, container_id)

    async def _files(self, container_id: str) -> list[Json]:
        async with self._opened() as containers:
            record = await containers.find(container_id)
            found: list[Json] = []
            after: str | None = None
            while True:
                page = await containers.manager.files.list(record.tenant, container_id, limit=PAGE, after=after)
                found += map(to_builtins, map(container_file_object, page.records))
                if not page.has_more:
                    return found
                after = page.records[-1].id

    async def _fetch(self, container_id: str, file_id: str, write: Callable[[bytes], object]) -> None:
        async with self._opened() as containers:
            record = await containers.find(container_id)
            _, pieces = await containers.manager.files.open_content(record.tenant, container_id, file_id)
            async with aclosing(pieces):
                async for piece in pieces:
                    write(piece)

    def _database(self) -> DatabaseSettings:
        settings = self._config.database
        if not may_exist(settings, home=self._config.home):
            raise HomeFailed(
                f"There are no containers in {self._config.home}, and no gateway was named or answers. Set LIMPET_HOME, or name "
                "a gateway with --url."
            )
        return settings

    @asynccontextmanager
    async def _opened(self) -> "AsyncIterator[HomeContainers]":
        self._database()
        try:
            async with wiring.open_containers(self._config) as containers:
                yield containers
        except HomeUnusable as error:
            if isinstance(error.__cause__, BlockingIOError):
                raise HomeFailed(
                    f"A gateway uses {self._config.home}. Name it with --url or LIMPET_URL (and a key of the container's tenant "
                    "with LIMPET_API_KEY, where it asks for keys)."
                ) from error
            raise


def _shown(container: Container) -> Json:
    """Without what only a runtime that is open can tell."""
    shown: Json = to_builtins(container)
    del shown["limits"]
    return shown
