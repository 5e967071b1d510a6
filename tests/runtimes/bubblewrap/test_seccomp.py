"""What the system call filter refuses beyond what test_promises.py and test_walls.py try, and what it must leave alone."""

import subprocess
from pathlib import Path

import pytest

from limpet.core.command import Exited
from limpet.runtimes.bubblewrap import BubblewrapRuntime
from limpet.runtimes.bubblewrap.box import without_core_dumps
from tests.runtimes.bubblewrap.boxes import begin, box_of, run

pytestmark = pytest.mark.anyio

# call(number, …) by the numbers of x86-64: the name of the error, or "done".
_CALL = """
import ctypes, errno, os, sys
libc = ctypes.CDLL(None, use_errno=True)
def call(*numbers):
    result = libc.syscall(*[ctypes.c_long(number) for number in numbers])
    return "done" if result >= 0 else errno.errorcode[ctypes.get_errno()]
"""
_OTHERS = """
other = int(sys.argv[1])
print("attach", call(101, 16, other, 0, 0), "seize", call(101, 0x4206, other, 0, 0))
print("read", call(310, other, 0, 0, 0, 0, 0), "write", call(311, other, 0, 0, 0, 0, 0))
print("descriptor", call(438, 99, 0, 0), "compare", call(312, other, os.getpid(), 0, 0, 0))
"""
_YOUNG = """
print("open_tree_attr", call(467, 0, 0, 0, 0, 0))
print("last known", call(469, -1, 0, 0, 0, 0) != "ENOSYS" or "not of this kernel")
print("next", call(470, 0, 0, 0, 0, 0), "far", call(100000, 0))
"""
# Also where the kernel would load a module for them at a command's wish; the upper half of an argument counts for nothing.
_RARE = """
for kind, protocol in ((1, 132), (6, 33), (2, 115)):
    print(*(call(41, family, kind, protocol + high) for family in (2, 10) for high in (0, 1 << 32)))
print("descriptors of memory", call(154, 0, 0, 0), "tcp", call(41, 2, 1, 6), "udp", call(41, 10, 2, 17))
"""
# What is counted for the whole host, or held by the kernel where no group counts it, or tells of others.
_OF_THE_HOST = """
import fcntl, socket, struct
context = (ctypes.c_ulong * 1)()
print("aio", call(206, 16, ctypes.addressof(context)), call(209, 0, 0, 0), call(208, 0, 0, 0, 0, 0), call(333, 0, 0, 0, 0, 0, 0))
print("fanotify", call(300, 0x200, 0), "secret", call(447, 0), "cachestat", call(451, 0, 0, 0, 0))
both = struct.pack("HHI", 6, 0, 1)
kept = ctypes.create_string_buffer(both)
program = struct.pack("HxxxxxxP", 1, ctypes.addressof(kept))
for kind in (socket.AF_INET, socket.AF_UNIX, socket.AF_NETLINK):
    one = socket.socket(kind, socket.SOCK_DGRAM)
    for option in (26, 50, 51, 52):
        for level in (1, 1 + (1 << 32)):
            value = ctypes.create_string_buffer(program)
            print(call(54, one.fileno(), level, option, ctypes.addressof(value), len(program)), end=" ")
print()
value = ctypes.create_string_buffer(program)
libc.prctl(38, 1, 0, 0, 0)
print("filters", call(157, 22, 2, ctypes.addressof(value)), call(317, 1, 0, ctypes.addressof(value)))
mine = os.open("mine", os.O_RDWR | os.O_CREAT)
usr = os.open("/usr", os.O_RDONLY)
print("leases", call(72, mine, 1024, 1), call(72, mine, 1040, 1), "notices", call(72, usr, 1026, 1))
space = ctypes.create_string_buffer(struct.pack("hhqqii", 0, 0, 0, 1 << 20, 0, 0) + bytes(64))
print("space", *(call(16, mine, request, ctypes.addressof(space)) for request in (0x40305828, 0x4030582A, 0x40305839)))
print("subvolumes", call(16, usr, 0x5000940E, 0), call(16, usr, 0x50009418, 0), "keys", call(16, usr, 0xC0506617, 0))
print(os.stat(mine).st_blocks)
"""
_NETLINK = """
import socket
for protocol in range(24):
    print(protocol, call(41, 16, 3, protocol), call(41, 16, 3, protocol + (1 << 32)))
socket.if_nameindex()
"""
# A debugger's own child asks to be traced, stops, is looked at, and goes on.
_CHILD = """
child = os.fork()
if child == 0:
    libc.ptrace(0, 0, 0, 0)
    os.kill(os.getpid(), 19)
    os._exit(7)
assert os.WIFSTOPPED(os.waitpid(child, 0)[1])
assert libc.ptrace(3, child, ctypes.c_long(0), 0) != -2
libc.ptrace(7, child, 0, 0)
print(os.WEXITSTATUS(os.waitpid(child, 0)[1]))
"""


async def _python(runtime: BubblewrapRuntime, program: str) -> str:
    async with box_of(runtime) as box:
        if "x86_64" not in (await run(box, "uname -m"))[1]:
            pytest.skip("the numbers of the calls are those of x86-64")
        await begin(box, "echo $$ > /tmp/other; exec sleep 9861")
        await box.files.write("t.py", (_CALL + program).encode())
        wait = "until [ -s /tmp/other ]; do sleep 0.01; done"
        outcome, stdout, stderr = await run(box, f"{wait}; python3 t.py $(cat /tmp/other)")
        assert (outcome, stderr) == (Exited(0), "")
        return stdout


async def test_a_command_attaches_to_no_other_and_reads_none(runtime: BubblewrapRuntime) -> None:
    assert (await _python(runtime, _OTHERS)).split("\n") == [
        "attach EPERM seize EPERM",
        "read EPERM write EPERM",
        "descriptor EPERM compare EPERM",
        "",
    ]


async def test_calls_that_are_younger_than_the_filter_are_not_there(runtime: BubblewrapRuntime) -> None:
    assert (await _python(runtime, _YOUNG)).splitlines()[::2] == ["open_tree_attr EPERM", "next ENOSYS far ENOSYS"]


async def test_rare_transports_and_segments_of_old_programs_are_not_there(runtime: BubblewrapRuntime) -> None:
    rare = " ".join(4 * ["EPROTONOSUPPORT"])
    assert (await _python(runtime, _RARE)).splitlines() == [rare] * 3 + [
        "descriptors of memory EPERM tcp done udp done"
    ]


async def test_a_debugger_still_has_its_own_child(runtime: BubblewrapRuntime) -> None:
    assert await _python(runtime, _CHILD) == "7\n"


async def test_what_belongs_to_the_whole_host_is_refused_as_where_it_is_not_there(runtime: BubblewrapRuntime) -> None:
    assert (await _python(runtime, _OF_THE_HOST)).splitlines() == [
        "aio ENOSYS ENOSYS ENOSYS ENOSYS",
        "fanotify EPERM secret ENOSYS cachestat ENOSYS",
        " ".join(24 * ["EPERM"]) + " ",
        "filters EINVAL EINVAL",
        "leases EINVAL EINVAL notices EINVAL",
        "space ENOTSUP ENOTSUP ENOTSUP",
        "subvolumes EPERM EPERM keys ENOTSUP",
        "0",
    ]


async def test_of_netlink_there_is_what_programs_ask_about_interfaces_and_devices(runtime: BubblewrapRuntime) -> None:
    refused = "EPROTONOSUPPORT EPROTONOSUPPORT"
    told = (await _python(runtime, _NETLINK)).splitlines()

    assert [line.partition(" ")[0] for line in told if not line.endswith(refused)] == ["0", "4", "15"]


async def test_no_command_can_have_a_core_dump_written_or_handed_to_the_host(runtime: BubblewrapRuntime) -> None:
    """Where the kernel pipes them to a program, 1 is the only limit that keeps it from being started; elsewhere 0 leaves no file."""
    most = 1 if "prlimit" in without_core_dumps() else 0
    async with box_of(runtime) as box:
        tried = f"ulimit -Sc {1 - most}; ulimit -Hc 0; ulimit -Sc unlimited; prlimit --pid $$ --core=0:0 2> /dev/null"
        asked = "import resource; resource.setrlimit(resource.RLIMIT_CORE, (0, 0)); print(resource.getrlimit(4)[0])"
        shown = await run(
            box, f"{tried}; python3 -c '{asked}'; prlimit --pid $$ --core --noheadings -o SOFT | tr -d ' '"
        )

        assert shown == (Exited(0), f"{most}\n{most}\n", "")
        assert await run(box, "exec 2> /dev/null; sh -c 'kill -ABRT $$'; ls -A") == (Exited(0), "", "")


@pytest.mark.parametrize("pattern, limit", [("|/usr/share/apport %p", "1"), ("@/run/coredump", "1"), ("core", "0")])
def test_a_handler_of_core_dumps_is_kept_from_starting_by_the_limit_of_1(
    tmp_path: Path, pattern: str, limit: str
) -> None:
    (tmp_path / "core_pattern").write_text(pattern + "\n")
    script = without_core_dumps(tmp_path / "core_pattern") + "prlimit --pid $$ --core --noheadings -o SOFT"

    assert subprocess.run(["/bin/sh", "-c", script], capture_output=True, text=True, check=True).stdout.split() == [
        limit
    ]


@pytest.mark.parametrize(
    "command",
    [
        "node -e \"require('fs').readFile('/etc/passwd', () => console.log('works'))\"",
        "python3 -c 'import asyncio; asyncio.run(asyncio.sleep(0)); print(\"works\")'",
        "perl -e 'print \"works\\n\"'",
        "java -Xshare:auto -XX:+UseSerialGC -Xmx64m -version > /dev/null 2>&1 && echo works",
        "gpg --version > /dev/null && echo works",
        "sqlite3 x.db 'create table t (x); begin immediate; insert into t values (1); commit;' && echo works",
    ],
    ids=lambda command: command.split()[0],
)
async def test_programs_start_as_ever(runtime: BubblewrapRuntime, command: str) -> None:
    async with box_of(runtime) as box:
        program = command.split()[0]
        if (await run(box, f"command -v {program}"))[0] != Exited(0):
            pytest.skip(f"{program} is not installed here")
        assert await run(box, command) == (Exited(0), "works\n", "")
