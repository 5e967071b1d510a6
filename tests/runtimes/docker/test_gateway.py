"""The gateway over the runtime `docker`: files, chains and background services over a kill, and nothing left when it is told to go."""

from pathlib import Path

from tests.runtimes.docker.conftest import IMAGE, DockerEngine
from tests.support.gateway import lasting
from tests.support.host import eventually
from tests.wire.asking import container_of, printed, run

_SERVICE = "(while :; do date +%s%N > beat; sleep 0.1; done) > /dev/null 2>&1 & echo one > kept; cat /etc/issue"


def test_a_chain_its_files_and_its_service_outlive_a_killed_gateway(
    docker_engine: DockerEngine, tmp_path: Path
) -> None:
    config = f'[features.shell]\ntype = "docker"\nimage = "{IMAGE}"\n'
    with lasting(tmp_path, runtime="docker", config=config, env={"DOCKER_HOST": docker_engine.address}) as gateway:
        client = gateway.client()
        first = run(client, _SERVICE)
        assert printed(first) == "of the image\n"
        uploaded = client.containers.files.create(container_of(first), file=("in.txt", b"uploaded"))
        gateway.kill()
        client = gateway.start().client()

        second = run(client, "cat kept in.txt; echo two > out.txt; cp beat seen", previous_response_id=first.id)
        assert (container_of(second), printed(second)) == (container_of(first), "one\nuploaded")
        third = run(client, "until ! cmp -s beat seen; do sleep 0.05; done; echo beats", container=container_of(first))
        assert printed(third) == "beats\n"
        names = {file.path for file in client.containers.files.list(container_of(first))}
        assert {"/mnt/data/out.txt", "/mnt/data/kept", uploaded.path} <= names

        client.containers.delete(container_of(first))
        eventually(lambda: not _containers(docker_engine))


def _containers(engine: DockerEngine) -> list[object]:
    api = engine.api()
    try:
        return list(api.containers(all=True))
    finally:
        api.close()
