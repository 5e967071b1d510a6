"""The operator's secrets as they are now: from the configuration, from files that are read again when they change, and from commands
that are run again. What cannot be read at the start keeps the gateway from starting; later the last value stays."""

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import anyio
import structlog
from anyio import to_thread

from limpet.containers.settings import DomainSecret
from limpet.core.clock import Clock, SystemClock
from limpet.core.errors import ConfigInvalid
from limpet.core.hiding import protect
from limpet.core.secret import Secret
from limpet.egress.secrets import sendable

LOOK_EVERY = 1.0  # seconds between two looks at the files
COMMAND_WITHIN = 30.0
MOST = 65_536  # bytes of a file or of what a command prints
KEY = "features.server_tools.shell_limits.allowed_domain_secrets"

log = structlog.get_logger()


class SecretUnreadable(Exception):
    """A secret's file or command gave none. The text says why, without anything of what it gave."""


@dataclass(slots=True)
class _Current:
    value: bytes
    read_at: float
    seen: tuple[int, ...] = ()
    before: bytes | None = None


class OperatorSecrets:
    """`async with` reads them, once; `refresh_for_ever` reads them again. ConfigInvalid for one that cannot be read."""

    def __init__(self, settings: Mapping[str, DomainSecret], *, clock: Clock | None = None) -> None:
        self._settings = settings
        self._clock = clock or SystemClock()
        self._current: dict[str, _Current] = {}
        self._failing: set[str] = set()
        self.version = 0  # grows with every value that is read

    async def __aenter__(self) -> Self:
        for name, secret in self._settings.items():
            try:
                self._hold(name, await self._read(name, secret))
            except SecretUnreadable as problem:
                key = f"{KEY}.{name}.{'file' if secret.file is not None else 'command' if secret.command else 'value'}"
                raise ConfigInvalid("limpet.toml", key, f"{problem}") from problem
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._current.clear()

    def value(self, name: str) -> bytes | None:
        """What the secret of that name is now; None where there is none."""
        found = self._current.get(name)
        return None if found is None else found.value

    def values(self, name: str) -> tuple[bytes, ...]:
        """The same, and what it was before it was rotated last: a host may still send that back."""
        found = self._current.get(name)
        return () if found is None else (found.value, *(() if found.before is None else (found.before,)))

    async def refresh_for_ever(self) -> None:
        """Look again until cancelled."""
        if all(secret.value is not None for secret in self._settings.values()):
            return
        while True:
            await anyio.sleep(LOOK_EVERY)
            await self.refresh()

    async def refresh(self) -> None:
        """Read again what may have changed. What cannot be read stays as it is, and the log says so once."""
        for name, secret in self._settings.items():
            current = self._current[name]
            try:
                if not await self._may_have_changed(secret, current):
                    continue
                found = await self._read(name, secret)
            except Exception as problem:  # noqa: BLE001 - one secret ends neither the others nor the gateway; its last value stays
                current.read_at = self._clock.monotonic()
                if name not in self._failing:
                    # The text of another exception may hold the value.
                    reason = f"{problem}" if isinstance(problem, SecretUnreadable) else type(problem).__name__
                    log.warning("secret_not_read_again", secret=name, reason=reason)
                self._failing.add(name)
                continue
            self._failing.discard(name)
            if found.value != current.value:
                found.before = current.value
                log.info("secret_rotated", secret=name)
            else:
                found.before = current.before
            self._hold(name, found)

    def _hold(self, name: str, found: _Current) -> None:
        self._current[name] = found
        self.version += 1
        protect((Secret(value.decode()) for value in self.values(name)), key=(self, name))

    async def _may_have_changed(self, secret: DomainSecret, current: _Current) -> bool:
        if secret.file is not None:
            return await to_thread.run_sync(_seen, secret.file) != current.seen
        return bool(secret.command) and self._clock.monotonic() - current.read_at >= secret.refresh_secs

    async def _read(self, name: str, secret: DomainSecret) -> _Current:
        now = self._clock.monotonic()
        seen: tuple[int, ...] = ()
        if secret.file is not None:
            seen = await to_thread.run_sync(_seen, secret.file)
            raw = await to_thread.run_sync(_content, secret.file)
        elif secret.command:
            raw = await _printed(secret.command)
        else:
            assert secret.value is not None, "checked when the settings were read"
            raw = secret.value.reveal().encode(errors="surrogateescape")
        return _Current(value=_checked(name, raw), read_at=now, seen=seen)


def _checked(name: str, raw: bytes) -> bytes:
    value = raw.removesuffix(b"\n").removesuffix(b"\r")
    try:
        sendable(name, Secret(value.decode()))
    except UnicodeDecodeError:
        raise SecretUnreadable(f"the secret {name} is not UTF-8") from None
    except ValueError as error:
        raise SecretUnreadable(f"{error}") from None
    return value


def _seen(file: Path) -> tuple[int, ...]:
    try:
        found = file.stat()
    except OSError as error:
        raise SecretUnreadable(f"{file} cannot be read: {error.strerror}") from error
    return found.st_ino, found.st_mtime_ns, found.st_size


def _content(file: Path) -> bytes:
    try:
        with file.open("rb") as reader:
            return reader.read(MOST)
    except OSError as error:
        raise SecretUnreadable(f"{file} cannot be read: {error.strerror}") from error


async def _printed(command: tuple[str, ...]) -> bytes:
    """What it writes on stdout. Nothing of it, and nothing of what it writes on stderr, is in an error."""
    try:
        with anyio.fail_after(COMMAND_WITHIN):
            done = await anyio.run_process(
                list(command), check=False, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
    except TimeoutError as error:
        raise SecretUnreadable(f"{command[0]} did not end within {COMMAND_WITHIN:.0f} s") from error
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no program with arguments"
        raise SecretUnreadable(f"{command[0]!r} cannot be run: {why}") from error
    if done.returncode != 0:
        raise SecretUnreadable(f"{command[0]} ended with {done.returncode}; run it by hand to see why")
    if len(done.stdout) > MOST:
        raise SecretUnreadable(f"{command[0]} printed more than {MOST} bytes")
    return done.stdout
