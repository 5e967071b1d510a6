"""What an operator may choose about containers and about the shell that requests get. Values only."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from limpet.containers.generated import GENERATED, MARKERS
from limpet.containers.secret_names import name_problem
from limpet.core.secret import Secret
from limpet.core.settings import MIB, Between, Megabytes, Names, Positive
from limpet.egress.host_patterns import parse_patterns
from limpet.egress.policy import read_policy
from limpet.egress.secrets import sendable


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerSettings:
    """`[features.containers]`. Times are in seconds, sizes in bytes.

    At most `max_live_boxes` boxes live at once, None for any number; a command that finds none free waits for `box_wait_secs`.
    Where the gateway is root each container gets a uid of its own, from `first_user_id` on.
    """

    default_idle_ttl_secs: Positive = 1200
    max_idle_ttl_secs: Positive = 60 * 24 * 3600
    max_files_per_exec: Positive = 1000
    max_bytes_per_file: Positive = 25 * MIB
    max_bytes_per_download: Positive = 10_240 * MIB
    max_entries: Annotated[int, Between(1000, 10_000_000)] = 50_000
    generated_directories: tuple[str, ...] = GENERATED
    generated_markers: tuple[str, ...] = MARKERS
    max_input_files_per_request: Positive = 50
    max_input_bytes_per_request: Positive = 2048 * MIB
    max_live_boxes: Positive | None = None
    box_wait_secs: Annotated[float, Between(0)] = 60.0
    first_user_id: Annotated[int, Between(1000, 4_000_000_000)] = 2_000_000_000
    user_ids: Annotated[int, Between(1, 100_000_000)] = 500_000

    def conflicts(self) -> Iterator[tuple[str, str]]:
        """See `core.settings.Checked`."""
        if self.max_idle_ttl_secs < self.default_idle_ttl_secs:
            yield "max_idle_ttl_secs", "should be at least default_idle_ttl_secs"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerHost:
    """Where containers are: `directory` is what new ones have their own directories in, None the home; `memory_mb` is what the host
    has, None where boxes are elsewhere."""

    directory: Path | None = None
    memory_mb: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainSecret:
    """A secret that requests may name and that is sent to these hosts alone. It stands in one of `value`, `file` (read again when it
    changes) and `command`, whose output it is (run again after `refresh_secs`). `in_query` and `in_body`: where it may be put beside
    headers."""

    allowed_hosts: tuple[str, ...]
    value: Secret | None = None
    file: Path | None = None
    command: tuple[str, ...] = ()
    refresh_secs: Annotated[float, Between(1)] = 300.0
    in_query: bool = False
    in_body: bool = False

    def conflicts(self) -> Iterator[tuple[str, str]]:
        """See `core.settings.Checked`."""
        if sum((self.value is not None, self.file is not None, bool(self.command))) != 1:
            yield "value", "is one of three: write value, file or command, and only one of them"
        elif self.value is not None:
            if self.value.reveal().startswith("secret://"):
                yield "value", 'is a reference that nothing here resolves; write "${NAME}", or a file or command'
            elif problem := _unsendable(self.value):
                yield "value", problem
        try:
            if not parse_patterns(self.allowed_hosts):
                yield "allowed_hosts", "is empty: name the hosts that it may be sent to"
        except ValueError as error:
            yield "allowed_hosts", f"{error}"


def _unsendable(value: Secret) -> str | None:
    try:
        sendable("", value)
    except ValueError as error:
        return f"{error}".removeprefix("the secret ").strip()
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellLimits:
    """`[features.server_tools.shell_limits]`: what the operator grants at most. Requests can only ask for less.

    `max_item_output_bytes` is what an item holds of one stream of one command; `max_output_chars` what the model is shown.
    """

    default_mem_limit_mb: Megabytes | None = None
    max_mem_limit_mb: Megabytes | None = None
    allowed_egress_hosts: tuple[str, ...] = ()
    allowed_egress_ports: Annotated[tuple[int, ...], Between(1, 65_535)] = ()
    allowed_egress_networks: tuple[str, ...] = ()
    egress_host_sets: Annotated[Mapping[str, tuple[str, ...]], Names()] = field(default_factory=dict)
    allowed_domain_secrets: Annotated[Mapping[str, DomainSecret], Names(lower=False)] = field(default_factory=dict)
    command_timeout_secs: Positive = 300
    max_output_chars: Annotated[int, Between(64)] = 8000
    max_item_output_bytes: Annotated[int, Between(1024, 10 * MIB)] = MIB

    def conflicts(self) -> Iterator[tuple[str, str]]:
        """See `core.settings.Checked`."""
        try:
            read_policy(self.allowed_egress_hosts, sets=self.egress_host_sets)
        except ValueError as error:
            yield "allowed_egress_hosts", f"{error}"
        for name, hosts in self.egress_host_sets.items():
            try:
                parse_patterns(hosts)
            except ValueError as error:
                yield f"egress_host_sets.{name}", f"{error}"
        for name in self.allowed_domain_secrets:
            if problem := name_problem(name):
                yield f"allowed_domain_secrets.{name}", problem
        try:
            read_policy((), networks=self.allowed_egress_networks)
        except ValueError as error:
            yield "allowed_egress_networks", f"{error}"
