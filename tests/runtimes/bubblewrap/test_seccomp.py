"""What the system call filter refuses beyond what test_promises.py and test_walls.py try, and what it must leave alone."""

import pytest

from limpet.core.command import Exited
from limpet.runtimes.bubblewrap import BubblewrapRuntime
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
