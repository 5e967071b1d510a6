"""What may stand in limpet.toml: one dataclass for each section, its fields the keys, in the file's names and units.

`docs/config.md` explains every key; a test compares the two. What is known but not built yet is marked, so that it is refused
by its name and not as a spelling mistake.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from limpet.config.bind import Between, Later, Names
from limpet.containers.generated import GENERATED, MARKERS
from limpet.core.secret import Secret

MIB = 1024 * 1024

Port = Annotated[int, Between(0, 65_535)]
Positive = Annotated[int, Between(1)]
Megabytes = Annotated[int, Between(16)]
Seconds = Annotated[float, Between(0.1, 86_400)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Connections:
    """See `ingress.limits.ConnectionLimits`, whose names these are."""

    max_header_bytes: Annotated[int, Between(1024, 16 * MIB)] = 64 * 1024
    max_headers: Annotated[int, Between(16, 100_000)] = 256
    header_timeout_secs: Annotated[float, Between(0.1, 3600)] = 10.0
    idle_timeout_secs: Annotated[float, Between(0.1, 86_400)] = 75.0
    body_timeout_secs: Annotated[float, Between(0.1, 3600)] = 20.0
    write_timeout_secs: Annotated[float, Between(0.1, 3600)] = 30.0
    min_bytes_per_sec: Annotated[int, Between(0)] = 512
    max_connections: Positive = 4000
    max_connections_per_address: Positive = 1000
    max_body_memory_mb: Annotated[int, Between(64)] = 512
    max_unread_memory_mb: Positive = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    host: str = "127.0.0.1"
    port: Port = 8420
    secret_key: Secret | None = None
    secret_key_previous: Secret | None = None
    advertise: str | None = None
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    access_log: Literal["debug", "info", "off"] = "info"
    connections: Connections = field(default_factory=Connections)


@dataclass(frozen=True, slots=True, kw_only=True)
class Auth:
    """`none` lets in whoever comes from this machine, `keys` who shows a key, from anywhere."""

    mode: Literal["none", "keys"] = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Database:
    """`url` is None for limpet.db in the home directory."""

    url: str | None = None


Backend = Literal["filesystem", "database", "s3"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerFiles:
    """`path` is None for the home directory. The others are a bucket's; keys that are None come from the environment."""

    backend: Backend = "filesystem"
    path: Path | None = None
    bucket: str | None = None
    region: str | None = None
    endpoint: str | None = None
    prefix: str = ""
    access_key_id: Secret | None = None
    secret_access_key: Secret | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """As `ContainerFiles`; `backend` None is for whatever that one has, bucket and all."""

    backend: Backend | None = None
    path: Path | None = None
    bucket: str | None = None
    region: str | None = None
    endpoint: str | None = None
    prefix: str = ""
    access_key_id: Secret | None = None
    secret_access_key: Secret | None = None
    max_file_bytes: Positive = 2048 * MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    container_files: ContainerFiles = field(default_factory=ContainerFiles)
    files: Files = field(default_factory=Files)


ProviderType = Annotated[
    Literal["openai", "openai_chat", "anthropic", "script"], Later(("azure_openai", "bedrock", "vertex"))
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    type: ProviderType
    base_url: str | None = None
    api_key: Secret | None = None
    models: tuple[str, ...] = ()
    native_shell: bool = True
    connect_timeout_secs: Seconds = 10.0
    first_byte_timeout_secs: Seconds = 120.0
    idle_timeout_secs: Seconds = 120.0
    max_retries: Annotated[int, Between(0, 100)] = 3
    retry_budget_secs: Annotated[float, Between(0, 86_400)] = 30.0


RuntimeName = Literal["bubblewrap", "local", "memory"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellPolicy:
    """See `guard.policy.policy.Policy`, whose names these are."""

    allowed_commands: tuple[str, ...] | None = None
    blocked_commands: tuple[str, ...] = ()
    blocks_platform_defaults: bool = True
    readonly: bool = False
    allowed_paths: tuple[str, ...] | None = None
    credential_paths_too: bool = False
    confirm_destructive: bool = False
    max_duration: Annotated[float, Between(0.001)] | None = None
    environment: tuple[str, ...] = ()
    enforce: Literal["guard", "wall"] = "guard"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellRedaction:
    """See `guard.redaction.redactor.Redaction`, whose names these are."""

    secrets: Annotated[Mapping[str, Secret], Names(lower=False)] = field(default_factory=dict)
    patterns: tuple[str, ...] = ()
    families: bool = True
    names: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Shell:
    """Who runs commands. `image` is a root file system directory, None for the host's programs. Without `policy` no command is judged,
    without `redaction` output comes as it is; a table of either that is empty has the defaults of the library."""

    type: Annotated[
        RuntimeName,
        Later(("microsandbox", "opensandbox", "docker", "cloudflare", "passthrough_openai", "client_passthrough")),
    ] = "bubblewrap"
    image: Path | None = None
    cpus: Annotated[float, Between(0.01, 1024)] = 1.0
    memory_mb: Megabytes = 512
    processes: Annotated[int, Between(16, 1_000_000)] = 256
    open_files: Annotated[int, Between(32, 1_000_000)] = 4096
    file_size_mb: Positive | None = None
    disk_mb: Megabytes = 10_240
    disk_floor_mb: Annotated[int, Between(0)] = 512
    stream_output: bool = True
    unsafe_local: bool = False
    policy: ShellPolicy | None = None
    redaction: ShellRedaction | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Containers:
    """Where the gateway is root each container gets a uid of its own, from `first_user_id` on."""

    default_idle_ttl_secs: Positive = 1200
    max_idle_ttl_secs: Positive = 60 * 24 * 3600
    max_files_per_exec: Positive = 1000
    max_bytes_per_file: Positive = 25 * MIB
    max_entries: Annotated[int, Between(1000, 10_000_000)] = 50_000
    generated_directories: tuple[str, ...] = GENERATED
    generated_markers: tuple[str, ...] = MARKERS
    max_input_files_per_request: Positive = 50
    max_input_bytes_per_request: Positive = 2048 * MIB
    max_live_boxes: Positive | None = None
    box_wait_secs: Annotated[float, Between(0)] = 60.0
    first_user_id: Annotated[int, Between(1000, 4_000_000_000)] = 2_000_000_000
    user_ids: Annotated[int, Between(1, 100_000_000)] = 500_000


@dataclass(frozen=True, slots=True, kw_only=True)
class FileUrl:
    """What is fetched for requests that name a file by URL. `allowed_networks` are reachable beside the public internet."""

    enabled: bool = True
    max_bytes: Positive = 512 * MIB
    timeout_secs: Annotated[float, Between(0.1, 3600)] = 60.0
    allowed_networks: tuple[str, ...] = ()
    ports: Annotated[tuple[int, ...], Between(1, 65_535)] = (443,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Quotas:
    """What each tenant may have at most; None is no limit."""

    max_bytes: Positive | None = None
    max_containers: Positive | None = None
    max_live_boxes: Positive | None = None
    max_files_per_container: Positive | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainSecret:
    value: Secret
    allowed_hosts: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellLimits:
    """What a request may ask of the shell at most (seed 04, sandboxing)."""

    default_mem_limit_mb: Megabytes | None = None
    max_mem_limit_mb: Megabytes | None = None
    allowed_egress_hosts: tuple[str, ...] = ()
    allowed_domain_secrets: Annotated[Mapping[str, DomainSecret], Names(lower=False)] = field(default_factory=dict)
    command_timeout_secs: Positive = 300
    max_output_chars: Annotated[int, Between(64)] = 8000
    max_item_output_bytes: Annotated[int, Between(1024, 10 * MIB)] = MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerTools:
    """`max_iterations` bounds the model turns of one response; `unsupported` is about hosted tools that a provider cannot run."""

    max_iterations: Positive = 50
    unsupported: Literal["drop", "refuse"] = "drop"
    shell_limits: ShellLimits = field(default_factory=ShellLimits)


@dataclass(frozen=True, slots=True, kw_only=True)
class Compaction:
    enabled: bool = False
    default_strategy: Literal["truncate", "llm"] = "truncate"
    default_threshold_tokens: Annotated[int, Between(1000)] = 12_000
    keep_recent_items: Annotated[int, Between(0)] = 6
    default_prompt: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Responses:
    compaction: Compaction = field(default_factory=Compaction)


@dataclass(frozen=True, slots=True, kw_only=True)
class Features:
    shell: Shell = field(default_factory=Shell)
    containers: Containers = field(default_factory=Containers)
    file_url: FileUrl = field(default_factory=FileUrl)
    quotas: Quotas = field(default_factory=Quotas)
    server_tools: ServerTools = field(default_factory=ServerTools)
    responses: Responses = field(default_factory=Responses)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sections:
    """The whole file."""

    server: Server = field(default_factory=Server)
    auth: Auth = field(default_factory=Auth)
    database: Database = field(default_factory=Database)
    storage: Storage = field(default_factory=Storage)
    providers: Annotated[Mapping[str, Provider], Names()] = field(default_factory=dict)
    features: Features = field(default_factory=Features)
