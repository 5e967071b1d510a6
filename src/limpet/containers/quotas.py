"""What each tenant may have at most, refused as early as it can be seen, with the numbers.

What is refused here is refused before work is done for it. The decision that holds, however many ask at once, is taken where rows
are written: `store.quotas`.
"""

from collections import Counter
from collections.abc import AsyncIterator

from limpet.core.errors import QuotaExceeded
from limpet.store.database import Database
from limpet.store.settings import QuotaSettings
from limpet.store.usage import used_by


class Quotas:
    """Asks the store what a tenant has, where there is a limit for it, and raises QuotaExceeded (403 `quota_exceeded`)."""

    def __init__(self, db: Database, settings: QuotaSettings) -> None:
        self._db = db
        self.settings = settings
        self._incoming: Counter[str] = Counter()  # bytes on their way in, by tenant

    async def allow_container(self, tenant: str) -> None:
        """Whether a tenant may have one more container."""
        most = self.settings.max_containers
        if most is not None and (used := await used_by(self._db, tenant)).containers >= most:
            raise QuotaExceeded("containers", used=used.containers, limit=most)

    def allow_file(self, count: int) -> None:
        """Whether a container with that many files may have one more."""
        most = self.settings.max_files_per_container
        if most is not None and count >= most:
            raise QuotaExceeded("files in this container", used=count, limit=most)

    async def bounded(self, tenant: str, data: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Bytes on their way in, broken off as soon as the tenant would have too many, with all that come in beside them."""
        most = self.settings.max_bytes
        if most is None:
            async for piece in data:
                yield piece
            return
        used = (await used_by(self._db, tenant)).bytes
        size = 0
        try:
            if used >= most:
                raise QuotaExceeded("bytes", used=used, limit=most)
            async for piece in data:
                size += len(piece)
                self._incoming[tenant] += len(piece)
                if used + self._incoming[tenant] > most:
                    raise QuotaExceeded("bytes", used=used, limit=most)
                yield piece
        finally:
            self._incoming[tenant] -= size
            if not self._incoming[tenant]:
                del self._incoming[tenant]
