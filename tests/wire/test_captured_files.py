"""Files that commands write: listed with the call, cited in the answer, downloaded byte for byte."""

import json
from typing import Any

import openai
import pytest

from tests.support.gateway import Gateway
from tests.wire.asking import SHELL, container_of, output_files, printed, run, shell_blocks
from tests.wire.order import check_event_order
from tests.wire.schema import check_events, check_response

Json = dict[str, Any]


def contents(client: openai.OpenAI, container: str, file_id: str) -> bytes:
    return client.containers.files.content.retrieve(file_id, container_id=container).read()


def events_of(gateway: Gateway, **body: Any) -> list[Json]:
    with gateway.http() as http, http.stream("POST", "/v1/responses", json={"stream": True, **body}) as answer:
        return [json.loads(line[6:]) for line in answer.iter_lines() if line.startswith("data: {")]


def citations(response: Json) -> list[Json]:
    """Those of its only message."""
    (message,) = [item for item in response["output"] if item["type"] == "message"]
    (part,) = message["content"]
    notes: list[Json] = part["annotations"]
    return notes


@pytest.mark.promise(
    "output-files-lists-what-the-call-wrote",
    "hadrian-output-files-name-container-and-file",
    "written-files-are-captured-and-downloadable",
    "written-files-are-in-the-containers-file-store",
)
def test_each_call_lists_the_files_that_it_wrote(client: openai.OpenAI) -> None:
    response = run(client, "echo one > one.csv; mkdir -p a/b; echo two > a/b/two.json", "true", "echo three > three")

    container = container_of(response)
    calls = [item for item in response.output if item.type == "shell_call_output"]
    listed = [[file["path"] for file in (call.model_extra or {})["output_files"]] for call in calls]
    assert listed == [["/mnt/data/a/b/two.json", "/mnt/data/one.csv"], [], ["/mnt/data/three"]]
    files = output_files(response)
    assert files[0] == {
        "container_id": container,
        "file_id": files[0]["file_id"],
        "filename": "two.json",
        "path": "/mnt/data/a/b/two.json",
        "bytes": 4,
        "content_type": "application/json",
        "source": "assistant",
    }
    assert [contents(client, container, file["file_id"]) for file in files] == [b"two\n", b"one\n", b"three\n"]
    assert {file["file_id"] for file in files} == {file.id for file in client.containers.files.list(container)}


@pytest.mark.promise("reply-cites-the-files-that-were-written", "hadrian-citations-stand-wherever-clients-look")
def test_written_files_are_cited_wherever_a_client_looks(gateway: Gateway, client: openai.OpenAI) -> None:
    prompt = shell_blocks("echo a > report.md", "mkdir charts; echo b > charts/plot.svg")

    events = events_of(gateway, model="limpet/script", input=prompt, tools=SHELL)

    check_events(events)
    check_event_order(events)
    final = events[-1]["response"]
    check_response(final)
    cited = citations(final)
    assert [(note["type"], note["filename"]) for note in cited] == [
        ("container_file_citation", "report.md"),
        ("container_file_citation", "plot.svg"),
    ]
    files = [file for item in final["output"] for file in item.get("output_files", ())]
    assert [(note["container_id"], note["file_id"]) for note in cited] == [
        (final["container_id"], file["file_id"]) for file in files
    ]
    text = final["output"][-1]["content"][0]["text"]
    assert [text[note["start_index"] : note["end_index"]] for note in cited] == [file["path"] for file in files]
    assert all(note.keys() == cited[0].keys() and len(note) == 6 for note in cited)
    announced = [event for event in events if event["type"] == "response.output_text.annotation.added"]
    assert [(event["annotation_index"], event["annotation"]) for event in announced] == list(enumerate(cited))
    (part_done,) = [event["part"] for event in events if event["type"] == "response.content_part.done"]
    message_done = [event["item"] for event in events if event["type"] == "response.output_item.done"][-1]
    assert part_done["annotations"] == message_done["content"][0]["annotations"] == cited
    assert citations(client.responses.retrieve(final["id"]).to_dict()) == cited
    unstreamed = run(client, "echo a > report.md").to_dict()
    assert [note["filename"] for note in citations(unstreamed)] == ["report.md"]


@pytest.mark.promise("hadrian-only-files-of-this-response-are-cited")
def test_uploads_and_files_of_earlier_responses_are_not_cited(client: openai.OpenAI) -> None:
    first = run(client, "echo early > early.txt")
    container = container_of(first)
    client.containers.files.create(container, file=("upload.txt", b"uploaded"))

    second = run(client, "cat early.txt upload.txt > both.txt; touch early.txt", previous_response_id=first.id)
    third = run(client, "cat both.txt", previous_response_id=second.id)

    assert [note["filename"] for note in citations(second.to_dict())] == ["both.txt"]
    assert [file["filename"] for file in output_files(second)] == ["both.txt"]
    assert (citations(third.to_dict()), output_files(third)) == ([], [])
    sources = {file.path.rpartition("/")[2]: file.source for file in client.containers.files.list(container)}
    assert sources == {"early.txt": "assistant", "upload.txt": "user", "both.txt": "assistant"}


def test_an_overwritten_file_keeps_its_id_and_is_cited_again(client: openai.OpenAI) -> None:
    first = run(client, "echo one > file; echo same > same")
    before = {file["filename"]: file["file_id"] for file in output_files(first)}

    second = run(client, "echo second > new; mv new file; echo same > same", previous_response_id=first.id)

    (again,) = output_files(second)
    assert (again["filename"], again["file_id"], again["bytes"]) == ("file", before["file"], 7)
    assert [note["file_id"] for note in citations(second.to_dict())] == [before["file"]]
    assert contents(client, container_of(first), before["file"]) == b"second\n"


def test_two_calls_that_write_one_file_cite_it_once(client: openai.OpenAI) -> None:
    response = run(client, "echo one > file", "echo two >> file")

    assert [file["bytes"] for file in output_files(response)] == [4, 8]
    assert len(citations(response.to_dict())) == 1


def test_a_file_that_a_command_deleted_is_gone_and_its_place_is_a_new_file(client: openai.OpenAI) -> None:
    first = run(client, "echo one > file; echo two > other")
    container = container_of(first)
    ids = {file["filename"]: file["file_id"] for file in output_files(first)}

    second = run(client, "rm file", previous_response_id=first.id)

    assert output_files(second) == []
    assert [file.path for file in client.containers.files.list(container)] == ["/mnt/data/other"]
    with pytest.raises(openai.NotFoundError) as refused:
        client.containers.files.retrieve(ids["file"], container_id=container)
    assert refused.value.code == "container_file_not_found"
    (fresh,) = output_files(run(client, "echo one > file", previous_response_id=second.id))
    assert fresh["file_id"] not in ids.values()


def test_a_file_that_is_gone_when_it_is_asked_for_is_404(client: openai.OpenAI) -> None:
    # Deleted by a process that runs on: nobody looked since.
    response = run(
        client, "echo x > file; (until [ -e go ]; do sleep 0.01; done; rm file; touch gone) >/dev/null 2>&1 &"
    )
    container = container_of(response)
    (file,) = output_files(response)
    client.containers.files.create(container, file=("go", b""))
    assert printed(run(client, "until [ -e gone ]; do sleep 0.01; done", container=container)) == ""

    with pytest.raises(openai.NotFoundError):
        client.containers.files.content.retrieve(file["file_id"], container_id=container)


@pytest.mark.promise("captured-file-is-downloaded-byte-for-byte")
@pytest.mark.parametrize(
    "command, expected",
    [
        ("python3 -c 'import sys; sys.stdout.buffer.write(bytes(range(256)) * 20000)'", bytes(range(256)) * 20000),
        ("printf ''", b""),
        ("printf '\\xef\\xbb\\xbfa\\r\\n\\0'", b"\xef\xbb\xbfa\r\n\0"),
        ("printf 'no end'", b"no end"),
    ],
    ids=["all bytes, 5 MB", "empty", "byte order mark", "no newline"],
)
def test_a_file_comes_back_byte_for_byte(client: openai.OpenAI, command: str, expected: bytes) -> None:
    response = run(client, f"{command} > file.bin")

    (file,) = output_files(response)
    assert file["bytes"] == len(expected)
    assert contents(client, container_of(response), file["file_id"]) == expected


@pytest.mark.promise("hadrian-oversized-file-stays-marked")
def test_a_file_that_is_too_large_is_listed_as_such_and_cited_all_the_same(client: openai.OpenAI) -> None:
    limit = 25 * 1024 * 1024

    response = run(client, f"truncate -s {limit + 1} big; truncate -s {limit} fits")

    big, fits = output_files(response)
    assert (big["filename"], big["bytes"], big["too_large"]) == ("big", limit + 1, True)
    assert (fits["filename"], fits["bytes"], "too_large" in fits) == ("fits", limit, False)
    assert [note["filename"] for note in citations(response.to_dict())] == ["big", "fits"]
    shown = client.containers.files.retrieve(big["file_id"], container_id=container_of(response)).to_dict()
    assert (shown["bytes"], shown["too_large"]) == (limit + 1, True)


def test_a_hundred_files_are_all_the_calls_that_wrote_them(client: openai.OpenAI) -> None:
    response = run(client, "for i in $(seq 100); do echo $i > $i; done", "true")

    calls = [item for item in response.output if item.type == "shell_call_output"]
    assert [len((call.model_extra or {})["output_files"]) for call in calls] == [100, 0]
    assert len(list(client.containers.files.list(container_of(response), limit=100))) == 100
