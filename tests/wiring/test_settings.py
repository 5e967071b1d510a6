from dataclasses import fields
from ipaddress import ip_network
from pathlib import Path

from limpet.config import Config, load_config
from limpet.config.sections import Shell
from limpet.containers.settings import ContainerSettings, DomainSecret, ShellLimits
from limpet.core.box_settings import BoxSettings
from limpet.core.secret import Secret
from limpet.egress.settings import FetchSettings
from limpet.ingress.limits import ConnectionLimits
from limpet.responses.settings import ServerToolSettings
from limpet.runtimes.bubblewrap.settings import BubblewrapSettings
from limpet.server.gateway import GatewaySettings
from limpet.store.settings import QuotaSettings
from limpet.wiring.gateway import runtime_of, settings_of

EVERYTHING = """
[server]
port = 7
[server.connections]
max_headers = 30
max_connections = 31
[database]
url = "sqlite:///x.db"
[features.shell]
type = "memory"
image = "/opt/root"
cpus = 2
memory_mb = 64
stream_output = false
[features.containers]
default_idle_ttl_secs = 11
max_idle_ttl_secs = 12
max_files_per_exec = 13
max_bytes_per_file = 14
max_entries = 1025
generated_directories = ["g"]
generated_markers = ["m"]
first_user_id = 3000
user_ids = 15
max_live_boxes = 17
box_wait_secs = 1.5
max_input_files_per_request = 22
max_input_bytes_per_request = 23
[features.file_url]
max_bytes = 24
timeout_secs = 2.5
allowed_networks = ["10.1.0.0/16", "fd00::/8"]
ports = [443, 8443]
[features.quotas]
max_bytes = 18
max_containers = 19
max_live_boxes = 20
max_files_per_container = 21
[auth]
mode = "keys"
[features.server_tools]
max_iterations = 5
[features.server_tools.shell_limits]
default_mem_limit_mb = 65
max_mem_limit_mb = 66
allowed_egress_hosts = ["h"]
command_timeout_secs = 16
max_output_chars = 100
max_item_output_bytes = 2048
[features.server_tools.shell_limits.allowed_domain_secrets.TOKEN]
value = "v"
allowed_hosts = ["h"]
"""


def composed(config: Config) -> GatewaySettings:
    return settings_of(config, runtime_of(config))


def test_every_setting_reaches_its_part(tmp_path: Path) -> None:
    (tmp_path / "limpet.toml").write_text(EVERYTHING)
    given = composed(load_config(environ={"LIMPET_HOME": "/h"}, working_directory=tmp_path))
    assert (given.home, given.server.host, given.server.port, given.database.url) == (
        Path("/h"),
        "127.0.0.1",
        7,
        "sqlite:///x.db",
    )
    assert given.containers == ContainerSettings(
        default_idle_ttl_secs=11,
        max_idle_ttl_secs=12,
        max_files_per_exec=13,
        max_bytes_per_file=14,
        max_entries=1025,
        generated_directories=("g",),
        generated_markers=("m",),
        first_user_id=3000,
        user_ids=15,
        max_input_files_per_request=22,
        max_input_bytes_per_request=23,
        max_live_boxes=17,
        box_wait_secs=1.5,
    )
    assert given.quotas == QuotaSettings(max_bytes=18, max_containers=19, max_live_boxes=20, max_files_per_container=21)
    assert given.fetch == FetchSettings(
        max_bytes=24, timeout_secs=2.5, ports=(443, 8443), allowed_networks=("10.1.0.0/16", "fd00::/8")
    )
    assert given.fetch.networks() == (ip_network("10.1.0.0/16"), ip_network("fd00::/8"))
    assert given.auth.mode == "keys"
    assert given.server.connections == ConnectionLimits(max_headers=30, max_connections=31)
    assert given.tools == ServerToolSettings(
        max_iterations=5,
        shell_limits=ShellLimits(
            command_timeout_secs=16,
            max_output_chars=100,
            default_mem_limit_mb=65,
            max_mem_limit_mb=66,
            allowed_egress_hosts=("h",),
            allowed_domain_secrets={"TOKEN": DomainSecret(value=Secret("v"), allowed_hosts=("h",))},
            max_item_output_bytes=2048,
        ),
    )
    assert (given.box.image, given.box.cpus, given.box.memory_mb) == (Path("/opt/root"), 2.0, 64)
    assert not given.streams_output


def test_urls_may_be_left_alone(tmp_path: Path) -> None:
    environ = {
        "LIMPET_HOME": "/h",
        "LIMPET_FEATURES__SHELL__TYPE": "memory",
        "LIMPET_FEATURES__FILE_URL__ENABLED": "false",
    }
    assert composed(load_config(environ=environ, working_directory=tmp_path)).fetch == FetchSettings(enabled=False)


def test_without_settings_the_parts_have_their_own_defaults(tmp_path: Path) -> None:
    environ = {"LIMPET_HOME": "/h", "LIMPET_FEATURES__SHELL__TYPE": "memory"}
    given = composed(load_config(environ=environ, working_directory=tmp_path))
    assert (given.containers, given.tools, given.fetch) == (ContainerSettings(), ServerToolSettings(), FetchSettings())
    # A box has one core and 512 MiB unless the operator says otherwise.
    assert (given.box.cpus, given.box.memory_mb) == (1.0, 512)


def test_a_key_has_its_default_in_one_dataclass_alone() -> None:
    """The sections are the parts' own dataclasses; where two keys are named alike, they are keys of two sections."""
    given = {field.name: field for field in fields(GatewaySettings)}
    for name, part in (("containers", ContainerSettings), ("quotas", QuotaSettings), ("fetch", FetchSettings)):
        assert given[name].default_factory is part
    assert issubclass(Shell, BoxSettings)
    assert issubclass(BubblewrapSettings, BoxSettings)
