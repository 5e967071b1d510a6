"""Attempts on the promises of docs/threat-model.md from inside a box. Run once more as an ordinary user."""

import ctypes
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from limpet.core.command import Exited
from limpet.core.ports import Sandbox
from limpet.runtimes.bubblewrap import BubblewrapRuntime
from tests.runtimes.bubblewrap.boxes import box_of, run
from tests.support.users import again_as_an_ordinary_user

pytestmark = pytest.mark.anyio

_ALIVE = (Exited(0), "alive\n", "")

# call(number, …) by the numbers of x86-64; tell(what, …) prints each that succeeded or failed otherwise than with EPERM.
_CALLING = """
import ctypes, errno, os
libc = ctypes.CDLL(None, use_errno=True)
def call(*numbers):
    result = libc.syscall(*[ctypes.c_long(number) for number in numbers])
    return "done" if result >= 0 else errno.errorcode[ctypes.get_errno()]
def tell(**calls):
    for name, numbers in calls.items():
        if (found := call(*numbers)) != "EPERM":
            print(name, found)
"""
_OF_THE_HOSTS_KERNEL = """
tell(
    add_key=(248, 0, 0, 0, 0, 0), request_key=(249, 0, 0, 0, 0), keyctl=(250, 0, 0, 0, 0, 0),
    bpf=(321, 0, 0, 0), perf_event_open=(298, 0, 0, -1, -1, 0), userfaultfd=(323, 0),
    io_uring_setup=(425, 1, 0), io_uring_enter=(426, 0, 0, 0, 0, 0, 0), io_uring_register=(427, 0, 0, 0, 0),
    init_module=(175, 0, 0, 0), finit_module=(313, 0, 0, 0), delete_module=(176, 0, 0),
    kexec_load=(246, 0, 0, 0, 0), kexec_file_load=(320, 0, 0, 0, 0, 0), reboot=(169, 0, 0, 0, 0),
    settimeofday=(164, 0, 0), clock_settime=(227, 0, 0), adjtimex=(159, 0), clock_adjtime=(305, 0, 0),
    swapon=(167, 0, 0), swapoff=(168, 0), acct=(163, 0), quotactl=(179, 0, 0, 0, 0), syslog=(103, 3, 0, 0),
    iopl=(172, 3), ioperm=(173, 0, 1, 1), vhangup=(153,),
    mount=(165, 0, 0, 0, 0, 0), umount2=(166, 0, 0), pivot_root=(155, 0, 0), chroot=(161, 0), fsopen=(430, 0, 0),
    fsconfig=(431, 0, 0, 0, 0, 0), fsmount=(432, 0, 0, 0), fspick=(433, 0, 0, 0), open_tree=(428, 0, 0, 0),
    move_mount=(429, 0, 0, 0, 0, 0), mount_setattr=(442, 0, 0, 0, 0, 0),
    name_to_handle_at=(303, 0, 0, 0, 0, 0), open_by_handle_at=(304, 0, 0, 0),
    process_madvise=(440, 0, 0, 0, 0, 0), move_pages=(279, 0, 0, 0, 0, 0, 0), migrate_pages=(256, 0, 0, 0, 0),
)
"""
_NEW_NAMESPACES = """
kinds = dict(mount=0x20000, cgroup=0x2000000, uts=0x4000000, ipc=0x8000000, user=0x10000000, pid=0x20000000, net=0x40000000)
for kind, flag in kinds.items():
    tell(**{f"unshare {kind}": (272, flag), f"clone {kind}": (56, flag | 17, 0, 0, 0, 0)})
tell(unshare_time=(272, 0x80), setns=(308, 0, 0))
"""
_OF_THE_AGENT = """
import struct
buffer = ctypes.create_string_buffer(8)
span = ctypes.create_string_buffer(struct.pack("PP", ctypes.addressof(buffer), 8))
there = ctypes.create_string_buffer(struct.pack("PP", 0x400000, 8))
here, far = ctypes.addressof(span), ctypes.addressof(there)
pidfd = libc.syscall(434, 1, 0)
tell(
    attach=(101, 16, 1, 0, 0), seize=(101, 0x4206, 1, 0, 0),
    process_vm_readv=(310, 1, here, 1, far, 1, 0), process_vm_writev=(311, 1, here, 1, far, 1, 0),
    pidfd_getfd=(438, pidfd, 0, 0), kcmp=(312, 1, os.getpid(), 0, 0, 0),
)
for name in ("fd", "map_files", "ns", "fdinfo"):
    try:
        print(name, [os.readlink(f"/proc/1/{name}/{entry}") for entry in os.listdir(f"/proc/1/{name}")])
    except PermissionError:
        pass
for name in ("exe", "cwd", "root"):
    try:
        print(name, os.readlink(f"/proc/1/{name}"))
    except PermissionError:
        pass
for name in sorted(os.listdir("/proc/1")):
    if not os.path.isdir(f"/proc/1/{name}"):
        try:
            open(f"/proc/1/{name}", "ab").close()
            print("written", name)
        except OSError:
            pass
for name in ("mem", "environ", "maps", "smaps", "auxv", "io", "stack", "syscall", "pagemap", "personality"):
    try:
        if open(f"/proc/1/{name}", "rb").read(1):
            print("read", name)
    except OSError:
        pass
"""
_SOCKETS = """
import errno, socket
found = {}
for family in range(70):
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW, socket.SOCK_SEQPACKET):
        try:
            socket.socket(family, kind).close()
            found.setdefault(family, []).append(int(kind))
        except OSError:
            pass
print(found)
"""
# mov eax, 20 (getpid by the numbers of i386); int 0x80; ret
_FOREIGN = """
import ctypes, mmap
code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
code.write(bytes.fromhex("b814000000cd80c3"))
print(ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))())
"""


async def _tried(box: Sandbox, program: str, *, calls: bool = False) -> str:
    """What a Python program in the box printed; skipped in words where it counts on another machine's numbers of calls."""
    if calls and "x86_64" not in (await run(box, "uname -m"))[1]:
        pytest.skip("the numbers of the calls are those of x86-64")
    await box.files.write("attempt.py", ((_CALLING if calls else "") + program).encode())
    outcome, stdout, stderr = await run(box, "python3 attempt.py")
    assert (outcome, stderr) == (Exited(0), "")
    return stdout


async def test_calls_for_the_hosts_kernel_keys_and_mounts_are_refused(runtime: BubblewrapRuntime) -> None:
    async with box_of(runtime) as box:
        assert await _tried(box, _OF_THE_HOSTS_KERNEL, calls=True) == ""


async def test_no_namespace_of_any_kind_can_be_made(runtime: BubblewrapRuntime) -> None:
    async with box_of(runtime) as box:
        assert await _tried(box, _NEW_NAMESPACES, calls=True) == ""


async def test_the_agent_can_be_neither_traced_nor_read_nor_written(runtime: BubblewrapRuntime) -> None:
    async with box_of(runtime) as box:
        assert await _tried(box, _OF_THE_AGENT, calls=True) == ""
        assert await run(box, "echo alive") == _ALIVE


async def test_no_signal_from_inside_ends_or_stops_the_agent(runtime: BubblewrapRuntime) -> None:
    async with box_of(runtime) as box:
        await run(box, "for number in $(seq 64); do kill -$number 1; done")

        assert await run(box, "echo alive") == _ALIVE


async def test_code_of_another_architecture_is_killed(runtime: BubblewrapRuntime) -> None:
    async with box_of(runtime) as box:
        if "x86_64" not in (await run(box, "uname -m"))[1]:
            pytest.skip("the code is for x86-64")
        await box.files.write("foreign.py", _FOREIGN.encode())
        outcome, stdout, _ = await run(box, "exec python3 foreign.py")

    # SIGSYS by the filter, or SIGSEGV by a kernel that knows no i386 at all
    assert outcome in (Exited(128 + 31), Exited(128 + 11))
    assert stdout == ""


async def test_sockets_are_local_or_of_the_internet_and_never_raw(runtime: BubblewrapRuntime) -> None:
    async with box_of(runtime) as box:
        found = await _tried(box, _SOCKETS)

    stream, datagram, raw, packets = (1, 2, 3, 5)
    # A raw AF_UNIX is a datagram socket by another name, and AF_NETLINK has no other kinds than these two.
    local = [stream, datagram, raw, packets]
    assert found == f"{ {1: local, 2: [stream, datagram], 10: [stream, datagram], 16: [datagram, raw]} }\n"


async def test_there_is_no_way_to_any_network_nor_to_a_name(runtime: BubblewrapRuntime) -> None:
    tries = """
import socket
for address in ("192.0.2.1", "169.254.169.254", "10.0.0.1", "172.17.0.1", "2001:db8::1", "fd00:ec2::254", "ff02::1"):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        with socket.socket(family, kind) as tried:
            tried.settimeout(2)
            try:
                tried.connect((address, 53))
                print("reached", address, kind)
            except OSError as error:
                if error.errno is None:
                    print("silence", address)
for name in ("example.com", "host.docker.internal", "metadata.google.internal"):
    try:
        print(socket.getaddrinfo(name, 80))
    except socket.gaierror:
        pass
"""
    async with box_of(runtime) as box:
        assert await _tried(box, tries) == ""


async def test_the_hosts_sockets_and_shared_memory_are_out_of_reach(runtime: BubblewrapRuntime) -> None:
    abstract = f"limpet-of-the-host-{os.getpid()}"
    with socket.create_server(("127.0.0.1", 0)) as listening, socket.socket(socket.AF_UNIX) as named, _segment() as key:
        named.bind(f"\0{abstract}")
        named.listen()
        tries = f"""
import ctypes, socket
for family, address in ((socket.AF_INET, ("127.0.0.1", {listening.getsockname()[1]})), (socket.AF_UNIX, "\\0{abstract}")):
    try:
        socket.socket(family).connect(address)
        print("reached", address)
    except ConnectionRefusedError:
        pass
print(open("/proc/net/unix").read().count("\\n"), open("/proc/sysvipc/shm").read().count("\\n"))
print(ctypes.CDLL(None).shmget({key}, 0, 0))
"""
        async with box_of(runtime) as box:
            assert await _tried(box, tries) == "1 1\n-1\n"


@contextmanager
def _segment() -> Iterator[int]:
    """System V shared memory on the host; gives its key."""
    libc = ctypes.CDLL(None, use_errno=True)
    key = 0x4C000000 + os.getpid()
    made = libc.shmget(key, 4096, 0o1000 | 0o666)
    assert made >= 0, os.strerror(ctypes.get_errno())
    try:
        yield key
    finally:
        libc.shmctl(made, 0, None)


async def test_only_the_boxs_own_places_can_be_written_and_nowhere_counts_setuid(runtime: BubblewrapRuntime) -> None:
    async with box_of(runtime) as box:
        mounts = (await run(box, "cut -d' ' -f5,6 /proc/self/mountinfo"))[1].splitlines()
        places = (
            await run(
                box, "find / -xdev -writable ! -type l 2> /dev/null; find /etc /usr -maxdepth 2 -writable ! -type l"
            )
        )[1]

    writable = {place for place, options in map(str.split, mounts) if options.startswith("rw")}
    devices = {place for place in writable if place.startswith("/dev/") and place != "/dev/shm"}
    assert writable - devices == {"/proc", "/dev/shm", "/tmp", "/mnt/data", "/home/agent"}
    assert places.split() == ["/home/agent", "/mnt/data", "/tmp"]
    assert [line for line in mounts if "nosuid" not in line] == []
    assert [line for line in mounts if "nodev" not in line and not line.startswith("/dev/")] == []


async def test_devices_are_the_harmless_few_and_none_can_be_made(runtime: BubblewrapRuntime) -> None:
    async with box_of(runtime) as box:
        found = await run(box, "ls /dev | tr '\\n' ' '; ls /dev/pts")
        made = await run(box, "mknod c c 1 1; mknod b b 8 0; ls")

    assert found[1] == "core fd full null ptmx pts random shm stderr stdin stdout tty urandom zero ptmx\n"
    assert made[1] == ""


async def test_no_setting_of_the_kernel_can_be_written_not_even_the_boxs_own(runtime: BubblewrapRuntime) -> None:
    async with box_of(runtime) as box:
        found = await run(
            box, "find /proc/sys -type f -writable 2> /dev/null; find /proc -maxdepth 1 -type f -writable"
        )

    # Written only by who may restore checkpoints, whatever its mode says.
    assert [path for path in found[1].split() if not path.endswith("/ns_last_pid")] == []


async def test_what_another_box_shares_with_its_own_processes_is_not_seen(runtime: BubblewrapRuntime) -> None:
    """Both boxes belong to one user of the host where that is an ordinary one."""
    share = """
import ctypes, socket, time
ctypes.CDLL(None).shmget(0x4C4C4C4C, 4096, 0o1000 | 0o666)
named = socket.socket(socket.AF_UNIX)
named.bind("\\0between-boxes")
named.listen()
open("/dev/shm/between-boxes", "w").close()
open("/tmp/between-boxes", "w").close()
print("shared", flush=True)
time.sleep(30)
"""
    look = """
import ctypes, glob, os, socket
print(ctypes.CDLL(None).shmget(0x4C4C4C4C, 0, 0), os.listdir("/dev/shm"), os.listdir("/tmp"))
print(socket.socket(socket.AF_UNIX).connect_ex("\\0between-boxes") != 0)
print([path for path in glob.glob("/proc/[0-9]*/cmdline") if "share.py" in open(path).read()])
"""
    async with box_of(runtime) as one, box_of(runtime) as other:
        await one.files.write("share.py", share.encode())
        await run(one, "mkfifo ready; python3 share.py > ready & read -r line < ready")

        assert await _tried(other, look) == "-1 [] []\nTrue\n[]\n"


@pytest.mark.timeout(180)
def test_the_promises_hold_for_an_ordinary_user_too() -> None:
    again_as_an_ordinary_user(__file__)
