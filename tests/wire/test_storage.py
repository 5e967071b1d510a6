"""`[storage.*]`: the same files in every backend, none lost when the settings change, all moved when the operator asks."""

import os
import socket
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import openai
import pytest

from tests.support.gateway import Gateway, lasting, running
from tests.support.homes import home_apart
from tests.support.prepared import ran
from tests.support.s3 import KEYS, REGION, Server, s3_server
from tests.wire.asking import container_of, printed, run
from tests.wire.conftest import RUNTIME

CONTENT = {"empty": b"", "small": b"data", "large": bytes(range(256)) * 40_000}


@pytest.fixture(scope="module")
def s3() -> Iterator[Server]:
    with s3_server() as server:
        yield server


def in_bucket(server: Server, bucket: str) -> str:
    return (
        f'[storage.container_files]\nbackend = "s3"\nbucket = "{bucket}"\nregion = "{REGION}"\n'
        f'endpoint = "{server.url}"\nprefix = "limpet"\n'
    )


IN_DATABASE = '[storage.files]\nbackend = "database"\n'
IN_DIRECTORY = '[storage.files]\nbackend = "filesystem"\n'


def put_all(client: openai.OpenAI) -> dict[str, bytes]:
    """Upload each content; what each id must give back."""
    return {client.files.create(file=(name, data), purpose="user_data").id: data for name, data in CONTENT.items()}


def has_all(client: openai.OpenAI, files: dict[str, bytes]) -> bool:
    return {id: client.files.content(id).read() for id in files} == files


def restart(gateway: Gateway, config: str) -> openai.OpenAI:
    gateway.stop()
    gateway.config = config
    return gateway.start().client()


def move(gateway: Gateway, **variables: str) -> str:
    """What `limpet storage move` says, with the gateway's own settings. An empty variable is not set."""
    environment = {"PATH": os.environ["PATH"], "LIMPET_HOME": str(gateway.home), **KEYS, **variables}
    done = ran(
        ["storage", "move", "--config", str(gateway.directory / "limpet.toml")],
        env={name: value for name, value in environment.items() if value},
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def eventually(claim: Callable[[], bool]) -> None:
    until = time.monotonic() + 5
    while not claim() and time.monotonic() < until:
        time.sleep(0.02)
    assert claim()


def in_directory(gateway: Gateway) -> int:
    return sum(path.is_file() for path in (gateway.home / "blobs").rglob("*"))


def test_a_bucket_keeps_uploaded_files_and_gives_any_range(home_directory: Path, s3: Server) -> None:
    bucket = s3.bucket("uploads")
    with running(home_directory, runtime="memory", config=in_bucket(s3, bucket), env=KEYS) as gateway:
        client = gateway.client()
        files = put_all(client)
        assert has_all(client, files)
        assert (len(s3.keys(bucket)), in_directory(gateway)) == (3, 0)
        assert all(key.startswith("limpet/") for key in s3.keys(bucket))
        with gateway.http() as http:
            part = http.get(f"/v1/files/{list(files)[2]}/content", headers={"range": "bytes=9000000-9000003"})
        assert (part.status_code, part.content) == (206, CONTENT["large"][9_000_000:9_000_004])
        for id in files:
            client.files.delete(id)
        assert (s3.keys(bucket), s3.unfinished(bucket)) == ([], 0)


def test_a_bucket_that_cannot_be_used_is_told_at_the_start(home_directory: Path, s3: Server) -> None:
    with pytest.raises(
        AssertionError,
        match=r"no-such-bucket.* cannot be used: The specified bucket does not exist \(NoSuchBucket\)\. Look at",
    ):
        Gateway(home_directory, runtime="memory", config=in_bucket(s3, "no-such-bucket"), env=KEYS).start()


def test_changed_settings_lose_nothing_and_a_move_brings_all_over(home_directory: Path, s3: Server) -> None:
    bucket = s3.bucket("moved-to")
    with lasting(home_directory, runtime="memory", config=IN_DIRECTORY, env=KEYS) as gateway:
        files = put_all(gateway.client())
        client = restart(gateway, IN_DATABASE)
        files |= put_all(client)
        assert has_all(client, files)
        assert in_directory(gateway) == 3

        client = restart(gateway, in_bucket(s3, bucket))
        assert has_all(client, files)
        said = move(gateway)  # while the gateway serves
        assert said == "moved 6 of 6 files, 19.5 MiB of 19.5 MiB"
        assert (has_all(client, files), in_directory(gateway), len(s3.keys(bucket))) == (True, 0, 6)
        assert move(gateway) == "Everything is where the settings say."

        client = restart(gateway, IN_DIRECTORY)
        move(gateway)
        assert (has_all(client, files), in_directory(gateway), s3.keys(bucket)) == (True, 6, [])


@pytest.mark.parametrize("section", ["storage.files", "storage.container_files"])
def test_a_move_back_from_a_bucket_needs_the_configured_keys_alone(
    home_directory: Path, s3: Server, section: str
) -> None:
    keys = f'access_key_id = "{KEYS["AWS_ACCESS_KEY_ID"]}"\nsecret_access_key = "{KEYS["AWS_SECRET_ACCESS_KEY"]}"\n'
    bucket = s3.bucket(f"moved-back-{section.partition('.')[2].replace('_', '-')}")
    config = in_bucket(s3, bucket).replace("storage.container_files", section) + keys
    with lasting(home_directory, runtime="memory", config=config) as gateway:
        files = put_all(gateway.client())
        assert len(s3.keys(bucket)) == 3
        client = restart(gateway, f'[{section}]\nbackend = "filesystem"\n{keys}')
        assert has_all(client, files)
        move(gateway, **dict.fromkeys(KEYS, ""))
        assert (has_all(client, files), in_directory(gateway), s3.keys(bucket)) == (True, 3, [])


def kept_copies(gateway: Gateway) -> list[bytes]:
    """What the database keeps of captured files."""
    query = (
        "SELECT group_concat(hex(data), '') FROM blob_parts JOIN blobs USING (key) WHERE state = 'kept' GROUP BY key"
    )
    with closing(sqlite3.connect(f"file:{gateway.home}/limpet.db?mode=ro", uri=True)) as database:
        return sorted(bytes.fromhex(row[0]) for row in database.execute(query))


@pytest.mark.promise("captured-bytes-have-a-configurable-home", "container-files-default-to-the-filesystem")
def test_captured_bytes_are_copied_to_the_database_only_where_the_settings_say_so(home_directory: Path) -> None:
    with lasting(home_directory, runtime=RUNTIME) as gateway:
        first = container_of(run(gateway.client(), "echo one > a.txt"))
        assert (kept_copies(gateway), in_directory(gateway)) == ([], 0)
        assert (gateway.home / "boxes" / first / "data/a.txt").read_text() == "one\n"

        client = restart(gateway, '[storage.container_files]\nbackend = "database"\n')
        container = container_of(run(client, "echo two > a.txt; echo three > b.txt"))
        client.containers.files.create(container, file=("c.txt", b"mine"))
        assert kept_copies(gateway) == [b"mine", b"three\n", b"two\n"]

        assert move(gateway) == "moved 1 of 1 files, 4 B of 4 B"
        assert kept_copies(gateway) == [b"mine", b"one\n", b"three\n", b"two\n"]
        run(client, "echo TWO > a.txt; rm b.txt", container=container)
        client.containers.delete(first)
        eventually(lambda: kept_copies(gateway) == [b"TWO\n", b"mine"])


@pytest.mark.promise("container-files-live-in-a-bucket")
def test_captured_bytes_are_copied_to_a_bucket_and_go_with_their_container(home_directory: Path, s3: Server) -> None:
    bucket = s3.bucket("captured")
    with running(home_directory, runtime=RUNTIME, config=in_bucket(s3, bucket), env=KEYS) as gateway:
        client = gateway.client()
        container = container_of(run(client, "seq 100000 > a.txt; printf x > b.txt"))
        assert s3.sizes(bucket) == [1, 588_895]
        client.containers.delete(container)
        eventually(lambda: s3.keys(bucket) == [])


def test_a_bucket_that_falls_silent_costs_no_command_its_result(home_directory: Path) -> None:
    with s3_server() as server:
        config = in_bucket(server, server.bucket("silent"))
        gateway = Gateway(home_directory, runtime="memory", config=config, env=KEYS).start()
    try:
        client = gateway.client()
        container = container_of(run(client, "echo one > a.txt; echo done"))
        (file,) = client.containers.files.list(container).data
        assert client.containers.files.content.retrieve(file.id, container_id=container).read() == b"one\n"
    finally:
        gateway.stop()


@pytest.mark.promise("container-files-live-in-a-directory")
def test_containers_have_their_files_under_the_path_that_held_when_they_were_made(home_directory: Path) -> None:
    with home_apart() as apart, lasting(home_directory, runtime=RUNTIME) as gateway:
        path = apart.parent / "files"
        at_home = container_of(run(gateway.client(), "echo one > a.txt"))

        client = restart(gateway, f'[storage.container_files]\npath = "{path}"\n')
        at_path = container_of(run(client, "echo two > a.txt"))
        assert (path / at_path / "data/a.txt").read_text() == "two\n"
        assert printed(run(client, "cat a.txt", container=at_home)) == "one\n"

        client = restart(gateway, "")
        assert printed(run(client, "cat a.txt", container=at_path)) == "two\n"
        (file,) = client.containers.files.list(at_path).data
        assert client.containers.files.content.retrieve(file.id, container_id=at_path).read() == b"two\n"
        client.containers.delete(at_path)
        assert not (path / at_path).exists()


def test_a_directory_that_boxes_cannot_pass_is_told_at_the_start(home_directory: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root gives boxes users of their own")
    (home_directory / "closed").mkdir(mode=0o700)
    config = f'[storage.container_files]\npath = "{home_directory}/closed/files"\n'
    with pytest.raises(AssertionError, match=r"lets no other user pass\. Run chmod"):
        Gateway(home_directory, runtime="memory", config=config).start()


def test_two_moves_at_once_are_one(home_directory: Path) -> None:
    with running(home_directory, runtime="memory") as gateway:
        holder = (gateway.home / "storage.lock").open("w")
        with holder:
            subprocess.run(["flock", "-n", str(holder.fileno())], pass_fds=[holder.fileno()], check=True)
            with pytest.raises(AssertionError, match=r"storage\.lock is locked"):
                move(gateway)
        move(gateway)


def test_a_small_upload_behind_a_large_one_on_the_same_connection_is_taken(home_directory: Path) -> None:
    with running(home_directory, runtime="memory") as gateway, gateway.http() as http:
        for size in (1_000_000, 100):
            form = {"data": {"purpose": "user_data"}, "files": {"file": ("x", bytes(size))}}
            assert http.post("/v1/files", **form).status_code == 200
        body = b"--b\r\ncontent-disposition: form-data; name=purpose\r\n\r\nuser_data\r\n--b\r\ncontent-disposition: form-data; "
        body += b"name=file; filename=x\r\n\r\nx\r\n--b--\r\n"
        head = b"POST /v1/files HTTP/1.1\r\nhost: localhost\r\ncontent-type: multipart/form-data; boundary=b\r\n"
        host, port = gateway.url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=5) as connection:
            large = body.replace(b"\r\nx\r\n", b"\r\n" + bytes(1_000_000) + b"\r\n")
            for sent in (large, body):
                connection.sendall(head + b"content-length: %d\r\n\r\n" % len(sent) + sent)
                answer = b""
                while not answer.endswith(b"}"):
                    answer += connection.recv(65536)
                assert answer.startswith(b"HTTP/1.1 200"), answer
