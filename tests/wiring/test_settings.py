from dataclasses import asdict, fields, replace
from ipaddress import ip_network
from pathlib import Path

from limpet.config import Config, load_config
from limpet.config.sections import Connections, Features
from limpet.containers.admission import AdmissionLimits
from limpet.containers.container import BoxSettings, ContainerSettings, ShellLimits
from limpet.egress.fetch import FetchSettings
from limpet.ingress.limits import ConnectionLimits
from limpet.responses.input_sources import InputSettings
from limpet.responses.prepare import LoopSettings
from limpet.server.gateway import GatewaySettings
from limpet.store.quotas import QuotaSettings
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
    assert (given.home, given.host, given.port, given.database.url) == (Path("/h"), "127.0.0.1", 7, "sqlite:///x.db")
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
        admission=AdmissionLimits(most=17, per_tenant=20, wait=1.5),
    )
    assert given.quotas == QuotaSettings(max_bytes=18, max_containers=19, max_files_per_container=21)
    assert given.inputs == InputSettings(
        max_files=22,
        max_bytes=23,
        fetch=FetchSettings(
            max_bytes=24,
            seconds=2.5,
            ports=frozenset({443, 8443}),
            allowed_networks=(ip_network("10.1.0.0/16"), ip_network("fd00::/8")),
        ),
    )
    assert given.auth == "keys"
    assert given.connections == ConnectionLimits(max_headers=30, max_connections=31)
    assert replace(given.limits, host_memory_mb=None) == ShellLimits(
        command_timeout_secs=16,
        max_output_chars=100,
        default_mem_limit_mb=65,
        max_mem_limit_mb=66,
        allowed_egress_hosts=("h",),
        allowed_domain_secrets=("TOKEN",),
    )
    assert given.box == BoxSettings(image=Path("/opt/root"), cpus=2.0, memory_mb=64)
    assert given.loop == LoopSettings(max_iterations=5, max_item_output_bytes=2048, stream_output=False)


def test_urls_may_be_left_alone(tmp_path: Path) -> None:
    environ = {
        "LIMPET_HOME": "/h",
        "LIMPET_FEATURES__SHELL__TYPE": "memory",
        "LIMPET_FEATURES__FILE_URL__ENABLED": "false",
    }
    assert composed(load_config(environ=environ, working_directory=tmp_path)).inputs == InputSettings(fetch=None)


def test_without_settings_the_parts_have_their_own_defaults(tmp_path: Path) -> None:
    environ = {"LIMPET_HOME": "/h", "LIMPET_FEATURES__SHELL__TYPE": "memory"}
    given = composed(load_config(environ=environ, working_directory=tmp_path))
    limits = replace(given.limits, host_memory_mb=None)
    assert (given.containers, limits, given.loop) == (ContainerSettings(), ShellLimits(), LoopSettings())
    # A box has one core and 512 MiB unless somebody says otherwise.
    assert given.box == BoxSettings(cpus=1.0, memory_mb=512)


def test_the_sections_name_every_limit_of_a_connection_with_its_default() -> None:
    assert ConnectionLimits(**asdict(Connections())) == ConnectionLimits()


def test_the_sections_name_every_key_of_the_containers_settings() -> None:
    elsewhere = {"max_live_boxes", "box_wait_secs", "max_input_files_per_request", "max_input_bytes_per_request"}
    known = {field.name for field in fields(Features().containers)} - elsewhere
    # The directory is a key of [storage], the admission are the first two and one of [features.quotas]; the others are the inputs'.
    assert known == {field.name for field in fields(ContainerSettings)} - {"directory", "admission"}
