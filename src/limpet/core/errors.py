"""Every error that Limpet raises. The class takes facts and writes the sentence; the sentence says what would be right.

LimpetError
├── ConfigInvalid                  a setting is unknown, wrong or missing
├── RuntimeUnavailable             this host cannot run that kind of sandbox
├── OfferMissing                   that runtime never can
├── AddressUnusable                the gateway cannot listen there
├── GatewayStopping                the gateway takes no more requests
├── SandboxError                   a sandbox that cannot run commands (a failing command is a result, not an error)
│   ├── BootFailed  SandboxGone  SandboxClosed  SandboxFull  BoxesBusy
│   └── CommandRefused             WorkingDirectoryMissing  BadEnvironmentName  BadCommand  CommandDenied
├── FileError                      FileMissing  NotAFile  NotADirectory  FileForbidden  PathOutside  FileTooLarge
│                                  FileDenied  EditFailed  PatternInvalid
├── ApprovalMissing                no request of that id waits for an answer
├── StoreError                     DatabaseUnusable  HomeUnusable  StoreFailed  PlaceUnusable  BlobMissing  BlobDamaged
├── UpstreamError                  UpstreamRefused  UpstreamBroken
├── FetchError                     FetchRefused  FetchFailed
└── RequestError                   what a client of the gateway did wrong; carries its place in OpenAI's error shape
    └── RequestInvalid  NotFound  RequestTooLarge  Forbidden  QuotaExceeded
"""

from collections.abc import Sequence
from pathlib import Path

from limpet.core.hiding import hide_secrets


class LimpetError(Exception):
    """The root. `str(error)` is one or more whole sentences for a person or a model, and has no configured secret in it."""

    def __init__(self, message: str) -> None:
        super().__init__(hide_secrets(message))
        self.message = message

    def __setattr__(self, name: str, value: object) -> None:
        """Hide secrets in the facts of an error too, one by one."""
        super().__setattr__(name, hide_secrets(value) if isinstance(value, str) else value)


class ConfigInvalid(LimpetError):
    """A setting is unknown, wrong or missing. `where` is the file or the variable that it came from."""

    def __init__(self, where: str, key: str, problem: str) -> None:
        super().__init__(f"{where}: {key}: {problem}")
        self.where = where
        self.key = key
        self.problem = problem


class RuntimeUnavailable(LimpetError):
    """This host cannot run that kind of sandbox. `remedy` is what would mend it."""

    def __init__(self, runtime: str, reason: str, remedy: str) -> None:
        mends = f" To mend it: {remedy}" if remedy else ""
        super().__init__(f"The runtime {runtime} does not work here: {reason}{mends}")
        self.runtime = runtime
        self.reason = reason
        self.remedy = remedy


class OfferMissing(LimpetError):
    """That runtime never offers what was asked for."""

    def __init__(self, runtime: str, wanted: str, offered: Sequence[str] = ()) -> None:
        hint = f" It offers: {', '.join(sorted(offered))}." if offered else ""
        super().__init__(f"The runtime {runtime} does not offer {wanted}.{hint} Choose another runtime, or do without.")
        self.runtime = runtime
        self.wanted = wanted


class AddressUnusable(LimpetError):
    """The address to listen on is taken, not ours, or not permitted."""

    def __init__(self, host: str, port: int, reason: str) -> None:
        super().__init__(f"Cannot listen on {host}:{port}: {reason}. Choose another with --port or [server] port.")


class GatewayStopping(LimpetError):
    """The gateway was asked to stop while a request was on its way."""

    def __init__(self) -> None:
        super().__init__(
            "The gateway is stopping. Ask again when it is back; what a stored response had until now is kept."
        )


class SandboxError(LimpetError):
    """A sandbox that cannot run commands."""


class BootFailed(SandboxError):
    """The sandbox did not start; nothing of it is left."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"The sandbox did not start: {reason}")
        self.reason = reason


class SandboxGone(SandboxError):
    """There is no such sandbox any more."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"The sandbox is gone: {reason} Open a new one; its files are kept where its directory is.")
        self.reason = reason


class SandboxClosed(SandboxError):
    """It was closed by its owner and then used."""

    def __init__(self) -> None:
        super().__init__("The sandbox was closed. Open a new one.")


class SandboxFull(SandboxError):
    """A limit of the sandbox or of the host leaves no room for one more."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)


class BoxesBusy(SandboxError):
    """All boxes that may live at once are in use. `waited` is in seconds."""

    def __init__(self, *, living: int, waited: float) -> None:
        super().__init__(
            f"No box came free within {waited:g} s: all {living} that may live at once are in use. Try again when less is going on."
        )


class CommandRefused(SandboxError):
    """The command as given cannot be started; nothing ran."""


class WorkingDirectoryMissing(CommandRefused):
    def __init__(self, path: str) -> None:
        super().__init__(
            f"The working directory {path} is not a directory in the sandbox. Create it first, or give another."
        )
        self.path = path


class BadEnvironmentName(CommandRefused):
    def __init__(self, name: str) -> None:
        super().__init__(
            f"{name!r} cannot be the name of an environment variable. Use letters, digits and underscores, not a digit first."
        )
        self.name = name


class BadCommand(CommandRefused):
    """The command has a form that no program can receive (a NUL byte, nothing to run, too long)."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)


class CommandDenied(CommandRefused):
    """The workspace's policy refuses it. `rule` is the setting; reason and remedy are sentences."""

    def __init__(self, rule: str, reason: str, remedy: str) -> None:
        super().__init__(f"{reason} {remedy} (rule: {rule})")
        self.rule = rule
        self.reason = reason
        self.remedy = remedy


class FileError(LimpetError):
    """An operation on a sandbox's file failed. `path` is the path as it was asked for."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(message)
        self.path = path


class FileMissing(FileError):
    def __init__(self, path: str) -> None:
        super().__init__(path, f"{path} does not exist.")


class NotAFile(FileError):
    """A directory, link, socket, device or fifo where a regular file is needed."""

    def __init__(self, path: str, kind: str) -> None:
        super().__init__(path, f"{path} is a {kind}, not a regular file.")


class NotADirectory(FileError):
    def __init__(self, path: str) -> None:
        super().__init__(path, f"{path} is not a directory.")


class FileForbidden(FileError):
    def __init__(self, path: str) -> None:
        super().__init__(path, f"{path} may not be accessed: permission denied.")


class PathOutside(FileError):
    """The path, or a link on its way, leaves the sandbox's roots."""

    def __init__(self, path: str, roots: Sequence[str]) -> None:
        super().__init__(
            path, f"{path} is outside {', '.join(roots)}. Use a path below one of them, without links that leave it."
        )
        self.roots = tuple(roots)


class FileDenied(FileError):
    """The workspace's policy refuses it; nothing was done. `rule` is the setting; reason and remedy are sentences."""

    def __init__(self, path: str, *, rule: str, reason: str, remedy: str) -> None:
        super().__init__(path, f"{reason} {remedy} (rule: {rule})")
        self.rule = rule
        self.reason = reason
        self.remedy = remedy


class EditFailed(FileError):
    """What was to be replaced is not there, or not only once; the file is as it was."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(path, f"{path} was not changed: {problem}")


class PatternInvalid(FileError):
    """A pattern to search for that cannot be read. `path` is where the search was to begin."""

    def __init__(self, path: str, pattern: str, problem: str) -> None:
        super().__init__(path, f"The pattern {pattern!r} cannot be used: {problem}")
        self.pattern = pattern


class FileTooLarge(FileError):
    def __init__(self, path: str, size: int, limit: int) -> None:
        super().__init__(
            path, f"{path} has {size} bytes; the limit is {limit}. Read a range of it, or raise the limit."
        )
        self.size = size
        self.limit = limit


class ApprovalMissing(LimpetError):
    """No request of that id waits for an answer."""

    def __init__(self, request_id: str) -> None:
        super().__init__(
            f"No request {request_id} waits for an answer: it was answered, has expired, or never was. `pending()` lists those that wait."
        )
        self.request_id = request_id


class StoreError(LimpetError):
    """What should be kept cannot be kept."""


class DatabaseUnusable(StoreError):
    """The database cannot be opened: locked, read-only, newer than this program, not a database."""

    def __init__(self, url: str, reason: str, remedy: str) -> None:
        super().__init__(f"The database {url} cannot be used: {reason} {remedy}".rstrip())
        self.reason = reason
        self.remedy = remedy


class HomeUnusable(StoreError):
    """LIMPET_HOME cannot be used: read-only, full, not a directory, or another gateway holds it."""

    def __init__(self, path: Path, reason: str, remedy: str) -> None:
        super().__init__(f"The home directory {path} cannot be used: {reason} {remedy}".rstrip())
        self.path = path
        self.reason = reason
        self.remedy = remedy


class StoreFailed(StoreError):
    """A write or read failed while running (disk full, disk gone)."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"The store failed: {reason}")
        self.reason = reason


class PlaceUnusable(StoreError):
    """A place for bytes cannot be used: a directory that cannot be written, a bucket that is missing or refuses."""

    def __init__(self, place: str, reason: str, remedy: str) -> None:
        super().__init__(f"{place} cannot be used: {reason} {remedy}".rstrip())
        self.place = place
        self.reason = reason
        self.remedy = remedy


class BlobMissing(StoreError):
    """The bytes that a row speaks of are not where they were put."""

    def __init__(self, key: str, place: str) -> None:
        super().__init__(f"The bytes {key} are missing in {place}. Restore them from a backup, or delete the file.")
        self.key = key
        self.place = place


class BlobDamaged(StoreError):
    """The bytes there are not those that were put."""

    def __init__(self, key: str, place: str) -> None:
        super().__init__(f"The bytes {key} in {place} are not those that were put there. Restore them from a backup.")
        self.key = key
        self.place = place


class UpstreamError(LimpetError):
    """A provider did not give a model turn."""


class UpstreamRefused(UpstreamError):
    """`status` of HTTP, None where it could not be reached; `retry_after` in seconds and `misalignment` (OpenAI's) where it says them."""

    retry_after: float | None = None
    misalignment: dict[str, object] | None = None

    def __init__(
        self, provider: str, status: int | None, message: str, *, code: str | None = None, param: str | None = None
    ) -> None:
        super().__init__(f"The provider {provider} refused: {message}")
        self.provider = provider
        self.status = status
        self.detail = message
        self.code = code
        self.param = param


class UpstreamBroken(UpstreamError):
    """The provider's answer broke off or could not be read, after it had begun."""

    def __init__(self, provider: str, reason: str) -> None:
        super().__init__(f"The answer of the provider {provider} broke off: {reason}")
        self.provider = provider
        self.reason = reason


class FetchError(LimpetError):
    """Something that a request names by URL was not fetched."""


class FetchRefused(FetchError):
    """It may not be fetched; nothing inside the gateway's own networks was dialed. Both are whole sentences."""

    def __init__(self, reason: str, remedy: str) -> None:
        super().__init__(f"{reason} {remedy}")


class FetchFailed(FetchError):
    """It may be fetched, and the other side does not deliver it."""


class RequestError(LimpetError):
    """What a client of the gateway did wrong, in the facts of OpenAI's error shape (message, type, param, code)."""

    status = 400
    type = "invalid_request_error"

    def __init__(self, message: str, *, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.param = param
        self.code = code


class RequestInvalid(RequestError):
    """A field of the request is wrong; the message says what would be right."""


class NotFound(RequestError):
    status = 404


class Overloaded(RequestError):
    """The gateway has no room for this request now."""

    status = 503
    type = "server_error"


class RequestTooLarge(RequestError):
    status = 413


class Forbidden(RequestError):
    status = 403


class QuotaExceeded(RequestError):
    """The tenant has as much of something as it may have."""

    status = 403

    def __init__(self, what: str, *, used: int, limit: int) -> None:
        super().__init__(
            f"The quota of {what} is reached: {used} of {limit} are used. Delete some, or ask the operator for more.",
            code="quota_exceeded",
        )
