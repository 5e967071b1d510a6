"""Memory that lies with no process: what System V keeps when its makers are killed, and what waits in sockets."""

import pytest

from limpet.core.command import Exited
from limpet.core.ports import Limits
from limpet.runtimes.bubblewrap import BubblewrapRuntime
from limpet.runtimes.bubblewrap.limits.groups import find_groups
from tests.runtimes.bubblewrap.boxes import begin, box_of, collect, run

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(find_groups() is None, reason="no cgroup can be made here, so no box's memory is bounded"),
]

_BEGIN = "import ctypes\nlibc = ctypes.CDLL(None)\nlibc.shmat.restype = ctypes.c_void_p\n"
_MAKERS = {
    # From large to small, so that nothing is left of the box's memory.
    "segments": _BEGIN
    + """
for size in [8 << 20] * 30 + [1 << 18] * 60 + [4096] * 900:
    at = libc.shmat(libc.shmget(0, size, 0o1600), None, 0)
    ctypes.memset(at, 1, size)
    libc.shmdt(ctypes.c_void_p(at))
""",
    "queues": _BEGIN
    + """
text = ctypes.create_string_buffer(b"\\x01", 8200)
while (queue := libc.msgget(0, 0o1600)) >= 0:
    while libc.msgsnd(queue, text, 8192, 0o4000) == 0:
        pass
""",
    "semaphores": _BEGIN + "while libc.semget(0, 32000, 0o1600) >= 0:\n    pass\n",
}
# Sends to itself what nobody reads, over as many connections as it may have; prints how many MiB the kernel took.
_SENDER = """
import socket, time
server = socket.create_server(("127.0.0.1", 0), backlog=4096)
taken, kept, until = 0, [], time.monotonic() + 4
while len(kept) < 600 and time.monotonic() < until:
    one = socket.socket()
    one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 << 20)
    one.connect(server.getsockname())
    kept += [one, server.accept()[0]]
    one.setblocking(False)
    try:
        for _ in range(20):
            taken += one.send(bytes(1 << 20))
    except BlockingIOError:
        continue
print(taken >> 20)
"""
_LEFT = "tail -qn +2 /proc/sysvipc/shm /proc/sysvipc/msg /proc/sysvipc/sem | wc -l"
_NEEDS_MEMORY = "python3 -c 'print(len(bytearray(50 << 20)) >> 20)'"


@pytest.mark.parametrize("maker", _MAKERS)
async def test_what_fills_the_memory_and_belongs_to_nobody_is_removed_and_the_result_says_so(
    runtime: BubblewrapRuntime, maker: str
) -> None:
    async with box_of(runtime, limits=Limits(memory=128 << 20)) as box:
        await box.files.write("fill.py", _MAKERS[maker].encode())
        # A survivor of its own keeps nothing of it.
        filler = await begin(box, "sleep 9893 & exec python3 fill.py")
        await collect(filler)
        outcome = await filler.wait()
        after = await run(box, _NEEDS_MEMORY)
        left = await run(box, _LEFT)

    assert outcome == Exited(137)
    assert after == (Exited(0), "50\n", "")
    assert left[1] == "0\n"
    assert [note for note in filler.notes() if note.startswith("what System V keeps")] != []


async def test_segments_that_somebody_uses_stay(runtime: BubblewrapRuntime) -> None:
    holder = _BEGIN + (
        "import time\nat = libc.shmat(libc.shmget(7, 4096, 0o1600), None, 0)\nctypes.memset(at, 65, 3)\n"
        "print(flush=True)\ntime.sleep(60)\n"
    )
    reader = _BEGIN + "print(ctypes.string_at(libc.shmat(libc.shmget(7, 4096, 0o600), None, 0)).decode())\n"
    async with box_of(runtime, limits=Limits(memory=128 << 20)) as box:
        await box.files.write("hold.py", holder.encode())
        await box.files.write("read.py", reader.encode())
        held = await begin(box, "exec python3 hold.py")
        await anext(aiter(held.output()))
        hog, _, _ = await run(box, "exec python3 -c 'bytearray(200 << 20)'")
        seen = await run(box, "python3 read.py")
        await held.abort()

    assert (hog, seen) == (Exited(137), (Exited(0), "AAA\n", ""))


async def test_what_waits_in_sockets_counts_as_the_boxs_memory(runtime: BubblewrapRuntime) -> None:
    async with box_of(runtime, limits=Limits(memory=64 << 20)) as box:
        await box.files.write("send.py", _SENDER.encode())
        outcome, taken, _ = await run(box, "exec python3 send.py")
        after = await run(box, "echo alive")

    # Under version 1 they take no more; under version 2 the sender is killed.
    assert outcome == Exited(137) or int(taken) < 3 * 64
    assert after == (Exited(0), "alive\n", "")
