"""The only place that names runtimes, providers and stores: from a name in the configuration to the class that it stands for.

Each is loaded when it is asked for, so that starting costs what is used.
"""

import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, cast

from limpet.core.box_settings import BoxSettings
from limpet.core.errors import ConfigInvalid
from limpet.core.home import home_directory
from limpet.core.ports import RUNTIMES_OF_PACKAGES, Limits, Offer, Runtime, SandboxRef
from limpet.core.settings import EntryPoints, image_path
from limpet.egress.door import Interception
from limpet.egress.network import Network
from limpet.egress.secrets import DomainSecret, PlacedSecret
from limpet.guard.policy.policy import Policy
from limpet.guard.redaction.redactor import Redaction
from limpet.workspace.approvals import Approver
from limpet.workspace.argument_checks import checked_network, refuse_misused
from limpet.workspace.audit import OnAudit
from limpet.workspace.capabilities import read_capabilities
from limpet.workspace.context import WorkspaceContext
from limpet.workspace.opening import DEFAULT_TTL, SandboxOptions, WorkspaceOptions, open_in
from limpet.workspace.workspace import Closer, Workspace

if TYPE_CHECKING:
    from limpet.config import Config
    from limpet.store.blob_migration import Progress, Tell
    from limpet.store.keys import ApiKeys
    from limpet.wiring.boxes import HomeContainers

RUNTIMES: Mapping[str, str] = {
    "bubblewrap": "limpet.runtimes.bubblewrap:BubblewrapRuntime",
    "docker": "limpet.runtimes.docker:DockerRuntime",
    "local": "limpet.runtimes.local.runtime:LocalRuntime",
    "memory": "limpet.runtimes.memory:MemoryRuntime",
}
# What a workspace without a shell stands on, whatever runtime it names.
FILES_ONLY = "limpet.runtimes.filesonly:FilesRuntime"
# Runtimes that are made with settings of their own, which know where LIMPET_HOME is.
RUNTIME_SETTINGS: Mapping[str, str] = {
    "bubblewrap": "limpet.runtimes.bubblewrap.settings:BubblewrapSettings",
    "docker": "limpet.runtimes.docker.settings:DockerSettings",
}
# Known names whose runtimes are not built yet; to choose one is an error, never a silent substitute.
RUNTIMES_TO_COME = ("cloudflare", "microsandbox", "opensandbox")
# Promises of the conformance suite that a runtime is known not to keep, each with the reason.
KNOWN_GAPS: Mapping[str, str] = {"memory": "limpet.runtimes.memory:KNOWN_GAPS"}


def load(target: str) -> Any:
    """What stands at "module:attribute"."""
    module, _, attribute = target.partition(":")
    return getattr(import_module(module), attribute)


def added_runtimes() -> tuple[str, ...]:
    """The names of runtimes that installed packages add; a name of ours stays ours."""
    return tuple(name for name in EntryPoints(RUNTIMES_OF_PACKAGES).names() if name not in RUNTIMES)


def load_runtime(
    name: str, *, where: str = "runtime", key: str = "type", home: Path | None = None, **settings: Any
) -> Runtime:
    """A runtime by its name, not yet opened. Nothing starts before its `async with`.

    `home` is where it keeps its own things (None: `core.home.home_directory`), `settings` are the runtime's own, where it has any, or
    the fields of `BoxSettings` for a runtime of another package.
    Raises ConfigInvalid for a name that is unknown or not built yet, naming those that are; `where` and `key` say where the
    name came from.
    """
    if name not in RUNTIMES and name in added_runtimes():
        (found,) = entry_points(group=RUNTIMES_OF_PACKAGES, name=name)
        return cast(Runtime, found.load()(home=home or home_directory(os.environ), settings=BoxSettings(**settings)))
    if name not in RUNTIMES:
        problem = "is not built yet" if name in RUNTIMES_TO_COME else "is not a runtime"
        choices = ", ".join(sorted([*RUNTIMES, *added_runtimes()]))
        raise ConfigInvalid(where, key, f"{name!r} {problem}; choose one of: {choices}.")
    if name in RUNTIME_SETTINGS:
        made = load(RUNTIME_SETTINGS[name])(home=home or home_directory(os.environ), **settings)
        return cast(Runtime, load(RUNTIMES[name])(made))
    return cast(Runtime, load(RUNTIMES[name])())


def known_gaps(name: str) -> Mapping[str, str]:
    """The cases of the conformance suite that this runtime is known to fail: their names, and why."""
    return cast(Mapping[str, str], load(KNOWN_GAPS[name])) if name in KNOWN_GAPS else {}


def open_workspace(
    name: str = "box",
    *,
    runtime: str | Runtime = "bubblewrap",
    lifetime: Literal["process", "ttl"] = "process", ttl: float = DEFAULT_TTL, ref: SandboxRef | None = None,
    directory: Path | str | None = None, image: Path | str | None = None, home: Path | None = None,
    limits: Limits | None = None,
    env: Mapping[str, str] | None = None,
    needs: frozenset[Offer] = frozenset(),
    network: Network | Sequence[str] | str | None = None, secrets: Mapping[str, DomainSecret] | None = None,
    capabilities: Mapping[str, Any] | None = None, policy: Policy | None = None, redaction: Redaction | None = None,
    audit: OnAudit | None = None, approver: Approver | None = None, session: str = "",
) -> WorkspaceContext:  # fmt: skip
    """A workspace to run commands in: for the time of an `async with`, or from `await …open()` to `await box.close()`.

    `runtime` is a name (bubblewrap, docker, local, memory) or a runtime of your own that is open. With lifetime "process" the box ends
    with the block (or `close`) and with this process; with "ttl" it lives on until it has been idle for `ttl` seconds, and `ref=box.ref`
    enters it again, also from another process. `directory` keeps its files (else they go with it), `home` the runtime's own things.
    `image` has its programs: a directory, an OCI layout or archive, a tar of a root, or the name of an image in a
    registry (docs/images.md).
    `capabilities` are such as `{"shell": {"allowedCommands": ["ls"]}, "fs": True}`; None is all of them.
    `network` are hosts to be reached, as ["api.example.com", "*.example.org"] or a `limpet.Network`, None is none; `secrets` are used by
    the box and never seen there (docs/egress.md). The rules are as in `workspace.opening.WorkspaceOptions`, given again with a `ref`.

    Raises, when it is opened:
        ConfigInvalid: an argument is unknown, of another type or contradicts another.
        RuntimeUnavailable: this host cannot run that runtime; the error says what would mend it.
        OfferMissing: the runtime never offers something that was asked for, also a rule with `enforce="wall"` that it cannot enforce.
        BootFailed: the box did not start; nothing of it is left.
        SandboxGone: `ref` names a box that has ended.
    """
    opening = SandboxOptions(
        lifetime=lifetime, ttl=ttl, ref=ref, directory=_path(directory), image=_image(image),
        limits=limits or Limits(), env=env or {}, needs=needs,
    )  # fmt: skip
    rules = WorkspaceOptions(
        capabilities=capabilities, policy=policy, redaction=redaction, audit=audit, approver=approver, session=session,
    )  # fmt: skip
    return WorkspaceContext(lambda closer: _opened(name, runtime, opening, rules, home, (network, secrets), closer))


def _path(given: Path | str | None) -> Path | None:
    return Path(given) if isinstance(given, str) else given


def _image(given: Path | str | None) -> Path | None:
    """A `Path` is a path; of a text it is looked whether it is one."""
    if isinstance(given, Path):
        return given.absolute()
    return image_path(given, Path.cwd()) if isinstance(given, str) else given


@asynccontextmanager
async def _opened(
    name: str,
    runtime: str | Runtime,
    opening: SandboxOptions,
    rules: WorkspaceOptions,
    home: Path | None,
    network: tuple[object, object],
    closer: Closer,
) -> AsyncIterator[Workspace]:
    refuse_misused(name=name, runtime=runtime, opening=opening, rules=rules)
    reachable, placed = checked_network(*network, opening)
    interceptor = _interceptor(reachable, placed) if placed else None
    opening = replace(opening, network=reachable, interceptor=interceptor)
    async with AsyncExitStack() as stack:
        if isinstance(runtime, str):
            runtime = await stack.enter_async_context(_swept(_runtime_for(runtime, home, rules.capabilities)))
        yield await stack.enter_async_context(open_in(runtime, name, opening, rules=rules, closer=closer))


def _interceptor(network: Network | None, placed: Sequence[PlacedSecret]) -> Interception:
    try:
        return cast(Interception, load("limpet.egress.interception:interceptor")(network or Network(), placed))
    except ImportError as missing:
        if missing.name != "cryptography":
            raise
        raise ConfigInvalid("open_workspace", "secrets", "needs a package: pip install 'limpet[secrets]'.") from missing


@asynccontextmanager
async def _swept(runtime: Runtime) -> AsyncIterator[Runtime]:
    """Open it, and clear what boxes left whose time was up while no process was there to clear it."""
    async with runtime:
        await runtime.sweep(None)
        yield runtime


def _runtime_for(name: str, home: Path | None, capabilities: Mapping[str, Any] | None) -> Runtime:
    """The runtime of that name; where no shell is wanted, one that starts no process and has its files in the same place."""
    runtime = load_runtime(name, home=home)
    if read_capabilities(capabilities).shell or Offer.DIRECTORY not in runtime.offers:
        return runtime
    return cast(Runtime, load(FILES_ONLY)())


async def boot_box(config: "Config", container_id: str) -> str | None:
    """Boot the box of a container, as the gateway of these settings would, while none runs. The box lives on.

    Returns the sentence to tell where another box was lost before it. Raises HomeUnusable, caused by BlockingIOError where a
    gateway holds the home, NotFound, RequestInvalid `container_expired`, BootFailed, RuntimeUnavailable.
    """
    note: str | None = await load("limpet.wiring.boxes:boot")(config, container_id)
    return note


@asynccontextmanager
async def open_containers(config: "Config") -> "AsyncIterator[HomeContainers]":
    """The containers of a home that no gateway uses. Raises HomeUnusable, caused by BlockingIOError where one does,
    DatabaseUnusable, RuntimeUnavailable."""
    async with load("limpet.wiring.boxes:opened")(config) as containers:
        yield containers


async def move_storage(config: "Config", tell: "Tell") -> "Progress":
    """Move all stored bytes to where these settings keep new ones; a gateway may serve meanwhile. `tell` is called after each file.

    Raises HomeUnusable where another move is under way, and StoreError; may be called again after either."""
    done: Progress = await load("limpet.wiring.storage:move_all")(config, tell)
    return done


@asynccontextmanager
async def open_keys(config: "Config") -> "AsyncIterator[ApiKeys]":
    """The keys of a gateway of these settings, which may serve meanwhile. Raises HomeUnusable, DatabaseUnusable."""
    async with load("limpet.wiring.keys:opened")(config) as keys:
        yield keys


class Announce(Protocol):
    """Called once, when requests are answered."""

    def __call__(self, *, address: str, runtime: str, reason: str) -> None: ...


def serve(config: "Config", *, stop_boxes: bool, announce: Announce) -> None:
    """Serve the gateway until a signal ends it. Raises ConfigInvalid, and LimpetError for whatever keeps it from serving."""
    load("limpet.wiring.gateway:serve")(config, stop_boxes=stop_boxes, announce=announce)
