"""`limpet db`, `limpet backup` and `limpet restore`: the database of a gateway, its tables and its rows."""

import errno
import os
import secrets
import sys
from pathlib import Path

import anyio

from limpet.config import Config, load_config
from limpet.core.errors import ConfigInvalid
from limpet.store import backup
from limpet.store.backend import Backend
from limpet.store.database import backend_of
from limpet.store.home import HomeLock, home_id, prepare_home
from limpet.store.nodes import alive_in
from limpet.store.schema import head
from limpet.store.settings import DatabaseSettings
from limpet.wiring.logs import protect_secrets

ALIVE = 15.0  # seconds: three heartbeats of a gateway
FILES = "Files that are kept in directories or in a bucket, and LIMPET_HOME/key, are not in it: see docs/operating.md."


def upgrade(config: Path | None) -> None:
    """Makes the tables, or brings them up to date; gateways of the same version may serve meanwhile."""
    settings = _settings(config)
    prepare_home(settings.home)
    backend = backend_of(settings.database, home=settings.home)
    before = backend.version()
    backend.prepare()()
    after = backend.version()
    said = (
        f"is at version {after}" if before == after else f"was brought from version {before or '0 (empty)'} to {after}"
    )
    print(f"{backend.shown} {said}.")


def check(config: Path | None) -> int:
    """Exits 0 where the tables are up to date, 1 where `limpet db upgrade` or the next start of a gateway would change them."""
    settings = _settings(config)
    backend = backend_of(settings.database, home=settings.home)
    found, newest = backend.version(), head()
    if found == newest:
        print(f"{backend.shown} is at version {found}, the newest.")
        return 0
    print(f"{backend.shown} is {f'at version {found}' if found else 'empty'}; the newest version is {newest}.")
    return 1


def move(target: str, config: Path | None) -> None:
    """Copies every row to an empty database. The lock is this home's; gateways of other homes must have stopped ALIVE seconds before."""
    settings = _settings(config)
    wanted = DatabaseSettings(url=target)
    for _, problem in wanted.conflicts():
        raise ConfigInvalid("limpet db move", "--to", problem)
    source = backend_of(settings.database, home=settings.home)
    if source.version() is None:
        raise ConfigInvalid("limpet db move", "[database] url", f"{source.shown} has no data to be moved")
    _refuse_living(source)
    count = _alone(settings, lambda home: backup.moved(source, backend_of(wanted, home=settings.home), home=home))
    shown = backend_of(wanted, home=settings.home).shown
    print(
        f"{count} rows were copied from {source.shown} to {shown}. Set [database] url to it; the old database is as it was."
    )
    key = settings.home / "key"
    if not settings.server.secret_key and key.exists():
        print(f"Set server.secret_key to what {key} holds: sealed secrets open with it.")


def _refuse_living(source: Backend) -> None:
    """ConfigInvalid where other gateways write to it: what they write during the copy would be lost."""
    if not source.is_shared:
        return
    with source.snapshot() as connection:
        living = alive_in(connection, within=ALIVE)
    if living:
        problem = f"gateways serve from {source.shown}, or did {ALIVE:g} s ago ({', '.join(living)}); stop them, then try again"
        raise ConfigInvalid("limpet db move", "[database] url", problem)


def make_backup(file: Path, config: Path | None) -> None:
    """The gateway may serve meanwhile: the backup has what was there when it began."""
    settings = _settings(config)
    taken = ConfigInvalid("limpet backup", "FILE", f"{file} exists; name a new one")
    if os.path.lexists(file):
        raise taken
    backend = backend_of(settings.database, home=settings.home)
    if backend.version() is None:
        raise ConfigInvalid("limpet backup", "[database] url", f"{backend.shown} has no data")
    # A name that others who may write to the directory cannot make first.
    unfinished = file.with_name(f".limpet-{secrets.token_hex(16)}.unfinished")
    try:
        count = backup.backed_up(backend, unfinished)
        _name(unfinished, file)
    except FileExistsError as error:
        raise taken from error
    finally:
        unfinished.unlink(missing_ok=True)
    print(f"{count} rows of {backend.shown} are in {file}.")
    print(FILES, file=sys.stderr)


def restore(file: Path, config: Path | None) -> None:
    """Into an empty database. The lock is this home's: start no gateway of another home on it before it is full."""
    settings = _settings(config)
    backend = backend_of(settings.database, home=settings.home)
    count = _alone(settings, lambda home: backup.restored(backend, file, home=home))
    print(f"{count} rows of {file} are in {backend.shown}.")


def _name(unfinished: Path, file: Path) -> None:
    """Give it its name, on disk, if nothing has that. FileExistsError."""
    try:
        os.link(unfinished, file)
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS):
            raise
        unfinished.rename(file)  # its file system has no links
    directory = os.open(file.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _settings(config: Path | None) -> Config:
    settings = load_config(config)
    protect_secrets(settings)
    return settings


def _alone(settings: Config, work: "backup.Work") -> int:
    async def held() -> int:
        async with HomeLock(settings.home):
            return work(home_id(settings.home))

    prepare_home(settings.home)
    return anyio.run(held)
