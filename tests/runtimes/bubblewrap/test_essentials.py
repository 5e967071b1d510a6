"""What every box guarantees, as root and as an ordinary user. `test_users.py` runs this file once more as an ordinary user."""

import os
import signal
import time
from collections.abc import AsyncGenerator, Callable
from pathlib import Path

import anyio
import pytest

from limpet.core.command import Aborted, Exited, Lost, Position, TimedOut
from limpet.core.errors import SandboxClosed, SandboxGone
from limpet.core.ports import SandboxSpec, TimeToLive, WhileOwned
from limpet.runtimes.bubblewrap import BubblewrapRuntime
from tests.runtimes.bubblewrap.boxes import (
    a_creator,
    begin,
    box_of,
    collect,
    eventually,
    is_gone,
    remains,
    run,
    text,
)

pytestmark = pytest.mark.anyio

_SLEEPERS = "ps ax -o args= | grep '^sleep 98'; true"


def _sleepers(count: int) -> str:
    """As soon as there are so many: a command that started one may be over before it runs."""
    return f"until [ $(ps ax -o args= | grep -c '^sleep 98') -ge {count} ]; do sleep 0.02; done; {_SLEEPERS}"


async def test_a_box_says_what_system_it_is(runtime: BubblewrapRuntime) -> None:
    async with box_of(runtime) as box:
        assert (await run(box, "cat /etc/os-release"))[1] == Path("/etc/os-release").read_text()


async def test_files_and_detached_processes_stay_between_commands(runtime: BubblewrapRuntime) -> None:
    async with box_of(runtime) as box:
        await run(box, "echo kept > f; setsid sleep 9811 > /dev/null 2>&1 &")

        assert await run(box, f"cat f; {_sleepers(1)}") == (Exited(0), "kept\nsleep 9811\n", "")
        assert await box.files.read("f") == b"kept\n"


async def test_output_comes_with_offsets_and_may_be_read_again_from_any(runtime: BubblewrapRuntime) -> None:
    async with box_of(runtime) as box:
        process = await begin(box, "for i in $(seq 50000); do echo $i; done; echo end >&2")
        whole = await collect(process)
        again = await collect(process, Position(stdout=100_000, stderr=2))

        assert text(whole) == "".join(f"{number}\n" for number in range(1, 50001))
        assert text(again) == text(whole)[100_000:]
        assert text(again, "stderr") == "d\n"
        assert next(chunk.offset for chunk in again if chunk.stream == "stdout") == 100_000


async def test_a_reader_that_stops_reading_holds_up_nobody_else(runtime: BubblewrapRuntime) -> None:
    async with box_of(runtime) as box:
        flood = await begin(box, "yes")
        reader = flood.output()
        assert isinstance(reader, AsyncGenerator)
        await anext(reader)

        assert await run(box, "echo quick") == (Exited(0), "quick\n", "")

        await flood.abort()
        await reader.aclose()
        assert await flood.wait() == Aborted()


@pytest.mark.parametrize(
    "script",
    [
        "sleep 9801 & sleep 9802",
        "setsid sleep 9803 & setsid -f sleep 9804; sleep 9805",
        "(setsid bash -c 'trap \"\" TERM HUP INT; (setsid sleep 9806 &) ; sleep 9807' &); sleep 9808",
        "for i in 1 2 3 4 5 6 7 8; do (while :; do setsid sleep 9809 & sleep 0.001; done) & done; wait",
    ],
    ids=["children", "sessions", "orphans", "forking on"],
)
async def test_a_timeout_leaves_nothing_of_the_tree_and_keeps_the_output(
    runtime: BubblewrapRuntime, script: str
) -> None:
    async with box_of(runtime) as box:
        outcome, stdout, _ = await run(box, f"echo before; {script}", timeout=0.5)
        left = await run(box, _SLEEPERS)

    assert (outcome, stdout) == (TimedOut(), "before\n")
    assert left == (Exited(0), "", "")


async def test_an_abort_spares_what_other_commands_run(runtime: BubblewrapRuntime) -> None:
    async with box_of(runtime) as box:
        await run(box, "setsid sleep 9821 > /dev/null 2>&1 &")
        other = await begin(box, "sleep 9822")
        victim = await begin(box, "setsid sleep 9823 & sleep 9824")

        await victim.abort()

        assert (await run(box, _sleepers(2)))[1] == "sleep 9821\nsleep 9822\n"
        assert await victim.wait() == Aborted()
        await other.abort()


async def test_a_command_ends_a_tenth_of_a_second_after_its_shell_when_something_holds_its_pipes(
    runtime: BubblewrapRuntime,
) -> None:
    async with box_of(runtime) as box:
        began = time.monotonic()
        process = await begin(box, "(until [ -e go ]; do sleep 0.01; done; echo late; touch said) & echo first")
        early = await collect(process)
        took = time.monotonic() - began
        await box.files.write("go", b"")

        async def said() -> bool:
            return "/mnt/data/said" in [entry.path for entry in await box.files.list()]

        await eventually(said)
        assert (text(early), await process.wait()) == ("first\n", Exited(0))
        assert 0.09 < took < 2
        assert text(await collect(process)) == "first\nlate\n"


async def test_what_a_forgotten_command_left_may_go_on_writing(runtime: BubblewrapRuntime) -> None:
    async with box_of(runtime) as box:
        process = await begin(box, "(until [ -e go ]; do sleep 0.01; done; seq 100000; touch survived) &")
        await process.wait()
        await process.forget()
        await box.files.write("go", b"")

        async def survived() -> bool:
            return "/mnt/data/survived" in [entry.path for entry in await box.files.list()]

        await eventually(survived)
        assert await box.find(process.exec_id) is None


async def test_after_sigkill_of_its_creator_another_process_finds_the_command_and_its_whole_output(
    runtime: BubblewrapRuntime, home: Path
) -> None:
    script = "for i in $(seq 20000); do echo $i; done; until [ -e go ]; do sleep 0.01; done; echo end"
    async with a_creator(home, "orphan", ttl=60, script=script) as (ref, pid):
        os.kill(pid, signal.SIGKILL)
        await eventually(lambda: is_gone(pid))

    box = await runtime.attach(ref)
    process = await box.find("the-command")
    assert process is not None
    await box.files.write("go", b"")

    assert text(await collect(process)) == "".join(f"{number}\n" for number in range(1, 20001)) + "end\n"
    assert await process.wait() == Exited(0)
    await box.destroy()
    assert remains(home, "orphan") == []


async def test_a_box_that_is_owned_ends_with_its_creator_even_by_sigkill(
    runtime: BubblewrapRuntime, home: Path
) -> None:
    async with a_creator(home, "owned", ttl=None, script="sleep 9831") as (ref, pid):
        os.kill(pid, signal.SIGKILL)

    await eventually(lambda: is_gone(ref.facts["pid"]))
    with pytest.raises(SandboxGone):
        await runtime.attach(ref)
    assert len(await runtime.sweep(frozenset())) == 1
    assert remains(home, "owned") == []


async def test_a_box_ends_when_nobody_has_spoken_to_it_but_not_under_a_command(
    runtime: BubblewrapRuntime, home: Path
) -> None:
    async with box_of(runtime, lifetime=TimeToLive(0.3)) as box:
        busy = await begin(box, "sleep 1; echo done")

        assert await busy.wait() == Exited(0)
        await eventually(lambda: is_gone(box.ref.facts["pid"]))
        with pytest.raises(SandboxGone):
            await box.touch()

        async def is_cleared() -> bool:
            return not remains(home, box.ref.name)

        await eventually(is_cleared)


async def test_another_boot_is_not_the_same_box(runtime: BubblewrapRuntime) -> None:
    first = await runtime.create(SandboxSpec(name="again"))
    await first.destroy()
    second = await runtime.create(SandboxSpec(name="again"))

    with pytest.raises(SandboxGone):
        await runtime.attach(first.ref)
    with pytest.raises(SandboxClosed):
        await first.touch()
    assert first.boot_id != second.boot_id
    await second.destroy()


async def test_killing_everything_inside_leaves_the_box_alive(runtime: BubblewrapRuntime) -> None:
    async with box_of(runtime) as box:
        await run(box, "kill -9 -1; kill -9 1; kill -9 $$")

        assert await run(box, "echo alive") == (Exited(0), "alive\n", "")


async def test_the_agent_cannot_be_looked_into(runtime: BubblewrapRuntime) -> None:
    async with box_of(runtime) as box:
        _, stdout, _ = await run(
            box,
            "for f in fd fd/0 environ mem maps root cwd; do"
            " ls /proc/1/$f/ > /dev/null 2>&1 && echo $f; cat /proc/1/$f 2> /dev/null | head -c 1; done;"
            " ls -l /proc/$$/fd | grep -E 'socket|memfd|spool|limpet'; true",
        )

    assert stdout == ""


async def test_the_host_is_out_of_reach(
    runtime: BubblewrapRuntime, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LIMPET_TEST_CANARY", "of-the-host")
    async with box_of(runtime) as box:
        found = {
            name: (await run(box, script))[1]
            for name, script in {
                "variables": "env | grep -i -E 'canary|of-the-host'",
                "accounts": "cut -d: -f1 /etc/passwd",
                "shadow": "cat /etc/shadow /etc/machine-id",
                "files": f"ls -d {home} /root /work /srv /boot /sys/kernel /sys/class /var/lib",
                "processes": "p=(/proc/[0-9]*); echo ${#p[@]}",
                "interfaces": "tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '",
                "network": "echo x > /dev/tcp/192.0.2.1/80 && echo reached; echo x > /dev/udp/192.0.2.1/53 && echo sent",
                "writing": "touch /x /usr/x /etc/x /dev/x /proc/sys/kernel/hostname && echo written",
                "powers": "grep -E '^(CapEff|CapBnd|NoNewPrivs|Seccomp):' /proc/self/status | tr -d '\\t '",
                "namespaces": "unshare -Ur true && echo unshared; mount -t tmpfs t /tmp && echo mounted",
            }.items()
        }

    assert found == {
        "variables": "",
        "accounts": "root\nagent\nnobody\n",
        "shadow": "",
        "files": "",
        "processes": "2\n",
        "interfaces": "lo\n",
        "network": "",
        "writing": "",
        "powers": "CapEff:0000000000000000\nCapBnd:0000000000000000\nNoNewPrivs:1\nSeccomp:2\n",
        "namespaces": "",
    }


async def test_the_place_is_the_promised_one(runtime: BubblewrapRuntime) -> None:
    async with box_of(runtime, env={"ADDED": "yes"}) as box:
        stdout = (
            await run(box, "pwd; id -un; echo $HOME $LANG $LIMPET_DATA $ADDED; touch /tmp/f ~/f /dev/shm/f; ls ~")
        )[1]
        tmp = (await run(box, "stat -f -c %T /tmp; stat -c %s $SSL_CERT_FILE"))[1].split()

    assert stdout == "/mnt/data\nagent\n/home/agent C.UTF-8 /mnt/data yes\nf\n"
    assert tmp[0] != "tmpfs"
    assert int(tmp[1]) > 1000 or not Path("/etc/ssl/certs/ca-certificates.crt").exists()


def _destroy(pid: int) -> None:
    """The box ends by its owner's word."""


def _kill_agent(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("how", [_destroy, _kill_agent])
async def test_nothing_is_left_of_a_box_but_its_directory(
    runtime: BubblewrapRuntime, home: Path, how: Callable[[int], None]
) -> None:
    lasting = home / "lasting"
    box = await runtime.create(SandboxSpec(name="short", directory=lasting))
    process = await begin(box, "setsid sleep 9841 & echo x > f; sleep 9842")
    assert remains(home, "short") != []

    how(box.ref.facts["pid"])
    await box.destroy()
    await box.destroy()

    assert remains(home, "short") == []
    assert isinstance(await process.wait(), Lost)
    assert sorted(entry.name for entry in lasting.iterdir()) == ["data", "home"]


async def test_a_creation_that_is_cancelled_leaves_nothing(runtime: BubblewrapRuntime, home: Path) -> None:
    for delay in (0.0, 0.005, 0.02, 0.04):
        with anyio.move_on_after(delay):
            await (await runtime.create(SandboxSpec(name="never"))).destroy()
        assert remains(home, "never") == []


async def test_sweeping_ends_what_nobody_knows_and_spares_the_rest(runtime: BubblewrapRuntime, home: Path) -> None:
    async with a_creator(home, "unknown", ttl=60, script="sleep 9851") as (unknown, pid):
        os.kill(pid, signal.SIGKILL)
    async with box_of(runtime, lifetime=WhileOwned()) as known:
        cleared = await runtime.sweep(frozenset({known.ref.name}))

        assert len(cleared) == 1
        assert await is_gone(unknown.facts["pid"])
        assert remains(home, "unknown") == []
        assert await run(known, "echo spared") == (Exited(0), "spared\n", "")
