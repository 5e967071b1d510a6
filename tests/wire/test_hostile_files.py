"""What a command may plant under /mnt/data to make the gateway read, follow or stumble: links, fifos, names, moving targets."""

import re
import time
from urllib.parse import unquote_to_bytes

import openai
import pytest

from tests.support.gateway import Gateway
from tests.support.host import eventually
from tests.wire.asking import container_of, entries, output_files, printed, run

SOCKET = "python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"socket\")'"


def contents(client: openai.OpenAI, container: str, file_id: str) -> bytes:
    return client.containers.files.content.retrieve(file_id, container_id=container).read()


def paths(client: openai.OpenAI, container: str) -> list[str]:
    return [file.path for file in client.containers.files.list(container, limit=100, order="asc")]


def test_links_fifos_sockets_and_directories_are_no_files(gateway: Gateway, client: openai.OpenAI) -> None:
    outside = gateway.home / "limpet.db"
    response = run(
        client,
        f"echo real > real; ln -s /etc/passwd passwd; ln -s {outside} database; ln -s real to-real; ln -s nowhere dangling;"
        " ln -s /etc etc; ln -s . loop; ln -s / root; mkfifo pipe; mkdir -p empty/dir; ln -s ../real empty/up;"
        f" {SOCKET}; ls -A | wc -l",
    )
    container = container_of(response)
    assert entries(response)[0].stdout.strip() == "11"

    assert [file["path"] for file in output_files(response)] == ["/mnt/data/real"]
    assert paths(client, container) == ["/mnt/data/real"]
    assert printed(run(client, "cat real", container=container)) == "real\n"


def test_a_hard_link_is_a_second_name_of_a_file_in_the_box_and_never_of_one_outside(client: openai.OpenAI) -> None:
    response = run(
        client,
        "echo one > one; ln one two; ln /etc/passwd three; ln ~/.bashrc four; ln /usr/bin/id five; echo six > ~/six; ln ~/six six; true",
    )

    assert [file["path"] for file in output_files(response)] == ["/mnt/data/one", "/mnt/data/two"]
    container = container_of(response)
    assert {contents(client, container, file["file_id"]) for file in output_files(response)} == {b"one\n"}


@pytest.mark.parametrize(
    "replaced",
    [
        "rm file; ln -s /etc/passwd file",
        "rm file; mkfifo file",
        "rm file; mkdir file",
        f"rm file; {SOCKET}; mv socket file",
    ],
    ids=["link", "fifo", "directory", "socket"],
)
def test_a_known_file_that_became_something_else_is_404_and_nothing_is_read(
    gateway: Gateway, client: openai.OpenAI, replaced: str
) -> None:
    # By a process that runs on after the call: the gateway has not looked since.
    waiting = f"(until [ -e go ]; do sleep 0.01; done; {replaced}; touch done) >/dev/null 2>&1 &"
    response = run(client, f"echo mine > file; {waiting}")
    container = container_of(response)
    (file,) = output_files(response)
    client.containers.files.create(container, file=("go", b""))
    run(client, "until [ -e done ]; do sleep 0.01; done", container=container)

    with pytest.raises(openai.NotFoundError) as refused:
        contents(client, container, file["file_id"])

    assert "root:" not in str(refused.value.response.text)
    assert "/mnt/data/file" not in paths(client, container)


def test_a_directory_on_the_way_that_became_a_link_is_not_followed(gateway: Gateway, client: openai.OpenAI) -> None:
    first = run(client, "mkdir etc; echo mine > etc/passwd")
    (file,) = output_files(first)

    moved = run(client, "mv etc away; ln -s /etc etc; ls etc/passwd", previous_response_id=first.id)

    container = container_of(first)
    assert [moved_file["path"] for moved_file in output_files(moved)] == ["/mnt/data/away/passwd"]
    with pytest.raises(openai.NotFoundError):
        contents(client, container, file["file_id"])
    with pytest.raises(openai.BadRequestError):
        # Nor when an upload's name is a link that leads outside.
        client.containers.files.create(container, file=("etc", b"x"))


def test_a_path_that_flips_between_file_and_link_never_gives_what_is_behind_the_link(client: openai.OpenAI) -> None:
    flip = "while :; do ln -s /etc/passwd l; mv -T l swap; echo mine > f; mv -T f swap; done"
    flips = f"until [ -e go ]; do sleep 0.02; done; {flip}"
    response = run(client, f"echo mine > swap; (timeout 20 sh -c '{flips}') >/dev/null 2>&1 &")
    container = container_of(response)
    (file,) = output_files(response)
    client.containers.files.create(
        container, file=("go", b"")
    )  # captured before it flips: a link is no file of the container's
    seen = set()

    until = time.monotonic() + 3
    while time.monotonic() < until:
        try:
            seen.add(contents(client, container, file["file_id"]))
        except openai.NotFoundError:
            seen.add(b"not found")

    assert seen <= {b"mine\n", b"not found", b""}
    assert b"mine\n" in seen
    client.containers.delete(container)


def test_content_is_one_whole_version_while_commands_replace_the_file(client: openai.OpenAI) -> None:
    # Versions of different lengths, each put in place whole: no answer may be a part of one or a mix of two.
    flip = "while :; do for n in 100000 200000 3; do head -c $n /dev/zero | tr \\\\0 a > f; mv f whole; done; done"
    response = run(client, f"head -c 3 /dev/zero | tr '\\0' a > whole; (timeout 20 bash -c '{flip}') >/dev/null 2>&1 &")
    container = container_of(response)
    (file,) = [file for file in output_files(response) if file["filename"] == "whole"]

    lengths = set()
    until = time.monotonic() + 3
    while time.monotonic() < until:
        got = contents(client, container, file["file_id"])
        assert got == b"a" * len(got)
        lengths.add(len(got))

    assert lengths <= {3, 100_000, 200_000}
    client.containers.delete(container)


def test_content_of_a_growing_file_is_as_long_as_it_was_when_it_was_asked_for(client: openai.OpenAI) -> None:
    grow = "i=0; while :; do i=$((i+1)); echo $i >> log; done"
    response = run(client, f"echo 0 > log; (timeout 20 bash -c '{grow}') >/dev/null 2>&1 &")
    container = container_of(response)
    (file,) = output_files(response)

    def longer_than(size: int) -> bytes:
        return eventually(lambda: (got := contents(client, container, file["file_id"])) and len(got) > size and got)

    first = longer_than(1000)
    second = longer_than(len(first))

    assert second.startswith(first)
    client.containers.delete(container)


NAMES = {
    "a space": b"a b.txt",
    "a line break": b"a\nb.txt",
    "letters of elsewhere": "Ünï ☃ 漢字.txt".encode(),
    "a leading dash": b"-rf",
    "255 bytes": b"n" * 255,
    "quotes": b'it\'s "quoted".txt',
    "an escape": b"a\\b%2fc.txt",
    "a header": b"x\r\nSet-Cookie: a=b",
    "markup": b"<script>alert(1)<",
    "no UTF-8": b"\xff\xfe.bin",
    "a control": b"a\x1b[31mb\x7f",
    "a dot first": b".hidden",
    "three dots": b"...",
    "only a space": b" ",
    "two look-alikes": "e\u0301".encode(),
    "right to left": "a\u202etxt.exe".encode(),
}


@pytest.mark.parametrize("case", NAMES)
def test_a_file_of_any_name_is_listed_and_downloaded(gateway: Gateway, client: openai.OpenAI, case: str) -> None:
    name = NAMES[case]
    quoted = "".join(f"\\x{byte:02x}" for byte in name)

    response = run(client, f"echo content > ./$'{quoted}'")

    shown = name.decode("utf-8", "replace")
    (file,) = output_files(response)
    assert (file["filename"], file["path"], file["bytes"]) == (shown, f"/mnt/data/{shown}", 8)
    container = container_of(response)
    assert client.responses.retrieve(response.id) == response
    assert paths(client, container) == [f"/mnt/data/{shown}"]
    assert client.containers.files.retrieve(file["file_id"], container_id=container).path == f"/mnt/data/{shown}"
    with gateway.http() as http:
        answer = http.get(f"/v1/containers/{container}/files/{file['file_id']}/content")
    assert answer.content == b"content\n"
    assert "set-cookie" not in answer.headers
    given = re.fullmatch(r"attachment; filename\*=UTF-8''([A-Za-z0-9%._~-]+)", answer.headers["content-disposition"])
    assert given is not None
    assert unquote_to_bytes(given[1]).decode("utf-8", "replace") == shown
    # A chain takes the name back to the model.
    assert run(client, "true", previous_response_id=response.id).status == "completed"
    client.containers.files.delete(file["file_id"], container_id=container)
    assert printed(run(client, "ls -A", container=container)) == ""


def test_what_a_command_wrote_never_becomes_a_page_of_this_origin(gateway: Gateway, client: openai.OpenAI) -> None:
    response = run(client, "echo '<script>alert(1)</script>' | tee page.html image.svg page.xhtml")

    for file in output_files(response):
        with gateway.http() as http:
            answer = http.get(f"/v1/containers/{file['container_id']}/files/{file['file_id']}/content")
        assert answer.headers["content-type"] == "application/octet-stream"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["content-disposition"].startswith("attachment;")
        assert int(answer.headers["content-length"]) == len(answer.content)


def test_a_deep_tree_and_an_unreadable_one_do_not_stop_the_capture(client: openai.OpenAI) -> None:
    response = run(
        client,
        "p=.; for i in $(seq 200); do p=$p/d; done; mkdir -p $p; echo deep > $p/f; mkdir closed; echo x > closed/x;"
        " chmod 0 closed; echo y > y; chmod 0 y; echo z > z",
    )

    found = {file["filename"]: file for file in output_files(response)}
    assert {"f", "z"} <= found.keys()
    container = container_of(response)
    assert contents(client, container, found["f"]["file_id"]) == b"deep\n"
    assert printed(run(client, "chmod 755 closed; cat closed/x", container=container)) == "x\n"


def test_the_data_directory_itself_may_be_removed_or_replaced(client: openai.OpenAI) -> None:
    first = run(client, "echo a > a")

    second = run(client, "rm -rf /mnt/data/* /mnt/data; ls -A /mnt/data | wc -l", previous_response_id=first.id)

    assert entries(second)[0].stdout.strip() == "0"
    assert paths(client, container_of(first)) == []
    assert printed(run(client, "echo b > b; cat b", previous_response_id=second.id)) == "b\n"
    assert paths(client, container_of(first)) == ["/mnt/data/b"]


def test_a_sparse_file_of_any_size_is_downloaded_in_bounded_parts_only(gateway: Gateway, client: openai.OpenAI) -> None:
    container = container_of(run(client, "printf begun > big; truncate -s 8T big; printf end >> big"))
    (file,) = client.containers.files.list(container).data
    address = f"/v1/containers/{container}/files/{file.id}/content"
    most, size = 10 << 30, (8 << 40) + 3
    with gateway.http() as http:
        for asked in ({}, {"range": "bytes=1-"}, {"range": f"bytes=-{size}"}, {"range": f"bytes=0-{most}"}):
            refused = http.get(address, headers=asked)
            error = refused.json()["error"]
            assert (refused.status_code, error["code"], error["param"]) == (413, "file_too_large", "Range")
            assert f"at most {most}" in error["message"]
        part = http.get(address, headers={"range": "bytes=0-9"})
        assert (part.status_code, part.content) == (206, b"begun" + bytes(5))
        assert http.get(address, headers={"range": "bytes=-4"}).content == b"\0end"
        told = http.head(address)
        assert (told.status_code, told.headers["content-length"]) == (200, str(size))
