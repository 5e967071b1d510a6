"""io_setup until the host has no asynchronous I/O left"""

from pathlib import Path

from tests.siege.attack import Target

COMMAND = r"""exec python3 - <<'END'
import ctypes, time
libc = ctypes.CDLL(None)
while True:
    context = ctypes.c_ulong(0)
    if libc.syscall(206, 60000, ctypes.byref(context)) != 0:
        break
time.sleep(4)
END"""


def holds(target: Target) -> None:
    status, answer = target.run(
        "python3 -c 'import ctypes; c = ctypes.c_ulong(0); print(\"io_setup\", ctypes.CDLL(None).syscall(206, 64, ctypes.byref(c)))'"
    )
    assert status == 200, answer
    assert "io_setup 0" not in str(answer), "a box may take asynchronous I/O, of which the host has a fixed number"
    assert int(Path("/proc/sys/fs/aio-nr").read_text()) < int(Path("/proc/sys/fs/aio-max-nr").read_text()) // 2
