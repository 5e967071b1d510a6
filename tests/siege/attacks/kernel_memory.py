"""What the kernel has once for all boxes: io_setup, filters of sockets and of calls, fanotify, leases, secret memory"""

from pathlib import Path

from tests.siege.attack import Target

# Each takes what it can, three times in `holds`, for ever in the attack; what could be had is printed as `name count`.
TAKE = r"""exec python3 - <<'END'
import ctypes, fcntl, os, socket, struct, time
libc = ctypes.CDLL(None, use_errno=True)
filters = b"".join(struct.pack("HBBI", 0x00, 0, 0, 1) for _ in range(4000)) + struct.pack("HBBI", 0x06, 0, 0, 0x7FFF0000)
buffer = ctypes.create_string_buffer(filters)
program = struct.pack("HL", 4001, ctypes.addressof(buffer))
held = []

def called(number, *arguments):
    found = libc.syscall(number, *arguments)
    if found < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    held.append(found)

def socket_filter(option):
    one = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    one.setsockopt(socket.SOL_SOCKET, option, program)
    held.append(one)

def leased():
    one = os.open("/mnt/data/leased", os.O_RDWR | os.O_CREAT)
    fcntl.fcntl(one, fcntl.F_SETLEASE, fcntl.F_WRLCK)
    held.append(one)

def noticed():
    one = os.open("/usr", os.O_RDONLY)
    fcntl.fcntl(one, fcntl.F_NOTIFY, 0x8000003F)
    held.append(one)

ways = {
    "io_setup": lambda: called(206, 60000, ctypes.byref(ctypes.c_ulong(0))),
    "fanotify": lambda: called(300, 0x200, 0),
    "memfd_secret": lambda: called(447, 0),
    "bpf": lambda: called(321, 0, ctypes.byref(ctypes.create_string_buffer(120)), 120),
    "io_uring": lambda: called(425, 8, ctypes.byref(ctypes.create_string_buffer(120))),
    "userfaultfd": lambda: called(323, 1),
    "perf_event": lambda: called(298, ctypes.byref(ctypes.create_string_buffer(120)), 0, -1, -1, 0),
    "keys": lambda: called(248, b"user", b"siege%d" % len(held), b"x" * 1000, 1000, -4),
    "seccomp": lambda: called(317, 1, 0, ctypes.create_string_buffer(program[:2] + bytes(6) + program[8:])),
    "socket_filter": lambda: socket_filter(26),
    "socket_program": lambda: socket_filter(50),
    "reuseport_filter": lambda: socket_filter(51),
    "lease": leased,
    "notice": noticed,
}
for name, take in ways.items():
    count = 0
    try:
        while count < MOST:
            take()
            count += 1
    except OSError:
        pass
    print(name, count)
time.sleep(SECONDS)
END"""
COMMAND = TAKE.replace("MOST", "1e9").replace("SECONDS", "2")


def holds(target: Target) -> None:
    status, answer = target.run(TAKE.replace("MOST", "3").replace("SECONDS", "0"))
    assert status == 200, answer
    said = next(part["stdout"] for item in answer["output"] for part in item.get("output", ()) if "stdout" in part)
    taken = [line for line in said.splitlines() if not line.endswith(" 0")]
    assert said.count("\n") == 14, f"not every way was tried: {str(answer['output'])[:500]}"
    assert not taken, f"a box may take what the whole host has once: {taken}"
    assert int(Path("/proc/sys/fs/aio-nr").read_text()) < int(Path("/proc/sys/fs/aio-max-nr").read_text()) // 2
