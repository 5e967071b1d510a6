"""From the operator's settings to a running gateway: which runtime, which providers, which limits."""

import os
from collections.abc import Mapping
from dataclasses import fields
from importlib.util import find_spec
from typing import Any, cast

import anyio

from limpet import wiring
from limpet.config import Config
from limpet.containers.settings import ContainerHost
from limpet.containers.shell_rules import ShellRules
from limpet.core.box_directories import DATA
from limpet.core.box_settings import BoxSettings
from limpet.core.errors import ConfigInvalid
from limpet.core.ports import Offer, Runtime
from limpet.server import gateway, serving
from limpet.upstreams.deferred import DeferredUpstream
from limpet.upstreams.routing import ProviderSettings, Route
from limpet.upstreams.upstream import Upstream
from limpet.wiring.logs import log_to_stderr, protect_secrets
from limpet.wiring.storage import storage_of

# Settings with which the gateway has no boxes, and who runs commands then.
ELSEWHERE: Mapping[str, str] = {
    "client_passthrough": "Clients carry out shell calls themselves",
    "passthrough_openai": "OpenAI's containers carry out shell calls",
}
# The providers whose wires the gateway reads itself.
READ_DIRECTLY: Mapping[str, str] = {
    "anthropic": "limpet.upstreams.anthropic:upstream",
    "azure_openai": "limpet.upstreams.relay:RelayUpstream",
    "openai": "limpet.upstreams.relay:RelayUpstream",
    "openai_chat": "limpet.upstreams.openai_chat:upstream",
}
# The file of each other provider, and the library that it stands on, with the extra that brings that.
BY_LIBRARY: Mapping[str, tuple[str, str, str]] = {
    "bedrock": ("limpet.upstreams.bedrock:upstream", "boto3", "bedrock"),
    "vertex": ("limpet.upstreams.vertex:upstream", "google.genai", "vertex"),
}


def serve(config: Config, *, stop_boxes: bool, announce: wiring.Announce) -> None:
    """See `wiring.serve`."""
    protect_secrets(config)
    log_to_stderr(config.server.log_level)
    runtime = runtime_of(config)
    providers = [Route(_upstream(settings, config.source), settings.models) for settings in config.providers]
    chosen = f"chosen by {config.runtime_source}" if config.runtime_source else "the default"
    anyio.run(_serve, settings_of(config, runtime, stop_boxes=stop_boxes), runtime, chosen, providers, announce)


async def _serve(
    settings: gateway.GatewaySettings, runtime: Runtime, why: str, providers: list[Route], announce: wiring.Announce
) -> None:
    await serving.serve(settings, runtime=runtime, why=f"{why}:", providers=providers, announce=announce)


def runtime_of(config: Config) -> Runtime:
    """The runtime that the settings choose, not yet opened. Raises ConfigInvalid."""
    shell = config.features.shell
    if shell.type in ELSEWHERE:
        return cast(
            Runtime, wiring.load("limpet.runtimes.elsewhere:ElsewhereRuntime")(shell.type, ELSEWHERE[shell.type])
        )
    own = _bounds_of(config) if shell.type in (*wiring.RUNTIME_SETTINGS, *wiring.added_runtimes()) else {}
    return wiring.load_runtime(shell.type, where=config.source, key="features.shell.type", home=config.home, **own)


def _bounds_of(config: Config) -> dict[str, Any]:
    """What bounds a box for which no request says anything else, also where only each process can be bounded."""
    shell, limits = config.features.shell, config.features.server_tools.shell_limits
    memory = limits.default_mem_limit_mb or shell.memory_mb
    bounds = {field.name: getattr(shell, field.name) for field in fields(BoxSettings)}
    return bounds | {"memory_mb": min(memory, limits.max_mem_limit_mb or memory)}


def settings_of(config: Config, runtime: Runtime, *, stop_boxes: bool = False) -> gateway.GatewaySettings:
    """The gateway's parts, as the file's sections say."""
    return gateway.GatewaySettings(
        home=config.home,
        server=config.server,
        auth=config.auth,
        database=config.database,
        storage=storage_of(config),
        containers=config.features.containers,
        container_host=ContainerHost(
            directory=config.storage.container_files.path,
            memory_mb=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20,
        ),
        quotas=config.features.quotas,
        box=config.features.shell,
        rules=ShellRules(policy=config.features.shell.policy, redaction=config.features.shell.redaction),
        tools=config.features.server_tools,
        responses=config.features.responses,
        streams_output=config.features.shell.stream_output,
        fetch=config.features.file_url,
        webhooks=config.features.webhooks,
        host_services=config.features.shell.host_services,
        delegation=config.features.shell.delegation,
        data=DATA if Offer.ISOLATION in runtime.offers else "the directory that $LIMPET_DATA names",
        has_network=Offer.ISOLATION not in runtime.offers,
        stop_boxes=stop_boxes,
    )


def _upstream(settings: ProviderSettings, source: str) -> Upstream:
    if settings.type == "script":
        script: Upstream = wiring.load("limpet.upstreams.script:ScriptUpstream")(settings.name)
        return script
    if settings.type in READ_DIRECTLY:
        read: Upstream = wiring.load(READ_DIRECTLY[settings.type])(settings)
        return read
    target, library, extra = BY_LIBRARY[settings.type]
    if not _is_installed(library):
        where = f"providers.{settings.name}.type"
        raise ConfigInvalid(source, where, f"needs {library}, which is not installed: pip install 'limpet[{extra}]'")
    return DeferredUpstream(settings, lambda: cast(Upstream, wiring.load(target)(settings)))


def _is_installed(library: str) -> bool:
    try:
        return find_spec(library) is not None
    except ModuleNotFoundError:  # what it lies in
        return False
