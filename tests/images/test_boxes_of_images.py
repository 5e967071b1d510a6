"""Boxes whose programs are an image's: what they need of it (a shell), and what an image cannot bring about."""

import os
import re
from pathlib import Path

import pytest

from limpet.core.command import Exited
from limpet.core.errors import BadCommand, BootFailed, CommandDenied
from limpet.core.ports import SandboxSpec, Walls
from limpet.guard.policy.policy import Policy
from limpet.runtimes.bubblewrap import BubblewrapRuntime
from limpet.tools import BashTool, RunTool
from limpet.workspace.opening import SandboxOptions, WorkspaceOptions, open_in
from tests.runtimes.bubblewrap.boxes import box_of, remains, run
from tests.support.images import image_of_busybox, image_without_bash, image_without_python
from tests.support.users import again_as_an_ordinary_user

pytestmark = pytest.mark.anyio


async def test_where_there_is_no_bash_sh_runs_commands_and_models_are_told(
    runtime: BubblewrapRuntime, home: Path
) -> None:
    opening = SandboxOptions(image=image_without_bash(home / "image"))
    async with open_in(runtime, "box", opening) as box:
        results = [
            await box.run(script) for script in ("echo $0 $SHELL", "exit 3", "kill -9 $$", "echo still; ls /bin/sh")
        ]
        with pytest.raises(BadCommand, match="too long"):
            await box.run("#" * 200_000)
        async with BashTool(box) as bash:
            moved = await bash.call({"command": "cd /tmp && echo $((1 + 1))"})
            there = await bash.call({"command": "pwd"})
            told = bash.description
        described = RunTool(box, "box").description

    assert [one.exit_code for one in results] == [0, 3, 137, 0]
    assert (results[0].stdout, results[3].stdout) == (b"/bin/sh /bin/sh\n", b"still\n/bin/sh\n")
    assert (moved["stdout"], moved["next_cwd"], there["stdout"]) == ("2\n", "/tmp", "/tmp\n")
    assert "in sh (POSIX; there is no bash)" in told
    assert "POSIX sh; there is no bash" in described


async def test_an_image_of_one_static_program_is_a_box(runtime: BubblewrapRuntime, home: Path) -> None:
    async with box_of(runtime, image=image_of_busybox(home / "image")) as box:
        outcome, stdout, stderr = await run(
            box, "cat /etc/os-release; id -un; echo x > f; cat f; ls /usr /lib 2>&1 | head -1"
        )

    assert (outcome, stderr) == (Exited(0), "")
    assert stdout.startswith("ID=alpine\nagent\nx\n")


async def test_a_policy_judges_no_script_that_the_boxs_shell_reads_otherwise(
    runtime: BubblewrapRuntime, home: Path
) -> None:
    opening = SandboxOptions(image=image_without_bash(home / "image"))
    async with open_in(runtime, "box", opening, rules=WorkspaceOptions(policy=Policy(allowed_paths=()))) as box:
        for script in ("((a | ls /))", "[[ x && ls ]]", "echo $'a\\'; ls / #'", "echo $[ a & ls & b ]"):
            with pytest.raises(CommandDenied, match="POSIX"):
                await box.run(script)
        assert (await box.run("echo $((1+1))")).stdout == b"2\n"


async def test_authorities_of_an_image_that_are_larger_than_such_are_left_out(
    runtime: BubblewrapRuntime, home: Path
) -> None:
    image = image_without_bash(home / "image")
    for name, size in (("ssl/certs/ca-certificates.crt", (8 << 20) + 1), ("ssl/cert.pem", 8 << 20)):
        (image / "etc" / name).parent.mkdir(parents=True, exist_ok=True)
        (image / "etc" / name).touch()
        os.truncate(image / "etc" / name, size)
    async with box_of(runtime, image=image) as box:
        _, stdout, _ = await run(box, "ls -n /etc/ssl/certs/ca-certificates.crt")

    assert stdout.split()[4] == str(8 << 20)


async def test_walls_that_the_shell_of_an_image_holds_itself_are_refused(
    runtime: BubblewrapRuntime, home: Path
) -> None:
    image = image_of_busybox(home / "image")
    for walls in (Walls(hidden=frozenset({"rm"})), Walls(programs=frozenset({"ls"}))):
        with pytest.raises(BootFailed, match="/bin/busybox, holds other programs"):
            await runtime.create(SandboxSpec(name="never", image=image, walls=walls))
    assert remains(home, "never") == []


@pytest.mark.parametrize(
    "broken, words",
    [("nothing", "No such file"), ("empty", "neither /bin/bash nor /bin/sh"), ("a file", "no tar that can be read")],
)
async def test_what_is_no_root_is_refused_in_words(
    runtime: BubblewrapRuntime, home: Path, broken: str, words: str
) -> None:
    place = home / "image"
    if broken == "empty":
        place.mkdir()
    elif broken == "a file":
        place.write_text("x")
    with pytest.raises(BootFailed, match=words):
        await runtime.create(SandboxSpec(name="never", image=place))
    assert remains(home, "never") == []


@pytest.mark.parametrize("where", ["etc", "certificates", "top", "shell"])
async def test_no_link_of_an_image_leads_to_a_file_of_the_host(
    runtime: BubblewrapRuntime, home: Path, where: str
) -> None:
    (home / "secret").mkdir()
    (home / "secret/passwd-of-the-host").write_text("canary-7f3a")
    (home / "secret").chmod(0o755)
    image = image_without_python(home / "image")
    if where == "etc":
        for file in (image / "etc").iterdir():
            file.unlink()
        (image / "etc").rmdir()
        (image / "etc").symlink_to(home / "secret")
    elif where == "certificates":
        (image / "etc/ssl/certs").mkdir(parents=True)
        (image / "etc/ssl/certs/ca-certificates.crt").symlink_to(home / "secret/passwd-of-the-host")
    elif where == "top":
        (image / "srv").symlink_to(home / "secret")
    else:
        (image / "usr/bin/sh").symlink_to("../../../../../../../../bin/sh")

    async with box_of(runtime, image=image) as box:
        _, stdout, _ = await run(box, "cat /etc/* /etc/ssl/certs/* /srv/* /run/limpet/etc/* 2>&1; ls /srv")

    assert "canary" not in stdout


async def test_what_an_image_says_to_the_loader_and_of_accounts_is_left_out(
    runtime: BubblewrapRuntime, home: Path
) -> None:
    image = image_without_python(home / "image")
    (image / "etc/ld.so.preload").write_text("/usr/lib/evil.so\n")
    (image / "etc/shadow").write_text("root::1::::::\n")
    (image / "etc/sudoers").write_text("ALL ALL=(ALL) NOPASSWD: ALL\n")
    async with box_of(runtime, image=image) as box:
        outcome, stdout, stderr = await run(box, "ls /etc/ld.so.preload /etc/shadow /etc/sudoers 2>/dev/null; echo ran")

    assert (outcome, stdout, stderr) == (Exited(0), "ran\n", "")


async def test_nothing_of_an_image_runs_before_a_command_not_even_its_python(
    runtime: BubblewrapRuntime, home: Path
) -> None:
    image = image_without_python(home / "image")
    python = image / "usr/bin/python3"
    python.write_text("#!/bin/bash\necho taken > /tmp/taken\nexit 1\n")
    python.chmod(0o755)
    async with box_of(runtime, image=image) as box:
        _, stdout, _ = await run(box, "ls /tmp; cat /proc/1/cmdline; echo; python3; ls /tmp")

    assert re.fullmatch(r"/run/limpet/host/lib/ld-linux[^\n]*\ntaken\n", stdout), stdout


async def test_of_the_host_a_box_of_an_image_sees_the_agents_python_alone(
    runtime: BubblewrapRuntime, home: Path
) -> None:
    async with box_of(runtime, image=image_without_python(home / "image")) as box:
        _, stdout, _ = await run(box, "ls /run/limpet/host /run/limpet/host/bin; ls /run/limpet/host/lib | cat")

    names = stdout.split()
    assert names[:3] == ["/run/limpet/host:", "bin", "lib"]
    assert all(
        name.startswith(("lib", "ld-", "python3", "/run/limpet/host")) or ".so" in name
        for name in names[1:]
        if name != "bin"
    )


async def test_set_uid_bits_and_devices_of_an_image_count_for_nothing(runtime: BubblewrapRuntime, home: Path) -> None:
    image = image_without_python(home / "image")
    (image / "usr/bin/cat").chmod(0o4755)
    if os.geteuid() == 0:
        os.mknod(image / "opt/null", 0o020666, os.makedev(1, 3))
    async with box_of(runtime, image=image) as box:
        _, stdout, _ = await run(
            box,
            "cat /proc/self/status | while read a b c d; do case $a in Uid:|NoNewPrivs:) echo $a $b $c;; esac; done;"
            " cat /opt/null && echo opened; for p in /usr /opt; do echo x > $p/written; done 2>/dev/null; ls /usr /opt",
        )

    assert "Uid: 1000 1000\nNoNewPrivs: 1" in stdout
    assert "opened" not in stdout
    assert "written" not in stdout


def test_they_are_the_same_for_an_ordinary_user() -> None:
    again_as_an_ordinary_user(__file__)
