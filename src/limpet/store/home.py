"""The home directory: made ready, and held by one gateway at a time."""

import errno
import fcntl
import json
import os
import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from limpet.core.errors import HomeUnusable

# Others may pass through, not look: boxes run as users of their own, each in a directory of its own.
HOME_MODE = 0o711
SUBDIRECTORIES = {"run": 0o700, "boxes": 0o711}
GATEWAY_FILE = "gateway.json"
# Large enough that a disk with nothing left refuses it.
SAMPLE = b"\0" * 8192


def prepare_home(path: Path) -> None:
    """Make the directory and what belongs in it, with their modes, and try whether it can be written. HomeUnusable says why not."""
    try:
        for directory, mode in ((path, HOME_MODE), *((path / name, mode) for name, mode in SUBDIRECTORIES.items())):
            directory.mkdir(parents=True, exist_ok=True)
            if directory.stat().st_mode & 0o7777 != mode:
                directory.chmod(mode)
        _write_something(path)
    except OSError as error:
        raise _unusable(path, error) from error


def home_id(path: Path) -> str:
    """What tells this home from every other, the same for as long as it exists; made when it is first asked for. HomeUnusable."""
    file = path / "id"
    try:
        if not file.exists():
            fresh = path / f".id-{secrets.token_hex(8)}"
            fresh.write_text(f"home_{secrets.token_hex(16)}\n")
            try:
                os.link(fresh, file)  # the first one stays, however many make one at once
            except FileExistsError:
                pass
            finally:
                fresh.unlink()
        return file.read_text().strip()
    except OSError as error:
        raise _unusable(path, error) from error


@contextmanager
def announced_in(home: Path, address: str) -> Iterator[None]:
    """While the block runs, programs of this home find its gateway at this address. HomeUnusable."""
    file = home / GATEWAY_FILE
    record = {"address": address, "pid": os.getpid(), "started": _start_of(os.getpid())}
    try:
        fresh = home / f".{GATEWAY_FILE}-{secrets.token_hex(8)}"
        fresh.write_text(json.dumps(record))
        fresh.replace(file)
    except OSError as error:
        raise _unusable(home, error) from error
    try:
        yield
    finally:
        file.unlink(missing_ok=True)


def gateway_of(home: Path) -> str | None:
    """The address of the gateway that serves this home now; None where none does. What a killed one left counts for nothing."""
    try:
        record = json.loads((home / GATEWAY_FILE).read_bytes())
        address, pid, started = str(record["address"]), int(record["pid"]), record["started"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return address if started is not None and _start_of(pid) == started else None


def _start_of(pid: int) -> str | None:
    """When a process began, in ticks since the host's start (proc_pid_stat(5)): with its pid it is one process and no other."""
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[19].decode()
    except (OSError, IndexError):
        return None


def _write_something(path: Path) -> None:
    with tempfile.TemporaryFile(dir=path, buffering=0) as file:
        if file.write(SAMPLE) != len(SAMPLE):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.fsync(file.fileno())


class HomeLock:
    """One gateway per home. Held from `async with` to its end, or to the end of the process however that comes; HomeUnusable, with
    the holder's process id, when another one has it. Another `name` is another lock, for what a gateway may run beside."""

    def __init__(self, home: Path, *, name: str = "lock") -> None:
        self._home = home
        self._name = name
        self._descriptor: int | None = None

    async def __aenter__(self) -> Self:
        path = self._home / self._name
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise _unusable(self._home, error) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        except BlockingIOError as error:
            holder = os.pread(descriptor, 32, 0).decode(errors="replace").strip() or "unknown"
            os.close(descriptor)
            reason = f"The process {holder} uses it; {path} is locked."
            raise HomeUnusable(self._home, reason, "Stop that one, or set LIMPET_HOME to another directory.") from error
        except OSError as error:
            os.close(descriptor)
            raise _unusable(self._home, error) from error
        self._descriptor = descriptor
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # The lock file stays: removing it could unlink a file that the next holder has already opened and locked.
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _unusable(path: Path, error: OSError) -> HomeUnusable:
    where = error.filename if isinstance(error.filename, str) else str(path)
    match error.errno:
        case errno.ENOSPC | errno.EDQUOT | errno.EFBIG:
            reason, remedy = "Its disk is full.", "Make room on it, or set LIMPET_HOME to another disk."
        case errno.EROFS:
            reason, remedy = (
                "It lies on a read-only file system.",
                "Set LIMPET_HOME to a directory that can be written.",
            )
        case errno.ENOTDIR | errno.EEXIST:
            file = next((above for above in (Path(where), *path.parents) if above.is_file()), where)
            reason, remedy = f"{file} is a file, not a directory.", "Move it away, or set LIMPET_HOME to a directory."
        case _:
            reason = f"{where}: {error.strerror}."
            remedy = "Make it writable for this user, or set LIMPET_HOME to a directory that is."
    return HomeUnusable(path, reason, remedy)
