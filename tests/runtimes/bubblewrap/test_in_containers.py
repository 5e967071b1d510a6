"""Real containers of Docker and podman: a default one refuses boxes and says which flags mend it, and those flags mend it.

The engines run for these tests alone, with files of their own and without a network. The containers see this host's programs.
"""

import json
import os
import shlex
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from shutil import which
from typing import Any

import pytest

from tests.support.users import NOBODY

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can start an engine of containers"),
    pytest.mark.timeout(600),
]

_CHECKOUT = Path(__file__).parents[3]
_IMAGE = "localhost/limpet-here"
_NEEDED = {"docker": ("dockerd", "docker", "containerd", "runc"), "podman": ("podman", "conmon", "runc")}
_READY_WITHIN = 120
_WHO = pytest.mark.parametrize("user", [None, NOBODY], ids=["root", "user"])
_SECURITY = {
    "seccomp": "seccomp=unconfined",
    "apparmor": "apparmor=unconfined",
    "paths": "systempaths=unconfined",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """`words` run the engine's client; `flags` belong to every container of it."""

    name: str
    words: tuple[str, ...]
    flags: tuple[str, ...] = ()

    def limpet(self, *program: str, flags: list[str], user: int | None = None) -> subprocess.CompletedProcess[str]:
        """Run `limpet` in a fresh container with these flags beside what it needs to see this host's programs."""
        words = [*self.words, "run", "--rm", "--network", "none", *self.flags, *flags]
        for place in {Path("/usr"), _CHECKOUT, Path(sys.base_prefix)}:
            words += ["--volume", f"{place}:{place}:ro"]
        for variable in ("HOME=/tmp/home", "LIMPET_HOME=/tmp/home", "PYTHONDONTWRITEBYTECODE=1"):
            words += ["--env", variable]
        if user is not None:
            words += ["--user", f"{user}:{user}"]
        words += [_IMAGE, str(Path(sys.executable).with_name("limpet")), *program]
        return subprocess.run(words, capture_output=True, text=True, check=False, timeout=300)

    def checked(self, *, flags: list[str], user: int | None = None) -> dict[str, Any]:
        done = self.limpet("check", "bubblewrap", "--json", flags=flags, user=user)
        assert done.stdout, done.stderr
        (found,) = json.loads(done.stdout)["runtimes"]
        return dict(found)

    def named(self, remedy: str) -> list[str]:
        """The flags in a remedy, which names this engine."""
        engine, verb, *flags, rest = shlex.split(remedy, comments=True)
        assert (engine, verb, rest) == (self.name, "run", "…")
        return flags


@pytest.fixture(scope="module", params=["docker", "podman"])
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    missing = [program for program in _NEEDED[request.param] if which(program) is None]
    if missing:
        pytest.skip(f"{', '.join(missing)} is not installed")
    with tempfile.TemporaryDirectory(prefix="lc-") as name:
        room = Path(name)
        with _docker(room) if request.param == "docker" else _podman(room) as engine:
            try:
                _make_image(engine, room / "image")
                yield engine
            finally:
                _remove_groups(room.name)


@contextmanager
def _docker(room: Path) -> Iterator[Engine]:
    """A daemon that says by systemd's protocol when it is ready (sd_notify(3))."""
    address = f"unix://{room}/docker.sock"
    words = ["dockerd", "--host", address, "--data-root", str(room / "data"), "--exec-root", str(room / "exec")]
    words += ["--pidfile", str(room / "pid"), "--storage-driver", "vfs"]
    words += ["--bridge=none", "--iptables=false", "--ip6tables=false", "--cgroup-parent", f"/{room.name}"]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ready, (room / "log").open("wb") as log:
        ready.bind(str(room / "ready"))
        ready.settimeout(1)
        environment = {**os.environ, "NOTIFY_SOCKET": str(room / "ready")}
        daemon = subprocess.Popen(words, stdout=log, stderr=log, env=environment)
        try:
            _wait_for(ready, daemon, room / "log")
            yield Engine(name="docker", words=("docker", "--host", address))
        finally:
            daemon.terminate()
            daemon.wait(60)


def _wait_for(ready: socket.socket, daemon: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(_READY_WITHIN):
        if daemon.poll() is not None:
            pytest.skip(f"Docker's daemon does not run here: {log.read_text()[-500:]}")
        try:
            if b"READY=1" in ready.recv(4096):
                return
        except TimeoutError:
            continue
    pytest.fail(f"Docker's daemon was not ready within {_READY_WITHIN} s: {log.read_text()[-2000:]}")


@contextmanager
def _podman(room: Path) -> Iterator[Engine]:
    places = ("--root", str(room / "root"), "--runroot", str(room / "run"), "--tmpdir", str(room / "tmp"))
    managed = ("--storage-driver", "vfs", "--cgroup-manager", "cgroupfs", "--events-backend", "none")
    # Its own limits are more than root may ask for on every host, and its usual program refuses some layouts of cgroups.
    limits = ("--ulimit", "nofile=4096:4096", "--ulimit", "nproc=4096:4096", "--cgroups", "no-conmon")
    yield Engine(name="podman", words=("podman", *places, *managed, "--runtime", "runc"), flags=limits)


def _make_image(engine: Engine, place: Path) -> None:
    """An image of empty directories, of this host's short names for /usr, and of what programs must find in /etc."""
    for name in ("usr", "etc", "proc", "sys", "dev", "run", "var", "root"):
        (place / name).mkdir(parents=True)
    (place / "tmp").mkdir()
    (place / "tmp").chmod(0o1777)
    for name in ("bin", "sbin", "lib", "lib32", "lib64", "libx32"):
        if Path("/", name).is_symlink():
            (place / name).symlink_to(os.readlink(Path("/", name)))
    for name in ("passwd", "group", "ld.so.cache"):
        (place / "etc" / name).write_bytes(Path("/etc", name).read_bytes())
    with subprocess.Popen(["tar", "-C", str(place), "-c", "."], stdout=subprocess.PIPE) as archive:
        made = subprocess.run(
            [*engine.words, "import", "-", _IMAGE], stdin=archive.stdout, capture_output=True, check=False
        )
    if made.returncode != 0:
        pytest.skip(f"{engine.name} makes no image here: {made.stderr.decode()[-500:]}")


def _remove_groups(parent: str) -> None:
    """The empty groups in which its containers were, and which an engine leaves; those of podman's other containers stay."""
    for mount in (Path("/sys/fs/cgroup"), *Path("/sys/fs/cgroup").iterdir()):
        for name in (parent, "libpod_parent"):
            with suppress(OSError):
                (mount / name).rmdir()


@_WHO
def test_a_default_container_refuses_and_the_flags_that_it_names_mend_it(engine: Engine, user: int | None) -> None:
    refused = engine.checked(flags=[], user=user)
    mended = engine.checked(flags=engine.named(refused["remedy"]), user=user)

    assert (refused["works"], "bwrap: " in refused["detail"]) == (False, True)
    assert (mended["works"], mended["remedy"]) == (True, "")


@pytest.mark.parametrize("program", [["serve", "--port", "0"], ["run", "--", "true"]], ids=["serve", "run"])
def test_neither_the_gateway_nor_a_run_begins_in_a_default_container(engine: Engine, program: list[str]) -> None:
    done = engine.limpet(*program, flags=[])

    assert done.returncode != 0
    assert all(flag in done.stderr for flag in _SECURITY.values())


@pytest.mark.parametrize("left_out", _SECURITY)
def test_each_flag_is_needed_and_all_are_named_where_one_is_missing(engine: Engine, left_out: str) -> None:
    if left_out == "apparmor" and not Path("/sys/kernel/security/apparmor").is_dir():
        pytest.skip("this kernel has no AppArmor that could refuse")
    given = [word for name, flag in _SECURITY.items() if name != left_out for word in ("--security-opt", flag)]

    found = engine.checked(flags=given)

    assert found["works"] is False
    assert {word for word in engine.named(found["remedy"]) if word != "--security-opt"} == set(_SECURITY.values())
