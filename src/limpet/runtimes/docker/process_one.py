"""What a container starts with: a few lines of Python that open the agent's descriptors, become the container's user, and are the agent.

They run as the container's root where this process is root, with two capabilities: to become another user. So the agent's socket, its
payload and its lifeline lie in a directory that no command can enter.
"""

from limpet.runtimes.agent_client.payload import payload

AGENT = "/run/limpet/agent"  # inside
SHELLS = ("/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash", "/bin/sh")
_COUNTERS = {
    "memory": ("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control"),
    "processes": ("/sys/fs/cgroup/pids.current", "/sys/fs/cgroup/pids/pids.current"),
}

# `user` is the uid to become, None for the one that it has; `filter` a seccomp program in the kernel's form.
_START = """\
import marshal, os, _socket
os.chdir(AGENT)
given = marshal.loads(open("payload", "rb").read())
def opened(paths):
    for path in paths:
        try:
            return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            pass
listener = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
listener.bind("socket.new")
listener.listen(64)
spool = os.open("spool", os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
os.unlink("spool")
ends = {"listener": listener.detach(), "spool": spool, "lifeline": None}
if given[4]["ttl"] is None:
    ends["lifeline"] = os.open("lifeline", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    os.unlink("lifeline")  # a command that held it open would keep the container alive
for name, paths in COUNTERS.items():
    ends[name] = opened(paths)
commands = given[4]["commands"]
commands["shell"] = next((path for path in SHELLS if os.access(path, os.X_OK)), SHELLS[-1])
with open("shell", "w") as file:
    file.write(commands["shell"])
os.rename("socket.new", "socket")
os.chdir("/")
user = given[4].pop("becomes")
if user is not None:
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
program = given[4].pop("filter")
if program:
    import ctypes
    libc = ctypes.CDLL(None, use_errno=True)
    class Filter(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("program", ctypes.c_char_p)]
    if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, ctypes.byref(Filter(len(program) // 8, program)), 0, 0):
        raise OSError(ctypes.get_errno(), "the filter of system calls was refused")
given = (*given[:5], ends)
exec(given[0])
"""


def start_payload(config: dict[str, object], *, user: int | None, system_call_filter: bytes) -> bytes:
    """What the agent is told, for the file `payload` in its directory."""
    return payload({**config, "becomes": user, "filter": system_call_filter}, {})


def program() -> str:
    """What Python is given to run."""
    return f"AGENT, SHELLS, COUNTERS = {AGENT!r}, {SHELLS!r}, {_COUNTERS!r}\n{_START}"
