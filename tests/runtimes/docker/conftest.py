"""One engine for all tests of this folder, which has one small image, also by the name of the default one."""

import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.container_engines import docker_daemon, import_image, small_root

IMAGE = "limpet-tests/small:1"


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
def engine() -> Iterator[DockerEngine]:
    pytest.importorskip("docker", reason="the package docker is not installed")
    if os.geteuid() != 0:
        pytest.skip("only root can start an engine of containers")
    with tempfile.TemporaryDirectory(prefix="ld-") as name:
        room = Path(name)
        room.chmod(0o711)
        with docker_daemon(room) as address:
            import_image(address, small_root(room / "root"), IMAGE, "ENV GREETING=hello PATH=/opt/bin:/usr/bin:/bin")
            engine = DockerEngine(address)
            _tag_as_default(engine)
            yield engine


def _tag_as_default(engine: DockerEngine) -> None:
    from limpet.runtimes.docker.settings import DEFAULT_IMAGE  # noqa: PLC0415

    repository, _, tag = DEFAULT_IMAGE.partition(":")
    api = engine.api()
    api.tag(IMAGE, repository, tag)
    api.close()
