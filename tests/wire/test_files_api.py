"""`/v1/files` through the official client: uploaded, listed, shown, downloaded, deleted."""

import hashlib
import re
import time
from typing import Any

import httpx2
import openai
import pytest

from tests.support.gateway import Gateway
from tests.wire.asking import container_of, run
from tests.wire.schema import check_deleted, check_error, check_file, check_file_list

ALL_BYTES = bytes(range(256)) * 40


def upload(client: openai.OpenAI, name: str = "a.txt", data: bytes = b"data", **options: Any) -> Any:
    return client.files.create(file=(name, data), **{"purpose": "user_data", **options})


def get(gateway: Gateway, path: str, **headers: str) -> httpx2.Response:
    with gateway.http() as http:
        return http.get(path, headers=headers)


def test_a_file_is_shown_with_every_field_and_downloaded_as_it_was(gateway: Gateway, client: openai.OpenAI) -> None:
    before = int(time.time())

    file = upload(client, "résidus.csv", ALL_BYTES)

    assert re.fullmatch(r"file-[0-9a-f]{32}", file.id)
    assert before <= file.created_at <= time.time()
    shape = get(gateway, f"/v1/files/{file.id}").json()
    check_file(shape)
    assert shape == {
        "id": file.id,
        "object": "file",
        "bytes": len(ALL_BYTES),
        "created_at": file.created_at,
        "filename": "résidus.csv",
        "purpose": "user_data",
        "status": "processed",
    }
    assert client.files.retrieve(file.id).id == file.id
    assert client.files.content(file.id).read() == ALL_BYTES


@pytest.mark.parametrize("size", [0, 1, 65_536, 1 << 20, (3 << 20) + 1])
def test_a_file_of_any_size_comes_back(client: openai.OpenAI, size: int) -> None:
    data = (b"\r\n--boundary\r\n\0\xff" * (size // 16 + 1))[:size]
    file = upload(client, data=data)
    assert file.bytes == size
    assert client.files.content(file.id).read() == data


def test_each_purpose_is_taken_and_found_again(gateway: Gateway, client: openai.OpenAI) -> None:
    for purpose in ("assistants", "batch", "fine-tune", "vision", "user_data", "evals"):
        file = upload(client, purpose=purpose)
        assert file.id in [each.id for each in client.files.list(purpose=purpose, limit=5).data]
        # OpenAI's own schema of the answer does not know `evals`.
        assert file.purpose == ("user_data" if purpose == "evals" else purpose)
    check_file_list(get(gateway, "/v1/files?limit=6").json())


def test_files_are_paged_without_gap_or_repeat_in_both_orders(gateway: Gateway, client: openai.OpenAI) -> None:
    ids = [upload(client, f"{number}.txt", purpose="fine-tune").id for number in range(5)]

    page = get(gateway, "/v1/files?limit=2&purpose=fine-tune").json()

    check_file_list(page)
    assert (page["first_id"], page["last_id"], page["has_more"]) == (ids[4], ids[3], True)
    newest = [file.id for file in client.files.list(limit=2, purpose="fine-tune")][:5]
    assert newest == ids[::-1]
    oldest = [file.id for file in client.files.list(limit=2, purpose="fine-tune", order="asc")]
    assert oldest[-5:] == ids


def test_all_files_can_be_deleted_while_they_are_listed(client: openai.OpenAI) -> None:
    ids = [upload(client, purpose="assistants").id for _ in range(5)]
    gone = []
    for file in client.files.list(limit=2, purpose="assistants"):
        client.files.delete(file.id)
        gone.append(file.id)
    assert gone[:5] == ids[::-1]
    assert client.files.list(purpose="assistants").data == []


def test_a_deleted_file_is_gone_from_everywhere(gateway: Gateway, client: openai.OpenAI) -> None:
    file = upload(client)
    with gateway.http() as http:
        check_deleted(http.delete(f"/v1/files/{file.id}").json(), "file")
        for answer in (
            http.delete(f"/v1/files/{file.id}"),
            http.get(f"/v1/files/{file.id}"),
            http.get(f"/v1/files/{file.id}/content"),
        ):
            check_error(answer.json())
            assert (answer.status_code, answer.json()["error"]["code"]) == (404, "file_not_found")
    assert file.id not in [each.id for each in client.files.list().data]


def test_expiry_is_counted_from_creation(client: openai.OpenAI) -> None:
    file = client.files.create(
        file=("a", b"x"), purpose="user_data", expires_after={"anchor": "created_at", "seconds": 3600}
    )
    assert file.expires_at == file.created_at + 3600
    assert upload(client).expires_at is None
    batch = upload(client, purpose="batch")  # thirty days, as at OpenAI
    assert batch.expires_at == batch.created_at + 2_592_000


RANGES = {
    "bytes=0-3": (206, "bytes 0-3/10", b"0123"),
    "bytes=4-": (206, "bytes 4-9/10", b"456789"),
    "bytes=-2": (206, "bytes 8-9/10", b"89"),
    "bytes=8-99": (206, "bytes 8-9/10", b"89"),
    "bytes=0-1,3-4": (200, None, b"0123456789"),
    "bytes=5-2": (200, None, b"0123456789"),
}


@pytest.mark.parametrize("asked", RANGES)
def test_a_range_gives_those_bytes(gateway: Gateway, client: openai.OpenAI, asked: str) -> None:
    file = upload(client, data=b"0123456789")
    answer = get(gateway, f"/v1/files/{file.id}/content", range=asked)
    status, content_range, content = RANGES[asked]
    assert (answer.status_code, answer.headers.get("content-range"), answer.content) == (status, content_range, content)
    assert answer.headers["content-length"] == str(len(content))


def test_a_range_behind_the_end_is_refused_with_the_size(gateway: Gateway, client: openai.OpenAI) -> None:
    file = upload(client, data=b"0123456789")
    answer = get(gateway, f"/v1/files/{file.id}/content", range="bytes=10-")
    check_error(answer.json())
    assert (answer.status_code, answer.headers["content-range"]) == (416, "bytes */10")


def test_a_download_that_broke_off_is_continued_only_on_the_same_bytes(gateway: Gateway, client: openai.OpenAI) -> None:
    file = upload(client, data=b"0123456789")
    path = f"/v1/files/{file.id}/content"
    etag = get(gateway, path).headers["etag"]
    assert etag == f'"{hashlib.sha256(b"0123456789").hexdigest()}"'
    assert get(gateway, path, **{"range": "bytes=5-", "if-range": etag}).content == b"56789"
    assert get(gateway, path, **{"range": "bytes=5-", "if-range": '"other"'}).status_code == 200
    assert get(gateway, path, **{"if-none-match": etag}).status_code == 304
    with gateway.http() as http:
        head = http.head(path)
    assert (head.status_code, head.headers["content-length"], head.content) == (200, "10", b"")


def test_a_download_is_never_a_page_of_this_origin(gateway: Gateway, client: openai.OpenAI) -> None:
    file = client.files.create(file=("a'b;é.html", b"<script>", "text/html"), purpose="user_data")
    headers = get(gateway, f"/v1/files/{file.id}/content").headers
    assert headers["content-type"] == "application/octet-stream"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["content-disposition"] == "attachment; filename*=UTF-8''a%27b%3B%C3%A9.html"


@pytest.mark.promise("container-files-are-not-files-api-files")
def test_a_containers_file_becomes_one_of_these_only_by_an_upload(client: openai.OpenAI) -> None:
    container = container_of(run(client, "echo made > made-in-a-box.txt"))
    (made,) = client.containers.files.list(container).data
    assert "made-in-a-box.txt" not in [file.filename for file in client.files.list().data]
    with pytest.raises(openai.NotFoundError):
        client.files.retrieve(made.id)
    data = client.containers.files.content.retrieve(made.id, container_id=container).read()
    file = upload(client, "made-in-a-box.txt", data)
    assert client.files.content(file.id).read() == b"made\n"


@pytest.mark.anyio
async def test_the_asynchronous_client_does_the_same(gateway: Gateway) -> None:
    async with openai.AsyncOpenAI(
        base_url=f"{gateway.url}/v1", api_key="none", max_retries=0, _strict_response_validation=True
    ) as client:
        file = await client.files.create(file=("a.txt", ALL_BYTES), purpose="user_data")
        assert (await client.files.content(file.id)).content == ALL_BYTES
        assert file.id in [each.id async for each in client.files.list(limit=3)][:3]
        assert (await client.files.delete(file.id)).deleted
