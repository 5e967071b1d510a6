"""What the runtime `docker` makes of the engine's containers: what a command may do there, who finds it again, and what is left."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import limpet
from limpet.core.command import Command, Exited, Lost, Script
from limpet.core.errors import BootFailed, RuntimeUnavailable, SandboxGone
from limpet.core.ports import Limits, SandboxRef, SandboxSpec, TimeToLive, Walls
from limpet.testing.lab import finished
from tests.runtimes.docker.conftest import (
    HOSTILE,
    IMAGE,
    WITHOUT_BASH,
    DockerEngine,
    make_hostile_image,
    make_image_without_bash,
)
from tests.support.doors import upstream
from tests.workspace.test_network import GOOD, curl, reaching

pytestmark = pytest.mark.anyio


@pytest.fixture
def engine(each_engine: DockerEngine) -> DockerEngine:
    return each_engine


OWNER = """
import json, sys, anyio
from dataclasses import asdict
from pathlib import Path
from limpet.core.command import Command, Script
from limpet.core.ports import SandboxSpec, TimeToLive, WhileOwned
from limpet.runtimes.docker.runtime import DockerRuntime
from limpet.runtimes.docker.settings import DockerSettings

async def main():
    home, address, image, lifetime, script = sys.argv[1:]
    async with DockerRuntime(DockerSettings(home=Path(home), address=address, image=Path(image))) as runtime:
        lasting = TimeToLive(60) if lifetime == "ttl" else WhileOwned()
        sandbox = await runtime.create(SandboxSpec(name="kept", lifetime=lasting))
        await sandbox.start(Command(what=Script(script)), "first")
        print(json.dumps(asdict(sandbox.ref)), flush=True)
        await anyio.sleep_forever()

anyio.run(main)
"""


@asynccontextmanager
async def sandbox_of(engine: DockerEngine, home: Path, **spec: Any) -> AsyncIterator[Any]:
    async with engine.runtime(home) as runtime:
        yield await runtime.create(SandboxSpec(name="one", **spec))


async def said(sandbox: Any, script: str) -> str:
    """What a script prints, without spaces around it."""
    ran = await finished(await sandbox.start(Command(what=Script(script)), script[:60]))
    return str((ran.stdout + ran.stderr).decode().strip())


def of_home(engine: DockerEngine) -> list[str]:
    """The names of all containers of the engine."""
    api = engine.api()
    try:
        return [row["Names"][0] for row in api.containers(all=True)]
    finally:
        api.close()


async def test_a_command_has_no_power_over_the_engine_its_agent_or_the_image(engine: DockerEngine, home: Path) -> None:
    async with sandbox_of(engine, home) as sandbox:
        status = await said(
            sandbox, "grep -E 'CapEff|CapPrm|CapAmb|NoNewPrivs|Seccomp:' /proc/self/status | tr -d '\\t'"
        )
        assert status.split() == ["CapPrm:0000000000000000", "CapEff:0000000000000000", "CapAmb:0000000000000000",
                                  "NoNewPrivs:1", "Seccomp:2"]  # fmt: skip
        assert "Permission denied" in await said(sandbox, "ls /run/limpet/agent")
        assert "Read-only file system" in await said(sandbox, "touch /usr/mine")
        assert await said(sandbox, "ls /sys/class/net") == "lo"
        assert "No such file" in await said(sandbox, "ls /var/run/docker.sock /run/docker.sock | grep sock")
        assert "still" in await said(sandbox, "kill -9 1; kill -STOP 1; echo still")


async def test_the_image_and_the_spec_say_what_commands_find(engine: DockerEngine, home: Path) -> None:
    async with sandbox_of(engine, home, env={"GREETING": "spec", "OWN": "1"}) as sandbox:
        assert await said(sandbox, "echo $GREETING $OWN; cat /etc/issue; whoami; pwd; cat /etc/resolv.conf") == (
            "spec 1\nof the image\nagent\n/mnt/data"
        )
        assert (await said(sandbox, "echo $PATH")).startswith("/opt/bin:/usr/bin:/bin:")


async def test_limits_are_the_containers(engine: DockerEngine, home: Path) -> None:
    limits = Limits(memory=64 << 20, processes=32, cpus=0.5)
    async with sandbox_of(engine, home, limits=limits) as sandbox:
        hungry = await sandbox.start(Command(what=Script("tail /dev/zero; exit 9")), "hungry")
        await hungry.wait()
        assert any("memory limit of 64 MiB" in note for note in hungry.notes())
        forks = await said(sandbox, "for i in $(seq 60); do sleep 5 & done; echo; kill $(jobs -p)")
        assert "Resource temporarily unavailable" in forks
        assert await said(sandbox, "echo alive") == "alive"


async def test_a_read_only_wall_leaves_nothing_to_write(engine: DockerEngine, home: Path) -> None:
    async with sandbox_of(engine, home, walls=Walls(is_read_only=True)) as sandbox:
        places = "/mnt/data /home/agent /tmp /var /dev/shm /dev/mqueue /run / /dev"
        script = f"for at in {places}; do (echo x > $at/mine) 2> /dev/null && echo $at; done; echo no"
        assert await said(sandbox, script) == "no"


@pytest.mark.parametrize("proxied", [True, False], ids=["by proxy", "transparently"])
async def test_a_door_lets_through_what_was_allowed(engine: DockerEngine, home: Path, proxied: bool) -> None:
    with upstream(GOOD) as up:
        async with (
            engine.runtime(home) as runtime,
            limpet.open_workspace(runtime=runtime, network=reaching(up, GOOD)) as box,
        ):
            good = await box.run(curl(up, f"https://{GOOD}:{up.port}/a", proxied=proxied))
            bad = await box.run("curl -sS --max-time 5 https://evil.example/ https://1.1.1.1/")
    assert (good.stdout, good.exit_code) == (b"hello", 0), good.stderr
    assert bad.exit_code != 0
    assert up.names == [GOOD]


async def _kept_by_another(engine: DockerEngine, home: Path, lifetime: str, script: str) -> Any:
    """The ref of a sandbox whose creator was killed."""
    words = [sys.executable, "-c", OWNER, str(home), engine.address, IMAGE, lifetime, script]
    owner = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    told = owner.stdout.readline()
    owner.send_signal(signal.SIGKILL)
    owner.wait()
    owner.stdout.close()
    return SandboxRef(**json.loads(told))


async def test_another_process_goes_on_where_a_killed_one_was(engine: DockerEngine, home: Path) -> None:
    ref = await _kept_by_another(engine, home, "ttl", "echo begun; while [ ! -e go ]; do sleep 0.02; done; echo ended")
    async with engine.runtime(home) as runtime:
        sandbox = await runtime.attach(ref)
        process = await sandbox.find("first")
        assert process is not None
        again = await sandbox.start(Command(what=Script("echo twice")), "first")
        await sandbox.files.write("go", b"")
        assert (await finished(process)).stdout == b"begun\nended\n"
        assert (await finished(again)).stdout == b"begun\nended\n"
        await sandbox.destroy()
    assert of_home(engine) == []


async def test_a_sandbox_of_a_killed_owner_ends_and_is_swept(engine: DockerEngine, home: Path) -> None:
    ref = await _kept_by_another(engine, home, "owned", "sleep 300")
    async with engine.runtime(home) as runtime, engine.runtime(home / "other") as other:
        container = await _until_ended(engine, ref.facts["container"])
        with pytest.raises(SandboxGone):
            await runtime.attach(ref)
        assert await other.sweep(frozenset()) == []
        assert (len(await runtime.sweep(None, dry_run=True)), of_home(engine)) == (1, [container])
        assert len(await runtime.sweep(None)) == 1
    assert of_home(engine) == []
    assert list((home / "docker").iterdir()) == []


async def _until_ended(engine: DockerEngine, container: str) -> str:
    """Its name, once its first process has ended."""
    api = engine.api()
    try:
        api.wait(container, timeout=30)
        return str(api.inspect_container(container)["Name"])
    finally:
        api.close()


async def test_a_container_that_somebody_removes_is_lost_in_words(engine: DockerEngine, home: Path) -> None:
    async with sandbox_of(engine, home, lifetime=TimeToLive(60)) as sandbox:
        process = await sandbox.start(Command(what=Script("sleep 300")), "long")
        api = engine.api()
        api.remove_container(sandbox.ref.facts["container"], force=True)
        api.close()
        assert isinstance(await process.wait(), Lost)
        with pytest.raises(SandboxGone):
            await sandbox.touch()
    assert list((home / "docker").iterdir()) == []


async def test_an_image_that_cannot_be_had_leaves_nothing(engine: DockerEngine, home: Path) -> None:
    async with engine.runtime(home, image=Path("127.0.0.1:9/none:1")) as runtime:
        probe = await runtime.probe()
        assert (probe.works, probe.remedy) == (False, "docker pull 127.0.0.1:9/none:1")
        with pytest.raises(BootFailed, match=r"the image 127.0.0.1:9/none:1 could not be pulled"):
            await runtime.create(SandboxSpec(name="never"))
    assert (of_home(engine), list((home / "docker").iterdir())) == ([], [])


async def test_an_image_runs_nothing_beside_the_commands_and_has_no_disk_of_its_own(
    docker_engine: DockerEngine, home: Path
) -> None:
    make_hostile_image(docker_engine.address)
    api = docker_engine.api()
    async with docker_engine.runtime(home, image=Path(HOSTILE)) as runtime:
        sandbox = await runtime.create(SandboxSpec(name="one", lifetime=TimeToLive(60)))
        ran = await finished(await sandbox.start(Command(what=Script("echo $GREETING-$LD_PRELOAD$BASH_ENV")), "a"))
        assert (ran.stdout, ran.stderr) == (b"hello-\n", b"")
        assert "Read-only file system" in await said(sandbox, "echo x > /wide/mine")
        container = api.inspect_container(sandbox.ref.facts["container"])
        assert container["Config"]["Healthcheck"]["Test"] == ["NONE"]
        assert "Health" not in container["State"]
        assert [mount for mount in container["Mounts"] if mount["Type"] == "volume"] == []
        assert api.logs(container["Id"]) == b""  # the loader complains of what it was told to load and does not find
        assert len(await runtime.sweep(frozenset())) == 1
    api.close()
    assert of_home(docker_engine) == []


async def test_directories_that_belong_to_no_container_are_swept_once_they_are_old(
    docker_engine: DockerEngine, home: Path
) -> None:
    async with docker_engine.runtime(home) as runtime:
        left = home / "docker" / "0123456789abcdef"
        (left / "agent").mkdir(parents=True)
        assert await runtime.sweep(None) == []
        os.utime(left, (1, 1))
        assert (len(await runtime.sweep(None, dry_run=True)), left.exists()) == (1, True)
        assert (len(await runtime.sweep(None)), left.exists()) == (1, False)


async def test_an_image_without_bash_has_sh_and_a_path_is_no_image(docker_engine: DockerEngine, home: Path) -> None:
    make_image_without_bash(docker_engine.address)
    async with docker_engine.runtime(home, image=Path(WITHOUT_BASH)) as runtime:
        assert (await runtime.probe()).shell == "sh"
        sandbox = await runtime.create(SandboxSpec(name="one"))
        assert (sandbox.ref.shell, await said(sandbox, "echo $0; command -v bash || echo none")) == (
            "/bin/sh",
            "/bin/sh\nnone",
        )
    async with docker_engine.runtime(home, image=home) as runtime:
        probe = await runtime.probe()
        assert (probe.works, "is a path. docker load -i" in probe.detail) == (False, True)


@pytest.mark.parametrize(
    "address, why",
    [("unix:///nowhere/docker.sock", "no engine answers at"), ("tcp://192.0.2.1:2375", "is on another host")],
)
async def test_an_engine_that_is_not_there_is_named_with_what_mends_it(
    engine: DockerEngine, home: Path, address: str, why: str
) -> None:
    async with DockerEngine(address).runtime(home) as runtime:
        probe = await runtime.probe()
        assert (probe.works, why in probe.detail, probe.remedy != "") == (False, True, True)
        with pytest.raises(RuntimeUnavailable, match=why):
            await runtime.create(SandboxSpec(name="never"))
        assert await runtime.sweep(None) == []


async def test_a_sandbox_runs_what_it_is_given(engine: DockerEngine, home: Path) -> None:
    async with engine.runtime(home) as runtime:
        probe = await runtime.probe()
        assert (probe.works, IMAGE in probe.detail) == (True, True)
        sandbox = await runtime.create(SandboxSpec(name="one"))
        with pytest.raises(BootFailed, match="lives already"):
            await runtime.create(SandboxSpec(name="one"))
        assert (await finished(await sandbox.start(Command(what=Script("true")), "a"))).outcome == Exited(0)
        await sandbox.destroy()
