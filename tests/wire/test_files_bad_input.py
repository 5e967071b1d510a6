"""What no good client sends to `/v1/files`, and what the machine does to it: refused in OpenAI's shape, and nothing half-stored."""

import hashlib
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import openai
import pytest

from tests.store.disk import Disk, small_disk
from tests.support.gateway import Gateway, lasting, running
from tests.wire.schema import check_error

MIB = 1 << 20
BOUNDARY = "----limpet"
FORM = f"multipart/form-data; boundary={BOUNDARY}"


def part(name: str, value: bytes, *, filename: str | None = None) -> bytes:
    shown = "" if filename is None else f'; filename="{filename}"'
    return f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"{shown}\r\n\r\n'.encode() + value + b"\r\n"


FILE = part("file", b"data", filename="a.txt")
PURPOSE = part("purpose", b"user_data")
END = f"--{BOUNDARY}--\r\n".encode()


def expiry(anchor: bytes, seconds: bytes) -> bytes:
    return part("expires_after[anchor]", anchor) + part("expires_after[seconds]", seconds)


WRONG: dict[str, tuple[bytes, str, str]] = {
    "no purpose": (FILE + END, FORM, "purpose"),
    "an unknown purpose": (part("purpose", b"fun") + FILE + END, FORM, "purpose"),
    "an unknown purpose behind the file": (FILE + part("purpose", b"fun") + END, FORM, "purpose"),
    "a purpose that is not UTF-8": (FILE + part("purpose", b"\xff") + END, FORM, "purpose"),
    "no file": (PURPOSE + END, FORM, "file"),
    "a file without a name for it": (PURPOSE + part("file", b"data") + END, FORM, "file"),
    "a file in another part": (PURPOSE + part("data", b"x", filename="a") + END, FORM, "file"),
    "two files": (PURPOSE + FILE + FILE + END, FORM, "file"),
    "two files and the purpose last": (FILE + part("other", b"x", filename="b") + PURPOSE + END, FORM, "file"),
    "no end": (PURPOSE + FILE, FORM, "file"),
    "cut in the file": ((PURPOSE + FILE)[:-5], FORM, "file"),
    "cut in a head": ((PURPOSE + FILE)[:-40], FORM, "file"),
    "nothing": (b"", FORM, "file"),
    "another boundary": (PURPOSE + FILE + END, "multipart/form-data; boundary=other", "file"),
    "no boundary": (PURPOSE + FILE + END, "multipart/form-data", "file"),
    "an empty boundary": (PURPOSE + FILE + END, "multipart/form-data; boundary=", "file"),
    "no form at all": (b"data", FORM, "file"),
    "JSON": (b'{"purpose": "user_data"}', "application/json", "file"),
    "a part without a name": (f"--{BOUNDARY}\r\n\r\nx\r\n".encode() + PURPOSE + FILE + END, FORM, "file"),
    "a head without an end": (f"--{BOUNDARY}\r\nX: {'y' * 70_000}".encode(), FORM, "file"),
    "an anchor of its own": (PURPOSE + expiry(b"now", b"3600") + FILE + END, FORM, "expires_after[anchor]"),
    "an anchor alone": (PURPOSE + part("expires_after[anchor]", b"created_at") + FILE + END, FORM, "expires_after[seconds]"),
    "a time alone": (PURPOSE + part("expires_after[seconds]", b"3600") + FILE + END, FORM, "expires_after[anchor]"),
    "too short a time": (PURPOSE + expiry(b"created_at", b"3599") + FILE + END, FORM, "expires_after[seconds]"),
    "too long a time": (PURPOSE + expiry(b"created_at", b"2592001") + FILE + END, FORM, "expires_after[seconds]"),
    "a time in words": (PURPOSE + expiry(b"created_at", b"1e9") + FILE + END, FORM, "expires_after[seconds]"),
    "a time without end": (PURPOSE + expiry(b"created_at", b"9" * 5000) + FILE + END, FORM, "expires_after[seconds]"),
}  # fmt: skip


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A gateway that takes files of 1 MiB at most."""
    config = f"[storage.files]\nbackend = 'filesystem'\nmax_file_bytes = {MIB}\n"
    with running(tmp_path_factory.mktemp("small"), config=config) as gateway:
        yield gateway


def stored(gateway: Gateway) -> list[Path]:
    """Every file with bytes of blob storage, finished or not."""
    return [path for path in (gateway.home / "blobs").rglob("*") if path.is_file()]


def comes_to_rest(gateway: Gateway, count: int) -> None:
    until = time.monotonic() + 5
    while len(stored(gateway)) != count and time.monotonic() < until:
        time.sleep(0.02)
    assert len(stored(gateway)) == count


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_form_is_refused_with_its_place_and_keeps_nothing(small: Gateway, name: str) -> None:
    body, kind, place = WRONG[name]
    before = len(stored(small))
    with small.http() as http:
        answer = http.post("/v1/files", content=body, headers={"content-type": kind})
    check_error(answer.json())
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, place)
    comes_to_rest(small, before)


def test_the_purpose_may_stand_behind_the_file(small: Gateway) -> None:
    with small.http() as http:
        answer = http.post("/v1/files", content=FILE + PURPOSE + END, headers={"content-type": FORM})
    assert (answer.status_code, answer.json()["bytes"]) == (200, 4)


NAMES = {
    "../../etc/passwd": "passwd",
    "C:\\temp\\a.txt": "a.txt",
    "..": "upload",
    "": "upload",
    "/": "upload",
    "a\tb\x7f.txt": "a_b_.txt",
    "-rf": "-rf",
    "ü" * 400: "ü" * 255,
    "$(reboot).txt": "$(reboot).txt",
}


@pytest.mark.parametrize("name", NAMES)
def test_a_hostile_name_is_only_a_name(small: Gateway, name: str) -> None:
    body = PURPOSE + part("file", b"x", filename=name.replace("\\", "\\\\")) + END
    with small.http() as http:
        answer = http.post("/v1/files", content=body, headers={"content-type": FORM})
        assert (answer.status_code, answer.json()["filename"]) == (200, NAMES[name])
        content = http.get(f"/v1/files/{answer.json()['id']}/content")
    assert content.content == b"x"


@pytest.mark.parametrize(
    "name", ["../../x", "file-../../x", "file-" + "0" * 32, "file_" + "0" * 32, "cfile_x", "%00", "é" * 300]
)
def test_an_id_that_is_none_is_unknown(small: Gateway, name: str) -> None:
    with small.http() as http:
        for path in (f"/v1/files/{name}", f"/v1/files/{name}/content"):
            answer = http.get(path)
            check_error(answer.json())
            assert answer.status_code == 404


QUERIES = ("limit=0", "limit=10001", "limit=x", "order=up", "after=file-nowhere", "after=")


@pytest.mark.parametrize("query", QUERIES)
def test_a_wrong_query_is_refused_by_name(small: Gateway, query: str) -> None:
    with small.http() as http:
        answer = http.get(f"/v1/files?{query}")
    check_error(answer.json())
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, query.partition("=")[0])


def test_a_file_may_have_as_many_bytes_as_it_may_and_not_one_more(small: Gateway) -> None:
    client = small.client()
    assert client.files.create(file=("a", b"x" * MIB), purpose="user_data").bytes == MIB
    before = len(stored(small))
    with pytest.raises(openai.APIStatusError) as refused:
        client.files.create(file=("a", b"x" * (MIB + 1)), purpose="user_data")
    assert (refused.value.status_code, refused.value.code) == (413, "file_too_large")
    check_error(refused.value.response.json())
    comes_to_rest(small, before)


def test_a_file_without_an_announced_size_is_cut_off_at_the_limit(small: Gateway) -> None:
    def endless() -> Iterator[bytes]:
        yield PURPOSE + part("file", b"", filename="a")[:-2]
        for _ in range(64):
            yield b"x" * MIB

    before = len(stored(small))
    with small.http() as http:
        answer = http.post("/v1/files", content=endless(), headers={"content-type": FORM})
    assert (answer.status_code, answer.json()["error"]["code"]) == (413, "file_too_large")
    comes_to_rest(small, before)


def opened(gateway: Gateway, *, announced: int) -> socket.socket:
    """A connection on which an upload of that size has begun."""
    host, _, port = urlsplit(gateway.url).netloc.partition(":")
    connection = socket.create_connection((host, int(port)), timeout=10)
    head = (
        f"POST /v1/files HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Type: {FORM}\r\nContent-Length: {announced}\r\n\r\n"
    )
    connection.sendall(head.encode() + PURPOSE + part("file", b"", filename="a")[:-2])
    return connection


def test_an_upload_that_breaks_off_keeps_nothing(small: Gateway) -> None:
    before, listed = len(stored(small)), len(small.client().files.list().data)
    with opened(small, announced=MIB) as connection:
        connection.sendall(b"x" * (MIB // 2))
        comes_to_rest(small, before + 1)
    comes_to_rest(small, before)
    assert len(small.client().files.list().data) == listed


def test_an_upload_under_a_killed_gateway_keeps_nothing(home_directory: Path) -> None:
    with lasting(home_directory, runtime="memory") as gateway:
        kept = gateway.client().files.create(file=("kept", b"kept"), purpose="user_data")
        with opened(gateway, announced=64 * MIB) as connection:
            connection.sendall(b"x" * (8 * MIB))
            comes_to_rest(gateway, 2)
            gateway.kill()
        gateway.start()
        comes_to_rest(gateway, 1)
        assert [file.id for file in gateway.client().files.list().data] == [kept.id]
        assert gateway.client().files.content(kept.id).read() == b"kept"


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    with small_disk(tmp_path) as disk:
        yield disk


def test_a_full_disk_is_told_and_the_gateway_serves_on(home_directory: Path, disk: Disk) -> None:
    config = f"[storage.files]\nbackend = 'filesystem'\npath = '{disk.path}/files'\n"
    with running(home_directory, runtime="memory", config=config) as gateway:
        client = gateway.client()
        with pytest.raises(openai.InternalServerError, match="is full") as refused:
            client.files.create(file=("a", b"x" * (8 * MIB)), purpose="user_data")
        check_error(refused.value.response.json())
        assert client.files.list().data == []
        file = client.files.create(file=("a", b"x" * 1000), purpose="user_data")
        assert client.files.content(file.id).read() == b"x" * 1000


def most_memory(status: Path) -> int:
    """The most bytes that a process ever had in memory."""
    (line,) = [line for line in status.read_text().splitlines() if line.startswith("VmHWM:")]
    return int(line.split()[1]) * 1024


def test_a_large_file_is_never_in_memory(home_directory: Path) -> None:
    size = 192 * MIB
    block = os.urandom(MIB)
    digest = hashlib.sha256(block * 192).hexdigest()

    def form() -> Iterator[bytes]:
        yield PURPOSE + part("file", b"", filename="large")[:-2]
        for _ in range(192):
            yield block
        yield b"\r\n" + END

    with running(home_directory, runtime="memory") as gateway, gateway.http() as http:
        assert gateway.process is not None
        status = Path(f"/proc/{gateway.process.pid}/status")
        http.post("/v1/files", content=PURPOSE + FILE + END, headers={"content-type": FORM})
        before = most_memory(status)
        answer = http.post("/v1/files", content=form(), headers={"content-type": FORM}).json()
        assert answer["bytes"] == size
        got = hashlib.sha256()
        with http.stream("GET", f"/v1/files/{answer['id']}/content") as download:
            for piece in download.iter_bytes():
                got.update(piece)
        after = most_memory(status)
    assert got.hexdigest() == digest
    assert after - before < 48 * MIB
