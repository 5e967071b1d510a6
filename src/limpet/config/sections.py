"""What may stand in limpet.toml: one dataclass for each section, its fields the keys, in the file's names and units.

A section that configures one part is that part's own dataclass, which has the defaults, the ranges and the check.

`docs/config.md` explains every key; a test compares the two. What is known but not built yet is marked, so that it is refused
by its name and not as a spelling mistake.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

from limpet.config.storage import Storage
from limpet.containers.settings import ContainerSettings
from limpet.core.box_settings import BoxSettings
from limpet.core.ports import RUNTIMES_OF_PACKAGES
from limpet.core.settings import EntryPoints, Later, Names
from limpet.egress.policy import read_policy
from limpet.egress.settings import FetchSettings, WebhookSettings
from limpet.guard.policy.policy import Policy
from limpet.guard.redaction.redactor import Redaction
from limpet.ingress.settings import AuthSettings, ServerSettings
from limpet.responses.settings import EngineSettings, ResponseSettings, ServerToolSettings
from limpet.responses.shell_runner import BareTool, ClientItem, ShellDelegation, ShellRunner
from limpet.store.settings import DatabaseSettings, QuotaSettings
from limpet.upstreams.routing import ProviderSettings

RuntimeName = Literal["bubblewrap", "docker", "local", "memory", "client_passthrough", "passthrough_openai"]
RUNNERS: Mapping[str, ShellRunner] = {"client_passthrough": "client", "passthrough_openai": "provider"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellRedaction(Redaction):
    """A file gives patterns no names."""

    patterns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Shell(BoxSettings):
    """Who runs commands, and in what boxes. Without `policy` no command is judged, without `redaction` output comes as it is; a table
    of either that is empty has the defaults of the library.
    `host_services` are services of the host that containers may be given, by name. `bare_tool` says whose a shell tool without
    `environment` is; `client_item` is the form in which a client gets a call where the model knows no shell tool."""

    type: Annotated[
        RuntimeName,
        Later(("microsandbox", "opensandbox", "cloudflare")),
        EntryPoints(RUNTIMES_OF_PACKAGES),
    ] = "bubblewrap"
    bare_tool: BareTool = "hosted"
    client_item: ClientItem = "shell_call"
    apply_patch: BareTool = "hosted"
    stream_output: bool = True
    unsafe_local: bool = False
    host_services: Annotated[Mapping[str, str], Names()] = field(default_factory=dict)
    policy: Policy | None = None
    redaction: ShellRedaction | None = None

    def conflicts(self) -> Iterator[tuple[str, str]]:
        """See `core.settings.Checked`."""
        for name, target in self.host_services.items():
            try:
                read_policy((), services={name: target})
            except ValueError as error:
                yield f"host_services.{name}", f"{error}"
        if self.type in RUNNERS:
            for rules in ("policy", "redaction"):
                if getattr(self, rules) is not None:
                    yield (
                        rules,
                        f"would hold for no command: with type = {self.type!r} none runs here. Leave the table out",
                    )

    @property
    def delegation(self) -> ShellDelegation:
        """Who carries out shell calls."""
        return ShellDelegation(
            runner=RUNNERS.get(self.type, "gateway"),
            bare_tool=self.bare_tool,
            client_item=self.client_item,
            apply_patch=self.apply_patch,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Features:
    shell: Shell = field(default_factory=Shell)
    containers: ContainerSettings = field(default_factory=ContainerSettings)
    file_url: FetchSettings = field(default_factory=FetchSettings)
    webhooks: WebhookSettings = field(default_factory=WebhookSettings)
    quotas: QuotaSettings = field(default_factory=QuotaSettings)
    server_tools: ServerToolSettings = field(default_factory=ServerToolSettings)
    responses: ResponseSettings = field(default_factory=ResponseSettings)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sections:
    """The whole file."""

    server: ServerSettings = field(default_factory=ServerSettings)
    auth: AuthSettings = field(default_factory=AuthSettings)
    database: DatabaseSettings = field(default_factory=DatabaseSettings)
    engine: EngineSettings = field(default_factory=EngineSettings)
    storage: Storage = field(default_factory=Storage)
    providers: Annotated[Mapping[str, ProviderSettings], Names()] = field(default_factory=dict)
    features: Features = field(default_factory=Features)
