"""Engines for the tests of this folder, one of each kind for all, which have one small image."""

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.container_engines import docker_daemon, import_image, podman_service, small_root

IMAGE = "limpet-tests/small:1"
WITHOUT_BASH = "limpet-tests/sh:1"
HOSTILE = "limpet-tests/hostile:1"


@dataclass(frozen=True, slots=True)
class DockerEngine:
    """`address` of a daemon that has the image IMAGE."""

    address: str

    def runtime(self, home: Path, **settings: Any) -> Any:
        """A runtime over it, not yet open."""
        from limpet.runtimes.docker.runtime import DockerRuntime  # noqa: PLC0415 (an extra)
        from limpet.runtimes.docker.settings import DockerSettings  # noqa: PLC0415

        return DockerRuntime(
            DockerSettings(**{"home": home, "address": self.address, "image": Path(IMAGE), **settings})
        )

    def api(self) -> Any:
        """The engine's own client."""
        import docker  # noqa: PLC0415

        return docker.APIClient(base_url=self.address, version="auto")


@pytest.fixture(scope="session")
def docker_engine() -> Iterator[DockerEngine]:
    """Docker's."""
    with _of(docker_daemon) as engine:
        yield engine


@pytest.fixture(scope="session", params=["docker", "podman"])
def each_engine(request: pytest.FixtureRequest) -> Iterator[DockerEngine]:
    """Docker's, and podman's that speaks as it does."""
    if request.param == "docker":
        yield request.getfixturevalue("docker_engine")
        return
    with _of(podman_service) as engine:
        yield engine


@contextmanager
def _of(service: Callable[[Path], AbstractContextManager[str]]) -> Iterator[DockerEngine]:
    pytest.importorskip("docker", reason="the package docker is not installed")
    if os.geteuid() != 0:
        pytest.skip("only root can start an engine of containers")
    with tempfile.TemporaryDirectory(prefix="ld-") as name:
        room = Path(name)
        room.chmod(0o711)
        with service(room) as address:
            import_image(
                address, small_root(room / "image"), IMAGE, "ENV GREETING=hello", "ENV PATH=/opt/bin:/usr/bin:/bin"
            )
            yield DockerEngine(address)


def make_image_without_bash(address: str) -> None:
    """The same image without it."""
    with tempfile.TemporaryDirectory(prefix="ld-") as name:
        root = small_root(Path(name) / "root")
        for place in root.rglob("bash"):
            place.unlink()
        import_image(address, root, WITHOUT_BASH)


def make_hostile_image(address: str) -> None:
    """The same image, which says in each way that it can what shall run or be loaded, and be writable, beside a command."""
    with tempfile.TemporaryDirectory(prefix="ld-") as name:
        root = small_root(Path(name) / "root")
        (root / "etc/ld.so.preload").write_text("/nowhere.so\n")
        (root / "wide").mkdir(mode=0o777)
        (root / "wide").chmod(0o777)
        told = [
            "VOLUME /wide",
            "LABEL limpet.ends-with-owner=true",
            "ENV LD_PRELOAD=/nowhere.so",
            "ENV BASH_ENV=/etc/issue",
        ]
        import_image(
            address,
            root,
            HOSTILE,
            *told,
            "ENV GREETING=hello",
            "HEALTHCHECK --interval=1s CMD touch /run/limpet/agent/mine",
        )
