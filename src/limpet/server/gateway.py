"""The gateway as a whole: its parts opened in order, and closed again.

It is given the runtime and the providers and names none of them.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from starlette.middleware import Middleware
from starlette.routing import Route as HttpRoute
from starlette.types import ASGIApp

from limpet.containers.attachments import AttachmentStore
from limpet.containers.manager import ContainerManager
from limpet.containers.network_grants import NetworkGrants
from limpet.containers.quotas import Quotas
from limpet.containers.settings import ContainerHost, ContainerSettings
from limpet.containers.shell_rules import ShellRules
from limpet.containers.staging import Staging
from limpet.core.box_directories import DATA
from limpet.core.box_settings import BoxSettings
from limpet.core.clock import Clock, SystemClock, seconds
from limpet.core.ports import Probe, Runtime
from limpet.egress.resolver import Resolve, system_resolve
from limpet.egress.settings import FetchSettings, WebhookSettings
from limpet.egress.webhook_sender import WebhookSender
from limpet.ingress.settings import AuthSettings, ServerSettings
from limpet.responses.context_compaction import ContextCompaction
from limpet.responses.conversation_items import ConversationItems
from limpet.responses.engine import owner_in
from limpet.responses.hosted_tools import HostedTools
from limpet.responses.idempotency import Submissions
from limpet.responses.inputs import InputFiles
from limpet.responses.metrics import Metrics
from limpet.responses.prepare import Preparer
from limpet.responses.recovery import Recovery
from limpet.responses.run_meter import Spendings
from limpet.responses.service import ResponseService
from limpet.responses.settings import ResponseSettings, ServerToolSettings
from limpet.responses.shell_runner import ShellDelegation
from limpet.server import (
    chat,
    containers,
    files,
    health,
    item_routes,
    openapi,
    ports,
    responses,
    skills,
)
from limpet.server.app import application
from limpet.server.auth import LoopbackOnly
from limpet.server.keys import KeyHolders
from limpet.server.node import GatewayNode, carried, opened_node
from limpet.server.node_requests import NodeRequests
from limpet.server.preview_links import PreviewLinks
from limpet.server.provider_containers import relay_routes
from limpet.server.sse import KEEP_ALIVE_SECONDS
from limpet.server.upkeep import kept_up
from limpet.server.websocket import LiveConnections, websocket_routes
from limpet.store.blob_storage import BlobStorage, StorageSettings, kept_in
from limpet.store.conversations import Conversations
from limpet.store.database import Database
from limpet.store.executions import Executions
from limpet.store.home import home_id
from limpet.store.idempotency import IdempotencyKeys
from limpet.store.journal import Journal
from limpet.store.keys import ApiKeys
from limpet.store.model_usage import ModelUsage
from limpet.store.provider_containers import ProviderContainers
from limpet.store.responses import Responses
from limpet.store.runs import Runs
from limpet.store.sealing import Sealer
from limpet.store.settings import DatabaseSettings, QuotaSettings
from limpet.store.skills import Skills
from limpet.store.uploads import Uploads
from limpet.store.usage import stored_bytes
from limpet.upstreams.known_models import KnownModels
from limpet.upstreams.routing import Route, Router


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewaySettings:
    """What the operator chose. `storage` None keeps all files in the home; `data` is the working directory that
    models are told of, `probe` what boxes have; `streams_output` False leaves the shell's deltas out, for clients that break on
    them; `delegation` says who runs shells; `keep_alive` is in seconds; `host_services` are those that containers may be given,
    `resolve` looks names up for them."""

    home: Path
    server: ServerSettings = field(default_factory=ServerSettings)
    auth: AuthSettings = field(default_factory=AuthSettings)
    database: DatabaseSettings = field(default_factory=DatabaseSettings)
    storage: StorageSettings | None = None
    containers: ContainerSettings = field(default_factory=ContainerSettings)
    quotas: QuotaSettings = field(default_factory=QuotaSettings)
    container_host: ContainerHost = field(default_factory=ContainerHost)
    box: BoxSettings = field(default_factory=BoxSettings)
    rules: ShellRules = field(default_factory=ShellRules)
    tools: ServerToolSettings = field(default_factory=ServerToolSettings)
    responses: ResponseSettings = field(default_factory=ResponseSettings)
    streams_output: bool = True
    fetch: FetchSettings = field(default_factory=FetchSettings)
    webhooks: WebhookSettings = field(default_factory=WebhookSettings)
    delegation: ShellDelegation = field(default_factory=ShellDelegation)
    data: str = DATA
    probe: Probe = field(default_factory=lambda: Probe(works=True, detail=""))
    has_network: bool = False
    host_services: Mapping[str, str] = field(default_factory=dict)
    resolve: Resolve = system_resolve
    stop_boxes: bool = False
    keep_alive: float = KEEP_ALIVE_SECONDS


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedParts:
    """A gateway that can be served. `stop` releases its runs, so that followers are told before their connections close."""

    app: ASGIApp
    stop: Callable[[], Awaitable[None]]


@asynccontextmanager
async def opened(
    settings: GatewaySettings, *, runtime: Runtime, providers: Sequence[Route]
) -> AsyncIterator[OpenedParts]:
    """The application with all its parts open; the home is this process's. Raises LimpetError for what keeps it from serving."""
    clock, metrics, router = SystemClock(), Metrics(), Router(providers)
    storage = settings.storage or kept_in(settings.home)
    async with AsyncExitStack() as stack:
        database = await stack.enter_async_context(Database(settings.database, home=settings.home))
        blob_storage = await stack.enter_async_context(BlobStorage(database, storage, clock=clock))
        node = await stack.enter_async_context(_node(settings, database, clock))
        uploads = await stack.enter_async_context(Uploads(database, blob_storage, clock=clock, quota=settings.quotas))
        bundles = Skills(database, blob_storage, clock=clock, quota=settings.quotas)
        quotas, staging = Quotas(database, settings.quotas), Staging(settings.home / "staging")
        attachments = AttachmentStore(bundles, uploads, staging=staging)
        await stack.enter_async_context(runtime)
        for provider in providers:
            await stack.enter_async_context(provider.upstream)
        manager = await stack.enter_async_context(
            _manager(settings, runtime, database, blob_storage, clock, attachments, quotas, metrics, node)
        )
        journal = await stack.enter_async_context(Journal(database))
        inputs = InputFiles(uploads, settings=settings.containers, fetch=settings.fetch, spool=settings.home)
        service = await stack.enter_async_context(
            _service(settings, database, journal, inputs, router=router, manager=manager, clock=clock, metrics=metrics)
        )
        sender, sealer = WebhookSender(settings.webhooks, resolve=settings.resolve), sealer_of(settings)
        beside = kept_up(database, sender, settings.responses, settings.webhooks, sealer, clock, metrics)
        accounts = await stack.enter_async_context(beside)
        live, asks = LiveConnections(), node.requests(manager)
        routes = [
            *_response_routes(settings, service, live, database, asks),
            *item_routes.routes(database, journal, service, clock=clock, tools=settings.tools),
            *_container_routes(settings, manager, uploads, database, providers, node, asks),
            *skills.skill_routes(bundles, quotas, staging),
            *skills.version_routes(bundles, quotas, staging),
            *files.file_routes(uploads, quotas, max_bytes=storage.max_file_bytes),
            *_health_routes(settings, runtime, manager, database, clock, metrics),
            *accounts,
            *health.model_routes(router, KnownModels(providers, clock=clock), seconds(clock.now())),
            *openapi.routes(has_keys=settings.auth.mode == "keys"),
        ]
        door = node.door(_door(settings, database, clock, node.links))
        yield OpenedParts(app=_application(settings, routes, door, metrics), stop=partial(_stop, service, live, asks))


def _node(settings: GatewaySettings, database: Database, clock: Clock) -> AbstractAsyncContextManager[GatewayNode]:
    return opened_node(
        database,
        sealer_of(settings),
        clock,
        home=home_id(settings.home),
        address=settings.server.advertise,
        silence=settings.responses.takeover_secs,
    )


def _container_routes(
    settings: GatewaySettings,
    manager: ContainerManager,
    uploads: Uploads,
    database: Database,
    providers: Sequence[Route],
    node: GatewayNode,
    asks: NodeRequests | None,
) -> list[HttpRoute]:
    runner, clock = settings.delegation.runner, SystemClock()
    if runner == "provider":
        return relay_routes(providers, _owners(settings, database))
    routes = [
        *containers.container_routes(manager, clock),
        *containers.file_routes(manager, uploads),
        *ports.port_routes(manager.ports, node.links, clock),
    ]
    return [*containers.refusing_routes(), *routes] if runner == "client" else carried(routes, asks)


def _response_routes(
    settings: GatewaySettings,
    service: ResponseService,
    live: LiveConnections,
    database: Database,
    asks: NodeRequests | None,
) -> list[HttpRoute]:
    keep_alive, sealer = settings.keep_alive, sealer_of(settings)
    submissions = Submissions(service, IdempotencyKeys(database), sealer)
    return [
        *websocket_routes(service, live, limits=settings.server.connections, keep_alive=keep_alive),
        *responses.routes(service, submissions, keep_alive=keep_alive, nodes=asks),
        *chat.routes(service, keep_alive=keep_alive),
    ]


async def _stop(service: ResponseService, live: LiveConnections, asks: NodeRequests | None) -> None:
    if asks is not None:
        asks.stop()
    await service.stop()
    await live.stop()


def _health_routes(
    settings: GatewaySettings,
    runtime: Runtime,
    manager: ContainerManager,
    database: Database,
    clock: Clock,
    metrics: Metrics,
) -> list[HttpRoute]:
    return health.routes(
        health=health.Health(runtime, clock),
        runtime=runtime.name,
        metrics=metrics,
        boxes=manager.admission.counts,
        doors=manager.doors.counts,
        stored=lambda: stored_bytes(database),
        home=home_id(settings.home),
    )


def _application(settings: GatewaySettings, routes: Sequence[HttpRoute], door: Middleware, metrics: Metrics) -> ASGIApp:
    return application(
        routes,
        metrics=metrics,
        door=door,
        body_bytes=settings.server.connections.max_body_memory_mb << 20,
        access_log=settings.server.access_log,
    )


def _door(settings: GatewaySettings, database: Database, clock: Clock, links: PreviewLinks) -> Middleware:
    if settings.auth.mode == "keys":
        return Middleware(KeyHolders, keys=ApiKeys(database), clock=clock, links=links)
    return Middleware(LoopbackOnly, links=links)


def _manager(
    settings: GatewaySettings,
    runtime: Runtime,
    database: Database,
    blob_storage: BlobStorage,
    clock: Clock,
    attachments: AttachmentStore,
    quotas: Quotas,
    metrics: Metrics,
    node: GatewayNode,
) -> ContainerManager:
    return ContainerManager(
        runtime,
        database,
        home=settings.home,
        settings=settings.containers,
        limits=settings.tools.shell_limits,
        box=settings.box,
        host=settings.container_host,
        clock=clock,
        stop_boxes=settings.stop_boxes,
        copies=blob_storage if blob_storage.copies_container_files else None,
        attachments=attachments,
        quotas=quotas,
        meter=metrics,
        rules=settings.rules,
        grants=NetworkGrants.of(settings.tools.shell_limits, settings.host_services, settings.resolve),
        sealer=sealer_of(settings),
        nodes=node.directory,
    )


def sealer_of(settings: GatewaySettings) -> Sealer:
    """What seals with the operator's key, or with that of the home."""
    return Sealer(settings.home, key=settings.server.secret_key, previous=settings.server.secret_key_previous)


def _context(settings: GatewaySettings, manager: ContainerManager) -> ContextCompaction:
    return ContextCompaction(
        settings=settings.responses.compaction,
        sealer=sealer_of(settings),
        containers=manager,
        directory=settings.data,
    )


def _owners(settings: GatewaySettings, database: Database) -> ProviderContainers | None:
    return ProviderContainers(database, clock=SystemClock()) if settings.auth.mode == "keys" else None


def _hosted_tools(
    settings: GatewaySettings, manager: ContainerManager, owners: ProviderContainers | None
) -> HostedTools:
    return HostedTools(
        containers=manager,
        limits=settings.tools.shell_limits,
        delegation=settings.delegation,
        data=settings.data,
        has_network=settings.has_network,
        probe=settings.probe,
        owners=owners,
    )


def _service(
    settings: GatewaySettings,
    database: Database,
    journal: Journal,
    inputs: InputFiles,
    *,
    router: Router,
    manager: ContainerManager,
    clock: Clock,
    metrics: Metrics,
) -> ResponseService:
    rows, executions, owner = Responses(database), Executions(database), owner_in(home_id(settings.home))
    spendings = Spendings(ModelUsage(database), budgets=settings.responses.budgets, clock=clock)
    preparer = Preparer(
        responses=rows,
        executions=executions,
        journal=journal,
        router=router,
        containers=manager,
        clock=clock,
        settings=settings.tools,
        streams_output=settings.streams_output,
        owner=owner,
        data=settings.data,
        hosted=_hosted_tools(settings, manager, _owners(settings, database)),
        metrics=metrics,
        files=inputs,
        conversations=ConversationItems(Conversations(database, clock=clock)),
        spendings=spendings,
        context=_context(settings, manager),
    )
    return ResponseService(
        responses=rows,
        runs=Runs(database),
        journal=journal,
        preparer=preparer,
        recovery=Recovery(preparer=preparer, journal=journal, executions=executions),
        clock=clock,
        metrics=metrics,
        settings=settings.responses,
        spendings=spendings,
        owner=owner,
    )
