"""Files of the Files API put into containers by their ids, and container files given out in ranges."""

import hashlib
from typing import Any

import httpx2
import openai
import pytest

from tests.support.gateway import Gateway
from tests.support.host import processes_of, stored_ref
from tests.wire.asking import container_of, output_files, printed, run
from tests.wire.schema import check_container_file, check_error

DATA = bytes(range(256)) * 8


def post(gateway: Gateway, container: str, body: Any, **headers: str) -> httpx2.Response:
    with gateway.http() as http:
        return http.post(f"/v1/containers/{container}/files", json=body, headers=headers)


@pytest.mark.promise("container-files-post-takes-a-file-id")
def test_an_uploaded_file_goes_into_a_sleeping_container_by_its_id(gateway: Gateway, client: openai.OpenAI) -> None:
    upload = client.files.create(file=("table.csv", DATA), purpose="user_data")
    container = client.containers.create(name="sleeping").id

    file = client.containers.files.create(container, file_id=upload.id)

    check_container_file(file.to_dict())
    assert (file.path, file.bytes, file.source) == ("/mnt/data/table.csv", len(DATA), "user")
    assert (stored_ref(gateway.home / "limpet.db", container), processes_of(container)) == (None, [])
    digest = printed(run(client, "sha256sum < table.csv; echo more >> table.csv", container=container)).split()[0]
    assert digest == hashlib.sha256(DATA).hexdigest()
    assert client.files.content(upload.id).read() == DATA


def test_into_a_live_box_too_where_an_equal_name_is_replaced_and_keeps_its_id(client: openai.OpenAI) -> None:
    container = container_of(run(client, "echo old > note.txt"))
    (before,) = client.containers.files.list(container).data
    upload = client.files.create(file=("note.txt", b"new"), purpose="user_data")

    after = client.containers.files.create(container, file_id=upload.id)

    assert (after.id, after.source) == (before.id, "user")
    client.files.delete(upload.id)
    assert printed(run(client, "cat note.txt; stat -c ' %U' note.txt", container=container)) == "new agent\n"


@pytest.mark.parametrize(
    "body, status, code",
    [
        ({"file_id": "file-" + "0" * 32}, 404, "file_not_found"),
        ({"file_id": ""}, 404, "file_not_found"),
        ({"file_id": "../x"}, 404, "file_not_found"),
        ({"file_id": 5}, 400, None),
        ({}, 400, None),
        ([], 400, None),
        ("file-1", 400, None),
    ],
)
def test_what_is_no_uploaded_file_is_refused_and_leaves_nothing(
    gateway: Gateway, client: openai.OpenAI, body: Any, status: int, code: str | None
) -> None:
    container = client.containers.create(name="none").id

    refused = post(gateway, container, body)

    check_error(refused.json())
    error = refused.json()["error"]
    assert (refused.status_code, error["param"], error["code"]) == (status, "file_id", code)
    assert client.containers.files.list(container).data == []


def test_a_container_that_there_is_not_is_404_before_the_file_is_looked_for(gateway: Gateway) -> None:
    assert post(gateway, "cntr_0", {"file_id": "file-0"}).json()["error"]["code"] == "container_not_found"


@pytest.mark.parametrize(
    "asked, status, content, said",
    [
        ("bytes=0-9", 206, DATA[:10], f"bytes 0-9/{len(DATA)}"),
        ("bytes=2000-", 206, DATA[2000:], f"bytes 2000-2047/{len(DATA)}"),
        ("bytes=-5", 206, DATA[-5:], f"bytes 2043-2047/{len(DATA)}"),
        ("bytes=9-2", 200, DATA, None),
        ("lines=1-2", 200, DATA, None),
        ("bytes=2048-", 416, None, f"bytes */{len(DATA)}"),
    ],
)
def test_content_is_given_in_ranges(
    gateway: Gateway, client: openai.OpenAI, asked: str, status: int, content: bytes | None, said: str | None
) -> None:
    container = client.containers.create(name="ranges").id
    file = client.containers.files.create(container, file=("a.bin", DATA))

    with gateway.http() as http:
        answer = http.get(f"/v1/containers/{container}/files/{file.id}/content", headers={"range": asked})

    assert (answer.status_code, answer.headers.get("content-range")) == (status, said)
    if content is None:
        check_error(answer.json())
    else:
        assert answer.content == content
        assert answer.headers["accept-ranges"] == "bytes"


def test_a_client_that_has_the_content_gets_it_again_only_when_it_has_changed(
    gateway: Gateway, client: openai.OpenAI
) -> None:
    response = run(client, "echo one > log")
    container, (file,) = container_of(response), output_files(response)
    path = f"/v1/containers/{container}/files/{file['file_id']}/content"

    with gateway.http() as http:
        first = http.get(path)
        same = http.get(path, headers={"if-none-match": first.headers["etag"]})
        head = http.head(path)
        run(client, "echo two > log", container=container)
        resumed = http.get(path, headers={"range": "bytes=2-", "if-range": first.headers["etag"]})

    assert first.headers["etag"] == f'"{hashlib.sha256(b"one" + bytes([10])).hexdigest()}"'
    assert (same.status_code, same.content) == (304, b"")
    assert (head.status_code, head.content, head.headers["content-length"]) == (200, b"", "4")
    assert (resumed.status_code, resumed.content) == (200, b"two\n")
