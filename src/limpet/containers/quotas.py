"""What each tenant may have at most, and the refusal of what goes beyond it, with the numbers."""

from collections.abc import AsyncIterator
from dataclasses import dataclass

from limpet.core.errors import QuotaExceeded
from limpet.store.database import Database
from limpet.store.usage import used_by


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaSettings:
    """`[features.quotas]`. `max_bytes` counts uploads, skills and the files of running containers; None is no limit. Boxes that live
    at once are the seats' business (`SeatLimits.per_tenant`)."""

    max_bytes: int | None = None
    max_containers: int | None = None
    max_files_per_container: int | None = None


class Quotas:
    """Asks the store what a tenant has, where there is a limit for it, and raises QuotaExceeded (403 `quota_exceeded`)."""

    def __init__(self, db: Database, settings: QuotaSettings) -> None:
        self._db = db
        self._settings = settings

    async def allow_container(self, tenant: str) -> None:
        """Whether a tenant may have one more container."""
        most = self._settings.max_containers
        if most is not None and (used := await used_by(self._db, tenant)).containers >= most:
            raise QuotaExceeded("containers", used=used.containers, limit=most)

    def allow_file(self, count: int) -> None:
        """Whether a container with that many files may have one more."""
        most = self._settings.max_files_per_container
        if most is not None and count >= most:
            raise QuotaExceeded("files in this container", used=count, limit=most)

    @property
    def most_files(self) -> int | None:
        """How many files of a container may be recorded."""
        return self._settings.max_files_per_container

    async def bounded(self, tenant: str, data: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Bytes on their way in, broken off as soon as the tenant would have too many."""
        most = self._settings.max_bytes
        if most is None:
            async for piece in data:
                yield piece
            return
        used = (await used_by(self._db, tenant)).bytes
        size = 0
        if used >= most:
            raise QuotaExceeded("bytes", used=used, limit=most)
        async for piece in data:
            size += len(piece)
            if used + size > most:
                raise QuotaExceeded("bytes", used=used, limit=most)
            yield piece
