"""Two network namespaces with a cable between them: in one is an internet (`internet_servers`), in the other `limpet` is run. No packet
leaves this machine, wherever it is sent: every address but the first namespace's own leads to the second."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import trustme

from tests.cli.conftest import PROGRAM, environment
from tests.support import internet_servers
from tests.support.internet_servers import HERE, HOST
from tests.support.users import closed_way


@dataclass(frozen=True)
class Internet:
    """`root` is what is served, under every name; `trust` the certificate of its authority, as PEM."""

    directory: Path
    trust: str
    inside: tuple[str, ...]

    @property
    def root(self) -> Path:
        return self.directory / "root"

    def arrived(self, kind: str) -> list[dict[str, Any]]:
        """What arrived there: names, connections or requests."""
        lines = [json.loads(line) for line in (self.directory / "log").read_text().splitlines()]
        return [line for line in lines if line["kind"] == kind]

    def limpet(
        self, *words: str, home: Path, user: int | None = None, stdin: bytes = b"", timeout: float = 600
    ) -> "subprocess.CompletedProcess[str]":
        """The program in the first namespace, as root or as that user. Skips, with the reason in words, where the user cannot run it."""
        become: Sequence[str] = ()
        if user is not None:
            if closed := closed_way(Path(sys.executable)):
                pytest.skip(f"an ordinary user cannot run this Python: {closed} lets nobody else pass")
            become = ("setpriv", "--reuid", str(user), "--regid", str(user), "--clear-groups")
            home.mkdir()
            os.chown(home, user, user)
        done = subprocess.run(
            [*self.inside, *become, *PROGRAM, *words],
            input=stdin, capture_output=True, env=environment(home, HOME=str(home)), timeout=timeout, check=False,
        )  # fmt: skip
        return subprocess.CompletedProcess(words, done.returncode, done.stdout.decode(), done.stderr.decode())


@contextmanager
def internet(directory: Path, *names: str) -> Iterator[Internet]:
    """For the time of the block; its certificate is for these names. Skips, with the reason in words, where it cannot be made."""
    if os.geteuid() != 0:
        pytest.skip("only root can lay a cable between two network namespaces")
    if missing := [name for name in ("ip", "unshare", "nsenter", "setpriv", "mount") if shutil.which(name) is None]:
        pytest.skip(f"to make network namespaces {', '.join(missing)} must be installed")
    (directory / "root").mkdir(parents=True)
    (directory / "resolv.conf").write_text(f"nameserver {HERE}\noptions timeout:20 attempts:1\n")
    (directory / "log").touch()
    authority = trustme.CA()
    certificate = authority.issue_cert(*names)
    (directory / "certificate.pem").write_bytes(certificate.private_key_and_cert_chain_pem.bytes())
    with ExitStack() as stack:
        served = _in_namespaces(stack, "--net", sys.executable, internet_servers.__file__, str(directory))
        used = _in_namespaces(stack, "--net", "--mount", "sh", "-c", "read line; echo; exec cat")
        inside = ("nsenter", f"--net=/proc/{used.pid}/ns/net", f"--mount=/proc/{used.pid}/ns/mnt", "--")
        _connect(served.pid, used.pid, inside, directory)
        for process in (used, served):
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(b"go\n")
            process.stdin.flush()
            process.stdout.readline()
        yield Internet(directory, authority.cert_pem.bytes().decode(), inside)


def _in_namespaces(stack: ExitStack, *words: str) -> "subprocess.Popen[bytes]":
    """A program in namespaces of its own, which they are when this returns; it ends when its input does."""
    process = subprocess.Popen(["unshare", *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def end() -> None:
        try:
            process.communicate(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()

    stack.callback(end)
    own = os.readlink("/proc/self/ns/net")
    while os.readlink(f"/proc/{process.pid}/ns/net") == own:
        assert process.poll() is None, "no namespace could be made"
        os.sched_yield()
    return process


def _connect(served: int, used: int, inside: Sequence[str], directory: Path) -> None:
    there = ("nsenter", f"--net=/proc/{served}/ns/net", "--")
    for words in (
        ("ip", "link", "add", "here", "netns", str(used), "type", "veth", "peer", "name", "there", "netns", str(served)),
        (*there, "ip", "link", "set", "lo", "up"),
        (*there, "ip", "addr", "add", f"{HERE}/24", "dev", "there"),
        (*there, "ip", "link", "set", "there", "up"),
        # Whatever comes over the cable is for this machine.
        (*there, "ip", "route", "add", "local", "default", "dev", "lo", "table", "100"),
        (*there, "ip", "rule", "add", "iif", "there", "lookup", "100", "priority", "1"),
        (*inside, "ip", "link", "set", "lo", "up"),
        (*inside, "ip", "addr", "add", f"{HOST}/24", "dev", "here"),
        (*inside, "ip", "link", "set", "here", "up"),
        (*inside, "ip", "route", "add", "default", "via", HERE),
        (*inside, "mount", "--bind", str(directory / "resolv.conf"), os.path.realpath("/etc/resolv.conf")),
    ):  # fmt: skip
        subprocess.run(words, check=True, capture_output=True)
