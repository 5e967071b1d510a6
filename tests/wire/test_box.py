"""The box as a model finds it: where it starts, what it may use, what it cannot reach."""

import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import openai
import pytest

from limpet.core.ports import Offer
from limpet.wiring import load_runtime
from tests.support.gateway import running
from tests.support.host import stored_ref
from tests.support.images import image_without_python
from tests.wire.asking import container_of, entries, printed, run
from tests.wire.conftest import RUNTIME

isolated = pytest.mark.skipif(
    Offer.ISOLATION not in load_runtime(RUNTIME).offers, reason=f"the runtime {RUNTIME} isolates nothing"
)


@isolated
@pytest.mark.promise("mnt-data-is-the-writable-workdir", "hadrian-commands-start-in-mnt-data")
def test_every_command_starts_in_mnt_data_and_may_write_there(client: openai.OpenAI) -> None:
    response = run(client, "pwd; mkdir -p deep && cd deep && touch here", "pwd; ls deep; echo $LIMPET_DATA")

    assert [entry.stdout for entry in entries(response)] == ["/mnt/data\n", "/mnt/data\nhere\n/mnt/data\n"]


@isolated
@pytest.mark.promise("box-has-no-network-by-default")
def test_nothing_of_the_network_can_be_reached(client: openai.OpenAI) -> None:
    asked = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), 3)"
    gateway_port = client.base_url.port
    commands = [
        f"python3 -c '{asked}' 192.0.2.1 80 2>&1 | tail -1",
        f"python3 -c '{asked}' 127.0.0.1 {gateway_port} 2>&1 | tail -1",
        f"python3 -c '{asked}' packages.example.com 443 2>&1 | tail -1",
        "tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '",
    ]

    raw, host, name, interfaces = (entry.stdout for entry in entries(run(client, *commands)))

    assert "Network is unreachable" in raw
    assert "Connection refused" in host
    assert "name resolution" in name or "Name or service not known" in name
    assert interfaces == "lo\n"


@pytest.mark.promise("command-returns-when-its-own-shell-ends")
def test_a_command_returns_when_its_shell_ends_though_it_left_something_running(client: openai.OpenAI) -> None:
    before = time.monotonic()
    response = run(client, "sleep 60 & echo left $!")

    assert printed(response).startswith("left ")
    assert time.monotonic() - before < 30
    pid = printed(response).split()[1]
    assert (
        printed(run(client, f"kill -0 {pid} && echo lives; kill {pid}", container=container_of(response))) == "lives\n"
    )


@pytest.mark.promise("hadrian-plain-linux-host-is-enough")
def test_the_default_runtime_needs_neither_root_nor_an_engine(client: openai.OpenAI) -> None:
    """The session's gateway is the program with its defaults; here without any container engine that could have helped."""
    if RUNTIME != "bubblewrap":
        pytest.skip("asks about the default runtime")
    seen = printed(
        run(client, "id -u; readlink /proc/1/exe; ls /var/run/docker.sock /dev/kvm 2>&1 | grep -c 'No such file'")
    )

    assert seen.splitlines()[0] == "1000"
    assert seen.splitlines()[-1] == "2"


@pytest.mark.promise("bubblewrap-takes-image-cpus-and-memory")
def test_image_cpus_and_memory_are_the_operators(tmp_path: Path) -> None:
    if RUNTIME != "bubblewrap" or os.geteuid() != 0 or not Path("/sys/fs/cgroup/memory").is_dir():
        pytest.skip("asks about the bubblewrap of root, who may make cgroups, and reads those of version 1")
    with tempfile.TemporaryDirectory(prefix="limpet-test-") as apart:
        Path(apart).chmod(0o755)
        image = image_without_python(Path(apart) / "image")
        shell = f'[features.shell]\ntype = "bubblewrap"\nimage = "{image}"\ncpus = 0.5\nmemory_mb = 64\n'
        with running(tmp_path, config=shell) as gateway:
            hog = "x=$(printf %0100000000d 0); echo ${#x}"
            response = run(gateway.client(), "cat /etc/issue; ls /usr/bin", hog, "echo alive")
            ref = stored_ref(gateway.home / "limpet.db", container_of(response))
            bounds = dict(bounds_of(ref["facts"]["pid"]))

    of_image, hogging, after = entries(response)
    assert of_image.stdout == "of the image\nbash\ncat\nls\n"
    assert hogging.outcome.exit_code != 0
    assert after.stdout == "alive\n"
    assert bounds == {"memory": 64 << 20, "cpu": 0.5}


def bounds_of(pid: int) -> Iterator[tuple[str, float]]:
    """What the kernel holds the cgroups (version 1) of a process to: bytes of memory and cores."""
    for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
        _, names, path = line.split(":", 2)
        for name in names.split(","):
            group = Path(f"/sys/fs/cgroup/{name}{path}")
            if name == "memory":
                yield "memory", int((group / "memory.limit_in_bytes").read_text())
            elif name == "cpu":
                quota, period = (int((group / f"cpu.cfs_{part}_us").read_text()) for part in ("quota", "period"))
                yield "cpu", quota / period


@pytest.mark.promise("local-runtime-names-its-data-directory")
def test_local_names_the_directory_that_stands_for_mnt_data(tmp_path: Path) -> None:
    with running(tmp_path, runtime="local") as gateway:
        response = run(gateway.client(), 'pwd; [ "$PWD" = "$LIMPET_DATA" ] && touch "$LIMPET_DATA/there" && ls')

    place, listing = printed(response).splitlines()
    assert place.endswith(f"boxes/{container_of(response)}/data")
    assert listing == "there"
