"""The kernel's side of a box: what its filter refuses, who starves first, and what a hostile command cannot break."""

import os
import re
from pathlib import Path

import pytest

from limpet.core.command import Argv, Command, Exited, Position, Script
from limpet.core.errors import SandboxGone
from limpet.core.ports import Limits
from limpet.runtimes.agent.process import CAP
from limpet.runtimes.bubblewrap import BubblewrapRuntime
from tests.runtimes.bubblewrap.boxes import begin, box_of, collect, run, text

pytestmark = pytest.mark.anyio

_CAP_SYS_RESOURCE = 24


def _may(capability: int) -> bool:
    found = re.search(r"CapEff:\s*(\w+)", Path("/proc/self/status").read_text())
    return found is not None and bool(int(found[1], 16) & 1 << capability)


# Each line: the name of the error that the kernel gives, for calls by their numbers on x86-64.
_CALLS = """
import ctypes, errno, socket, fcntl
libc = ctypes.CDLL(None, use_errno=True)
def call(name, *numbers):
    result = libc.syscall(*[ctypes.c_long(number) for number in numbers])
    print(name, "done" if result >= 0 else errno.errorcode[ctypes.get_errno()])
call("mount", 165, 0, 0, 0, 0, 0)
call("unshare", 272, 0x10000000)
call("setns", 308, 0, 0)
call("clone into a user namespace", 56, 0x10000000 | 17, 0, 0, 0, 0)
call("clone3", 435, 0, 0)
call("bpf", 321, 0, 0, 0)
call("io_uring_setup", 425, 1, 0)
call("keyctl", 250, 0, 0, 0, 0, 0)
call("userfaultfd", 323, 0)
call("open_by_handle_at", 304, 0, 0, 0)
call("getppid", 110)
for family in (socket.AF_PACKET, 40, 38, 16):
    try:
        socket.socket(family, socket.SOCK_RAW)
        print(family, "made")
    except OSError as error:
        print(int(family), errno.errorcode[error.errno])
try:
    fcntl.ioctl(0, 0x5412, b"x")
except OSError as error:
    print("typing", errno.errorcode[error.errno])
"""


async def test_the_filter_refuses_what_no_command_needs(runtime: BubblewrapRuntime) -> None:
    async with box_of(runtime) as box:
        if "x86_64" not in (await run(box, "uname -m"))[1]:
            pytest.skip("the numbers of the calls are those of x86-64")
        await box.files.write("calls.py", _CALLS.encode())

        assert (await run(box, "python3 calls.py"))[1].splitlines() == [
            "mount EPERM",
            "unshare EPERM",
            "setns EPERM",
            "clone into a user namespace EPERM",
            "clone3 ENOSYS",
            "bpf EPERM",
            "io_uring_setup EPERM",
            "keyctl EPERM",
            "userfaultfd EPERM",
            "open_by_handle_at EPERM",
            "getppid done",
            "17 EAFNOSUPPORT",
            "40 EAFNOSUPPORT",
            "38 EAFNOSUPPORT",
            "16 made",
            "typing EPERM",
        ]


async def test_a_call_by_another_architectures_numbers_ends_the_process(runtime: BubblewrapRuntime) -> None:
    async with box_of(runtime) as box:
        if "x86_64" not in (await run(box, "uname -m"))[1]:
            pytest.skip("x32 is an architecture of x86-64 only")
        outcome, _, _ = await run(box, "exec python3 -c 'import ctypes; ctypes.CDLL(None).syscall(0x40000027)'")

    assert outcome == Exited(128 + 31)  # SIGSYS


_SCORES = ("cat", "/proc/self/oom_score_adj", "/proc/1/oom_score_adj")


@pytest.mark.parametrize("what", [Argv(_SCORES), Script(" ".join(_SCORES))], ids=["program", "script"])
async def test_commands_starve_before_the_agent_from_their_first_instruction_on(
    runtime: BubblewrapRuntime, what: Argv | Script
) -> None:
    async with box_of(runtime) as box:
        process = await box.start(Command(what=what), "scores")
        own, agents = text(await collect(process)).split()

    assert int(own) == 500 > int(agents)


@pytest.mark.skipif(
    os.geteuid() != 0 or not _may(_CAP_SYS_RESOURCE), reason="only root with CAP_SYS_RESOURCE can make a score binding"
)
async def test_no_command_can_make_the_kernel_choose_the_agent_when_memory_runs_out(
    runtime: BubblewrapRuntime,
) -> None:
    """Many small processes, each as unlikely to be chosen as it can make itself."""
    small = "echo 0 > /proc/self/oom_score_adj; printf -v x %4000000s x; sleep 30"
    async with box_of(runtime, limits=Limits(memory=64 << 20)) as box:
        lowered = await run(
            box, "echo 0 > /proc/self/oom_score_adj || cat /proc/self/oom_score_adj /proc/1/oom_score_adj"
        )
        waiting = await run(box, "echo 499 > /proc/self/oom_score_adj || cat /proc/self/oom_score_adj")
        await run(box, f"for i in {{1..20}}; do ({small}) & done; sleep 2; exec kill -9 -1", timeout=8)
        after = await run(box, "echo alive")

    assert (lowered[1], waiting[1], after[:2]) == ("500\n0\n", "500\n", (Exited(0), "alive\n"))


@pytest.mark.parametrize(
    "script",
    [
        "exit 7",
        "kill -9 $$",
        "exec sleep 0.01",
        "exec 0<&- 1>&- 2>&-; sleep 0.2",
        "exec 3>&1; for i in $(seq 200); do sleep 0.5 & done; kill -STOP $$ & sleep 0.1; kill -9 $$",
        "ulimit -n 3; ulimit -u 1; cat /dev/zero | head -c 100000000",
        "mkdir -p ~/x; rm -rf /mnt/data /home/agent /tmp /var /usr 2> /dev/null; chmod 000 /tmp ~ /mnt/data",
        "set -e; false; echo no",
        "trap '' TERM INT HUP; suspend",
    ],
)
async def test_whatever_a_command_does_the_next_one_works(runtime: BubblewrapRuntime, script: str) -> None:
    async with box_of(runtime) as box:
        process = await begin(box, script, timeout=3)
        await collect(process)
        await process.wait()

        assert await run(box, "echo works", cwd="/") == (Exited(0), "works\n", "")


async def test_more_than_the_cap_flows_to_a_reader_and_the_oldest_is_let_go_of(runtime: BubblewrapRuntime) -> None:
    size = CAP + (40 << 20)
    async with box_of(runtime) as box:
        process = await begin(box, f"head -c {size} /dev/zero")
        count = 0
        async for chunk in process.output():
            assert chunk.offset == count
            count += len(chunk.data)

        assert (count, await process.wait()) == (size, Exited(0))
        assert len(text(await collect(process, Position(stdout=size - 5)))) == 5
        with pytest.raises(SandboxGone, match="let go of"):
            await collect(process)
