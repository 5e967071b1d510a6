"""Docker's daemon of the tests' own, with its files, its socket and no network; ended by its process."""

import os
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from shutil import which

import pytest

_READY_WITHIN = 120
_PROGRAMS = ("dockerd", "containerd", "runc")
_PROGRAMS_INSIDE = (
    "bash sh sed grep setsid awk cmp curl cat chmod cp cut date env head id ln ls mkdir mkfifo mv printf rm seq sleep sort stty tail"
    " touch tr true wc whoami yes"
)


@contextmanager
def docker_daemon(room: Path, *, storage: str = "overlay2") -> Iterator[str]:
    """Its address. It says by systemd's protocol when it is ready (sd_notify(3)). Skips where it is missing or cannot run."""
    if missing := [program for program in _PROGRAMS if which(program) is None]:
        pytest.skip(f"{', '.join(missing)} is not installed (apt-get install docker.io)")
    address = f"unix://{room}/docker.sock"
    words = ["dockerd", "--host", address, "--data-root", str(room / "data"), "--exec-root", str(room / "exec")]
    words += ["--pidfile", str(room / "pid"), "--storage-driver", storage]
    words += ["--bridge=none", "--iptables=false", "--ip6tables=false", "--cgroup-parent", f"/{room.name}"]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ready, (room / "log").open("wb") as log:
        ready.bind(str(room / "ready"))
        ready.settimeout(1)
        environment = {**os.environ, "NOTIFY_SOCKET": str(room / "ready")}
        daemon = subprocess.Popen(words, stdout=log, stderr=log, env=environment)
        try:
            _wait_for(ready, daemon, room / "log")
            yield address
        finally:
            daemon.terminate()
            daemon.wait(60)
            remove_groups(room.name)


@contextmanager
def podman_service(room: Path) -> Iterator[str]:
    """The address of podman's service, which speaks the same interface."""
    if missing := [program for program in ("podman", "conmon", "runc") if which(program) is None]:
        pytest.skip(f"{', '.join(missing)} is not installed (apt-get install podman)")
    places = ["--root", str(room / "root"), "--runroot", str(room / "run"), "--tmpdir", str(room / "tmp")]
    managed = [
        "--storage-driver",
        "vfs",
        "--cgroup-manager",
        "cgroupfs",
        "--events-backend",
        "none",
        "--runtime",
        "runc",
    ]
    path = room / "podman.sock"
    words = ["podman", *places, *managed, "system", "service", "--time=0", f"unix://{path}"]
    with (room / "log").open("wb") as log:
        # Where a container runs out of memory, conmon leaves a file in the directory that the service was started in.
        service = subprocess.Popen(words, stdout=log, stderr=log, cwd=room)
        try:
            _until_accepting(path, service, room / "log")
            yield f"unix://{path}"
        finally:
            service.terminate()
            service.wait(60)
            remove_groups(room.name)


def _until_accepting(path: Path, service: "subprocess.Popen[bytes]", log: Path) -> None:
    for _ in range(_READY_WITHIN * 20):
        if service.poll() is not None:
            pytest.skip(f"podman's service does not run here: {log.read_text()[-500:]}")
        with socket.socket(socket.AF_UNIX) as tried, suppress(OSError):
            tried.connect(str(path))
            return
        time.sleep(0.05)
    pytest.fail(f"podman's service was not ready within {_READY_WITHIN} s: {log.read_text()[-2000:]}")


def _wait_for(ready: socket.socket, daemon: "subprocess.Popen[bytes]", log: Path) -> None:
    for _ in range(_READY_WITHIN):
        if daemon.poll() is not None:
            pytest.skip(f"Docker's daemon does not run here: {log.read_text()[-500:]}")
        try:
            if b"READY=1" in ready.recv(4096):
                return
        except TimeoutError:
            continue
    pytest.fail(f"Docker's daemon was not ready within {_READY_WITHIN} s: {log.read_text()[-2000:]}")


def remove_groups(parent: str) -> None:
    """The empty groups in which its containers were, and which an engine leaves; those of podman's other containers stay."""
    for mount in (Path("/sys/fs/cgroup"), *Path("/sys/fs/cgroup").iterdir()):
        for name in (parent, "libpod_parent"):
            with suppress(OSError):
                (mount / name).rmdir()


def small_root(directory: Path) -> Path:
    """A root file system of a shell, a few programs of this host and what they load; it has no Python."""
    found = [which(name) for name in _PROGRAMS_INSIDE.split()]
    programs = [os.path.realpath(path) for path in found if path is not None]
    loaded = subprocess.run(["ldd", *programs], capture_output=True, text=True, check=True).stdout
    files = {word for word in loaded.split() if word.startswith("/") and not word.endswith(":")}
    for file in (*files, *(path for path in found if path is not None)):
        place = directory / os.path.normpath(f"usr{file}" if not file.startswith("/usr") else file.lstrip("/"))
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(Path(file).read_bytes())
        place.chmod(0o755)
    for name in ("bin", "sbin", "lib", "lib64"):
        (directory / "usr" / name).mkdir(exist_ok=True)
        (directory / name).symlink_to(f"usr/{name}")
    for name in ("etc", "proc", "sys", "dev", "run", "var", "root", "tmp", "opt"):
        (directory / name).mkdir()
    (directory / "etc/issue").write_text("of the image\n")
    return directory


def import_image(address: str, root: Path, reference: str, *settings: str) -> None:
    """Make an image of a root file system; `settings` are instructions such as "ENV A=b"."""
    import docker  # noqa: PLC0415 (an extra; where it is missing the tests skip before)

    with tempfile.TemporaryFile() as archive:
        subprocess.run(["tar", "-C", str(root), "-c", "."], stdout=archive, check=True)
        archive.seek(0)
        api = docker.APIClient(base_url=address, version="auto")
        repository, _, tag = reference.partition(":")
        # podman drops the tag here.
        made = f"{repository}-untagged"
        api.import_image_from_data(archive.read(), repository=made, changes=list(settings))
        api.tag(made, repository, tag)
        api.close()
