"""What an operator may choose about the database and about what tenants keep in it. Values only."""

from collections.abc import Iterator
from dataclasses import dataclass

from limpet.core.settings import Positive


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseSettings:
    """`[database]`. `url` is `sqlite:///path` (relative to the working directory; an absolute path has four slashes, or
    `sqlite:/path`), `sqlite::memory:` for tests, `postgresql://user:password@host:port/name`, or None for `limpet.db` in the home
    directory."""

    url: str | None = None

    def conflicts(self) -> Iterator[tuple[str, str]]:
        """See `core.settings.Checked`."""
        if self.url is not None and not self.url.startswith(("sqlite:", "postgresql:", "postgres:")):
            yield (
                "url",
                'names no kind of database; write "sqlite:" and a path, or "postgresql://user:password@host/database"',
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaSettings:
    """`[features.quotas]`, of each tenant; None is no limit. `max_bytes` counts uploads, skills and the files of running containers;
    `max_containers` those that are running, without the ones that a response made and that never had a box."""

    max_bytes: Positive | None = None
    max_containers: Positive | None = None
    max_live_boxes: Positive | None = None
    max_files_per_container: Positive | None = None


NO_QUOTA = QuotaSettings()
