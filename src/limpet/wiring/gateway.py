"""From the operator's settings to a running gateway: which runtime, which providers, which limits."""

import os
from dataclasses import asdict
from ipaddress import ip_network

import anyio

from limpet import wiring
from limpet.config import Config
from limpet.containers.admission import AdmissionLimits
from limpet.containers.container import BoxSettings, ContainerSettings, ShellLimits
from limpet.core.ports import Offer, Runtime
from limpet.egress.fetch import FetchSettings
from limpet.ingress.limits import ConnectionLimits
from limpet.responses.input_sources import InputSettings
from limpet.responses.prepare import LoopSettings
from limpet.server import gateway
from limpet.store.database import DatabaseSettings
from limpet.store.quotas import QuotaSettings
from limpet.upstreams.routing import ProviderSettings, Route
from limpet.upstreams.upstream import Upstream
from limpet.wiring.logs import log_to_stderr, protect_secrets
from limpet.wiring.storage import storage_of

PROVIDERS = {
    "anthropic": "limpet.upstreams.anthropic:upstream",
    "openai": "limpet.upstreams.relay:RelayUpstream",
    "openai_chat": "limpet.upstreams.openai_chat:upstream",
}


def serve(config: Config, *, stop_boxes: bool, announce: wiring.Announce) -> None:
    """See `wiring.serve`."""
    protect_secrets(config)
    log_to_stderr(config.server.log_level)
    runtime = runtime_of(config)
    providers = [Route(_upstream(settings), settings.models) for settings in config.providers]
    chosen = f"chosen by {config.runtime_source}" if config.runtime_source else "the default"
    anyio.run(_serve, settings_of(config, runtime, stop_boxes=stop_boxes), runtime, chosen, providers, announce)


async def _serve(
    settings: gateway.GatewaySettings, runtime: Runtime, why: str, providers: list[Route], announce: wiring.Announce
) -> None:
    await gateway.serve(settings, runtime=runtime, why=f"{why}:", providers=providers, announce=announce)


def runtime_of(config: Config) -> Runtime:
    """The runtime that the settings choose, not yet opened. Raises ConfigInvalid."""
    shell = config.features.shell
    own = _bounds_of(config) if shell.type in wiring.RUNTIME_SETTINGS else {}
    return wiring.load_runtime(shell.type, where=config.source, key="features.shell.type", home=config.home, **own)


def _bounds_of(config: Config) -> dict[str, float | int | None]:
    """What bounds a box for which no request says anything else, also where only each process can be bounded."""
    shell, limits = config.features.shell, config.features.server_tools.shell_limits
    memory = limits.default_mem_limit_mb or shell.memory_mb
    return {
        "cpus": shell.cpus,
        "memory_mb": min(memory, limits.max_mem_limit_mb or memory),
        "processes": shell.processes,
        "open_files": shell.open_files,
        "file_size_mb": shell.file_size_mb,
        "disk_mb": shell.disk_mb,
        "disk_floor_mb": shell.disk_floor_mb,
    }


def settings_of(config: Config, runtime: Runtime, *, stop_boxes: bool = False) -> gateway.GatewaySettings:
    """The gateway's parts, as the file's sections say."""
    shell, limits = config.features.shell, config.features.server_tools.shell_limits
    return gateway.GatewaySettings(
        home=config.home,
        host=config.server.host,
        port=config.server.port,
        auth=config.auth.mode,
        database=DatabaseSettings(url=config.database.url or ""),
        storage=storage_of(config),
        containers=_containers_of(config),
        inputs=_inputs_of(config),
        quotas=QuotaSettings(
            max_bytes=config.features.quotas.max_bytes,
            max_containers=config.features.quotas.max_containers,
            max_files_per_container=config.features.quotas.max_files_per_container,
        ),
        limits=ShellLimits(
            command_timeout_secs=limits.command_timeout_secs,
            max_output_chars=limits.max_output_chars,
            default_mem_limit_mb=limits.default_mem_limit_mb,
            max_mem_limit_mb=limits.max_mem_limit_mb,
            allowed_egress_hosts=limits.allowed_egress_hosts,
            allowed_domain_secrets=tuple(limits.allowed_domain_secrets),
            host_memory_mb=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20,
        ),
        box=BoxSettings(image=shell.image, cpus=shell.cpus, memory_mb=shell.memory_mb),
        rules=config.shell_rules,
        loop=LoopSettings(
            max_iterations=config.features.server_tools.max_iterations,
            max_item_output_bytes=limits.max_item_output_bytes,
            stream_output=shell.stream_output,
            unsupported_tools=config.features.server_tools.unsupported,
        ),
        data="/mnt/data" if Offer.ISOLATION in runtime.offers else "the directory that $LIMPET_DATA names",
        has_network=Offer.ISOLATION not in runtime.offers,
        stop_boxes=stop_boxes,
        access_log=config.server.access_log,
        connections=ConnectionLimits(**asdict(config.server.connections)),
    )


def _containers_of(config: Config) -> ContainerSettings:
    containers = config.features.containers
    return ContainerSettings(
        default_idle_ttl_secs=containers.default_idle_ttl_secs,
        max_idle_ttl_secs=containers.max_idle_ttl_secs,
        max_files_per_exec=containers.max_files_per_exec,
        max_bytes_per_file=containers.max_bytes_per_file,
        max_entries=containers.max_entries,
        generated_directories=containers.generated_directories,
        generated_markers=containers.generated_markers,
        first_user_id=containers.first_user_id,
        user_ids=containers.user_ids,
        admission=AdmissionLimits(
            most=containers.max_live_boxes,
            per_tenant=config.features.quotas.max_live_boxes,
            wait=containers.box_wait_secs,
        ),
        directory=config.storage.container_files.path,
    )


def _inputs_of(config: Config) -> InputSettings:
    containers, url = config.features.containers, config.features.file_url
    fetch = FetchSettings(
        max_bytes=url.max_bytes,
        seconds=url.timeout_secs,
        ports=frozenset(url.ports),
        allowed_networks=tuple(ip_network(text) for text in url.allowed_networks),
    )
    return InputSettings(
        max_files=containers.max_input_files_per_request,
        max_bytes=containers.max_input_bytes_per_request,
        fetch=fetch if url.enabled else None,
    )


def _upstream(settings: ProviderSettings) -> Upstream:
    if settings.type == "script":
        script: Upstream = wiring.load("limpet.upstreams.script:ScriptUpstream")(settings.name)
        return script
    made: Upstream = wiring.load(PROVIDERS[settings.type])(settings)
    return made
