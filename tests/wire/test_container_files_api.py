"""`/v1/containers/{id}/files` through the official client: listed, shown, downloaded, uploaded, deleted."""

import hashlib
import re
import time
from typing import Any

import openai
import pytest

from tests.support.gateway import Gateway
from tests.support.host import processes_of, stored_ref
from tests.wire.asking import container_of, printed, run
from tests.wire.schema import check_container_file, check_container_file_list, check_deleted, check_error

ALL_BYTES = bytes(range(256)) * 40


def as_json(gateway: Gateway, path: str) -> Any:
    with gateway.http() as http:
        return http.get(path).json()


@pytest.mark.promise(
    "container-file-metadata-is-shown", "container-file-content-is-raw-bytes", "hadrian-ids-have-their-prefixes"
)
def test_a_written_file_is_shown_with_every_field_and_downloaded_raw(gateway: Gateway, client: openai.OpenAI) -> None:
    before = int(time.time())
    response = run(client, "mkdir sub; printf 'a\\0b\\r\\n' > sub/page.html")
    container = container_of(response)

    (file,) = client.containers.files.list(container).data

    shape = file.to_dict()
    check_container_file(shape)
    assert re.fullmatch(r"cfile_[0-9a-f]{32}", file.id)
    assert before <= file.created_at <= time.time()
    assert shape == {
        "id": file.id,
        "object": "container.file",
        "container_id": container,
        "created_at": file.created_at,
        "bytes": 5,
        "path": "/mnt/data/sub/page.html",
        "source": "assistant",
        "filename": "page.html",
        "content_type": "text/html",
    }
    assert client.containers.files.retrieve(file.id, container_id=container).to_dict() == shape
    assert client.containers.files.content.retrieve(file.id, container_id=container).read() == b"a\0b\r\n"


@pytest.mark.promise("container-files-are-listed", "hadrian-lists-have-openais-envelope")
def test_files_are_paged_without_gap_or_repeat_in_both_orders(gateway: Gateway, client: openai.OpenAI) -> None:
    container = container_of(run(client, *(f"echo {number} > {number}.txt" for number in range(5))))

    page = as_json(gateway, f"/v1/containers/{container}/files?limit=2")

    check_container_file_list(page)
    oldest = [f"/mnt/data/{number}.txt" for number in range(5)]
    assert [shape["path"] for shape in page["data"]] == oldest[:2:-1]
    assert page == {
        "object": "list",
        "data": page["data"],
        "first_id": page["data"][0]["id"],
        "last_id": page["data"][1]["id"],
        "has_more": True,
    }
    assert [file.path for file in client.containers.files.list(container, limit=2)] == oldest[::-1]
    assert [file.path for file in client.containers.files.list(container, limit=2, order="asc")] == oldest


def test_the_empty_list_of_files_is_a_list(gateway: Gateway, client: openai.OpenAI) -> None:
    container = client.containers.create(name="empty").id

    assert as_json(gateway, f"/v1/containers/{container}/files") == {
        "object": "list",
        "data": [],
        "first_id": None,
        "last_id": None,
        "has_more": False,
    }


@pytest.mark.promise("container-files-post-uploads-into-mnt-data")
@pytest.mark.promise("container-files-post-uploads-into-mnt-data")
def test_an_upload_boots_no_box_and_is_seen_by_the_first_command(gateway: Gateway, client: openai.OpenAI) -> None:
    container = client.containers.create(name="upload").id

    file = client.containers.files.create(container, file=("all.bin", ALL_BYTES))

    assert (stored_ref(gateway.home / "limpet.db", container), processes_of(container)) == (None, [])
    check_container_file(file.to_dict())
    assert (file.path, file.bytes, file.source) == ("/mnt/data/all.bin", len(ALL_BYTES), "user")
    assert client.containers.files.content.retrieve(file.id, container_id=container).read() == ALL_BYTES
    digest = printed(run(client, "sha256sum < all.bin; echo more >> all.bin", container=container)).split()[0]
    assert digest == hashlib.sha256(ALL_BYTES).hexdigest()
    grown = client.containers.files.retrieve(file.id, container_id=container)
    assert grown.bytes == len(ALL_BYTES) + len("more\n")


@pytest.mark.promise("hadrian-upload-appears-in-a-live-container", "container-files-post-uploads-into-mnt-data")
def test_an_upload_into_a_live_box_is_seen_and_an_equal_name_keeps_its_id(client: openai.OpenAI) -> None:
    container = container_of(run(client, "true"))

    first = client.containers.files.create(container, file=("note.txt", b"one"))
    assert printed(run(client, "cat note.txt", container=container)) == "one"
    second = client.containers.files.create(container, file=("note.txt", b"two"))

    assert second.id == first.id
    assert printed(run(client, "cat note.txt; echo three > note.txt", container=container)) == "two"
    assert client.containers.files.content.retrieve(first.id, container_id=container).read() == b"three\n"


@pytest.mark.promise("hadrian-delete-answers-with-the-deleted-object")
@pytest.mark.promise("container-file-is-removed", "hadrian-deleted-file-stays-deleted")
def test_a_deleted_file_is_gone_from_the_list_and_from_the_box(gateway: Gateway, client: openai.OpenAI) -> None:
    container = container_of(run(client, "echo a > a.txt; echo b > b.txt"))
    ids = {file.path: file.id for file in client.containers.files.list(container)}

    with gateway.http() as http:
        deleted = http.delete(f"/v1/containers/{container}/files/{ids['/mnt/data/a.txt']}")

    check_deleted(deleted.json(), "container.file.deleted")
    assert deleted.status_code == 200
    assert [file.path for file in client.containers.files.list(container)] == ["/mnt/data/b.txt"]
    assert printed(run(client, "ls", container=container)) == "b.txt\n"
    with gateway.http() as http:
        again = http.delete(f"/v1/containers/{container}/files/{ids['/mnt/data/a.txt']}")
    assert again.status_code == 404


def test_a_file_of_another_container_is_not_found(client: openai.OpenAI) -> None:
    mine, other = (container_of(run(client, f"echo {name} > {name}")) for name in ("mine", "other"))
    (file,) = client.containers.files.list(other).data

    for ask in (
        lambda: client.containers.files.retrieve(file.id, container_id=mine),
        lambda: client.containers.files.content.retrieve(file.id, container_id=mine),
        lambda: client.containers.files.delete(file.id, container_id=mine),
    ):
        with pytest.raises(openai.NotFoundError) as refused:
            ask()
        assert refused.value.code == "container_file_not_found"
        check_error(refused.value.response.json())


HOSTILE_NAMES = [
    ("../../../../etc/cron.d/x", "x"),
    ("/etc/passwd", "passwd"),
    ("..\\..\\x.txt", "x.txt"),
    ("..", "upload"),
    (".", "upload"),
    ("a/", "upload"),
    ("-rf", "-rf"),
    ("tab\tand\x7f.txt", "tab%09and.txt"),  # the client itself writes a tab as %09
    ("n" * 300 + ".txt", "n" * 196 + ".txt"),
    ("é" * 200 + ".txt", "é" * 98 + ".txt"),
    ("with space $(id) `id` ;.txt", "with space $(id) `id` ;.txt"),
    (".bashrc", ".bashrc"),
    ("CON", "CON"),
]


@pytest.mark.parametrize("given, kept", HOSTILE_NAMES, ids=[repr(given[:30]) for given, _ in HOSTILE_NAMES])
def test_a_hostile_upload_name_ends_up_as_a_plain_file_in_mnt_data(
    gateway: Gateway, client: openai.OpenAI, given: str, kept: str
) -> None:
    container = client.containers.create(name="hostile").id

    file = client.containers.files.create(container, file=(given, b"content"))

    assert file.path == f"/mnt/data/{kept}"
    (listed,) = client.containers.files.list(container).data
    assert (listed.id, listed.path) == (file.id, file.path)
    data = gateway.home / "boxes" / container / "data"
    assert [entry.name for entry in data.iterdir()] == [kept]
    assert (data / kept).read_bytes() == b"content"


def test_an_upload_never_writes_through_a_planted_link(gateway: Gateway, client: openai.OpenAI) -> None:
    victim = gateway.home / "victim.txt"
    victim.write_text("untouched")
    container = container_of(
        run(client, f"ln -s {victim} out.txt; ln -s {gateway.home} outside; mkfifo pipe; mkdir folder")
    )

    for name in ("out.txt", "pipe", "folder"):
        with pytest.raises(openai.BadRequestError) as refused:
            client.containers.files.create(container, file=(name, b"overwritten"))
        check_error(refused.value.response.json())

    assert victim.read_text() == "untouched"
    assert client.containers.files.list(container).data == []
