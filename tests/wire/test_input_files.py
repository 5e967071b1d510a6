"""`input_file` parts with a hosted shell: in /mnt/data before the first command, once, under names that the model is told."""

import base64
import json
from collections.abc import Iterator
from typing import Any

import openai
import pytest

from tests.support.gateway import Gateway, running
from tests.support.https import Answer, HttpsServer, https_server
from tests.support.providers.turns import ShellCall
from tests.wire.asking import SHELL, container_of, output_files, printed, shell_blocks
from tests.wire.conftest import RUNTIME
from tests.wire.provider import Provider, config_of
from tests.wire.schema import check_response
from tests.wire.test_seed_examples import INPUT_FILES

Json = dict[str, Any]
DIRECTORY = "$LIMPET_DATA" if RUNTIME == "local" else "/mnt/data"
CSV = "data:text/csv;base64," + base64.b64encode(b"a,b\n1,2\n").decode()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpsServer]:
    with https_server(tmp_path_factory.mktemp("https")) as server:
        server.answers["/dataset.csv"] = Answer(b"x,y\n", "text/csv")
        server.answers["/"] = Answer(b"# read me\n", "text/markdown; charset=utf-8")
        server.answers["/a/b%2F..%2Fname%20of%20it.tar.gz?v=1"] = Answer(b"packed")
        server.answers["/large"] = Answer(bytes(2_000_001))
        server.answers["/inside"] = Answer(status=302, headers={"Location": "https://10.0.0.7/x"})
        yield server


@pytest.fixture(scope="module")
def fetching(server: HttpsServer, provider: Provider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A gateway that may reach the server, and takes 2 MB by URL, 4 MB in all, 4 files."""
    config = (
        config_of(provider)
        + f'[features.file_url]\nallowed_networks = ["127.0.0.1/32"]\nports = [443, {server.port}]\nmax_bytes = 2000000\n'
        + "[features.containers]\nmax_input_files_per_request = 4\nmax_input_bytes_per_request = 4000000\n"
    )
    directory = tmp_path_factory.mktemp("fetching")
    with running(directory, runtime=RUNTIME, config=config, env={"SSL_CERT_FILE": str(server.trust)}) as gateway:
        yield gateway


def message(*parts: Json, text: str = "true") -> list[Any]:
    content = [{"type": "input_text", "text": text}, *({"type": "input_file", **part} for part in parts)]
    return [{"role": "user", "content": content}]


def given(client: openai.OpenAI, *parts: Json, command: str = "true", **options: Any) -> Any:
    tools = options.pop("tools", SHELL)
    return client.responses.create(
        model="limpet/script", input=message(*parts, text=shell_blocks(command)), tools=tools, **options
    )


def upload(client: openai.OpenAI, data: bytes, name: str = "data.csv") -> str:
    return client.files.create(file=(name, data), purpose="user_data").id


@pytest.mark.promise(
    "input-file-example-is-accepted",
    "input-file-by-id-comes-from-the-files-api",
    "input-file-by-url-is-fetched-over-https-only",
    "input-file-by-data-is-decoded",
    "input-files-land-before-the-first-command",
    "input-files-without-a-name-get-one",
    "input-files-are-put-into-the-workspace",
)
def test_the_seeds_three_parts_are_there_before_the_first_command(fetching: Gateway, server: HttpsServer) -> None:
    client = fetching.client()
    body = json.loads(INPUT_FILES)
    content = body["input"][0]["content"]
    content[0]["text"] = shell_blocks("tail -n +1 data.csv dataset.csv upload.csv")
    content[1]["file_id"] = upload(client, b"1,2\n")
    content[2]["file_url"] = server.url("/dataset.csv")
    content[3]["file_data"] = CSV

    response = client.responses.create(model="limpet/script", tools=SHELL, **body)

    check_response(response.to_dict())
    assert printed(response) == "==> data.csv <==\n1,2\n\n==> dataset.csv <==\nx,y\n\n==> upload.csv <==\na,b\n1,2\n"
    listed = client.containers.files.list(container_of(response), order="asc")
    assert [(file.path, file.source) for file in listed] == [
        ("/mnt/data/data.csv", "user"),
        ("/mnt/data/dataset.csv", "user"),
        ("/mnt/data/upload.csv", "user"),
    ]
    assert output_files(response) == []


@pytest.mark.parametrize(
    "part, name",
    [
        ({"file_data": CSV, "filename": "../../etc/pass\nwd"}, "passwd"),
        ({"file_data": CSV, "filename": ".."}, "upload"),
        ({"file_data": base64.b64encode(b"a,b\n1,2\n").decode()}, "upload"),
        ({"file_data": CSV.replace("text/csv", "text/csv;charset=utf-8")}, "upload.csv"),
        ({"file_data": CSV, "filename": "-rf $(id) ünï.csv"}, "-rf $(id) ünï.csv"),
    ],
)
def test_names_are_made_safe(client: openai.OpenAI, part: Json, name: str) -> None:
    assert printed(given(client, part, command="ls; cat -- *")) == f"{name}\na,b\n1,2\n"


@pytest.mark.parametrize(
    "path, name", [("/", "upload.md"), ("/a/b%2F..%2Fname%20of%20it.tar.gz?v=1", "name of it.tar.gz")]
)
def test_a_url_names_its_file(fetching: Gateway, server: HttpsServer, path: str, name: str) -> None:
    assert printed(given(fetching.client(), {"file_url": server.url(path)}, command="ls")) == f"{name}\n"


def test_the_model_is_told_the_final_names_and_nothing_else_of_the_files(fetching: Gateway, provider: Provider) -> None:
    client = fetching.client()
    provider.play(ShellCall(("cat data-2.csv",)), "done", "done again")
    parts = message({"file_id": upload(client, b"1")}, {"file_data": CSV, "filename": "data.csv"}, text="Look.")

    first = client.responses.create(model="gpt-scripted", input=parts, tools=SHELL)
    client.responses.create(model="gpt-scripted", input="And now?", tools=SHELL, previous_response_id=first.id)

    told = [
        {"type": "input_text", "text": "Look."},
        {"type": "input_text", "text": f"[The file data.csv is at {DIRECTORY}/data.csv.]"},
        {"type": "input_text", "text": f"[The file data.csv is at {DIRECTORY}/data-2.csv.]"},
    ]
    assert printed(first) == "a,b\n1,2\n"
    assert [asked["input"][0]["content"] for asked in provider.asked] == [told, told, told]


@pytest.mark.promise("hadrian-history-is-not-staged-again", "hadrian-file-ids-are-the-ones-shown")
@pytest.mark.promise("hadrian-inline-files-survive-a-chain")
def test_a_later_turn_mounts_nothing_again(fetching: Gateway) -> None:
    client = fetching.client()
    file_id = upload(client, b"old")
    first = given(client, {"file_id": file_id}, command="printf new > data.csv")
    client.files.delete(file_id)

    second = given(client, command="ls; cat data.csv", previous_response_id=first.id)

    assert printed(second) == "data.csv\nnew"
    third = given(client, {"file_data": "data:text/plain;base64,aGk="}, command="ls")
    assert printed(given(client, command="cat upload.txt", previous_response_id=third.id)) == "hi"


def test_a_live_container_takes_files_without_replacing_any(client: openai.OpenAI) -> None:
    first = given(client, {"file_data": CSV}, command="echo $$ > /tmp/here; echo mine > upload.csv")
    second = given(
        client, {"file_data": CSV}, command="cat upload.csv upload-2.csv; ls /tmp/here", previous_response_id=first.id
    )
    assert printed(second) == "mine\na,b\n1,2\n/tmp/here\n"


def test_a_function_output_brings_files_too(fetching: Gateway, provider: Provider) -> None:
    client = fetching.client()
    call = {"type": "function_call", "call_id": "call_1", "name": "fetch", "arguments": "{}"}
    output = [{"type": "input_file", "file_data": CSV}]
    items: list[Any] = [call, {"type": "function_call_output", "call_id": "call_1", "output": output}]
    provider.play(ShellCall(("cat upload.csv",)), "done")

    response = client.responses.create(model="gpt-scripted", input=items, tools=SHELL)

    assert printed(response) == "a,b\n1,2\n"


REFUSED: list[tuple[Json, str, str]] = [
    ({"file_id": "file-" + "0" * 32}, ".file_id", "file_not_found"),
    ({"file_id": "file_abc123"}, ".file_id", "file_not_found"),
    ({"file_data": "data:text/csv;base64,..."}, ".file_data", "invalid_input_file_data"),
    ({"file_data": "data:text/csv,a"}, ".file_data", "invalid_input_file_data"),
    ({"file_data": "not base64!"}, ".file_data", "invalid_input_file_data"),
    ({"file_data": "YWI"}, ".file_data", "invalid_input_file_data"),
    ({"file_url": "http://127.0.0.1/x"}, ".file_url", "invalid_input_file_url"),
    ({"file_url": ""}, ".file_url", "invalid_input_file_url"),
    ({}, "", "invalid_input_file"),
    ({"file_data": CSV, "file_id": "file-1"}, "", "invalid_input_file"),
    ({"file_data": 7}, ".file_data", "invalid_type"),
]


@pytest.mark.promise("hadrian-file-url-refuses-http")
@pytest.mark.parametrize("part, param, code", REFUSED)
def test_a_part_that_cannot_be_had_is_refused_before_anything_is_created(
    fetching: Gateway, part: Json, param: str, code: str
) -> None:
    client = fetching.client()
    before = [container.id for container in client.containers.list()]

    with pytest.raises(openai.BadRequestError) as refused:
        given(client, {"file_data": CSV}, part)

    assert (refused.value.param, refused.value.code) == (f"input[0].content[2]{param}", code)
    assert [container.id for container in client.containers.list()] == before


def test_limits_show(fetching: Gateway, server: HttpsServer) -> None:
    client = fetching.client()
    big = upload(client, bytes(3_900_000))
    data = {"file_data": base64.b64encode(bytes(100_001)).decode()}
    for parts, code, words in (
        ([{"file_url": server.url("/large")}], "invalid_input_file_url", "larger than 2000000 bytes"),
        ([{"file_id": big}, data], "input_file_too_large", "more than 4000000 bytes"),
        ([{"file_id": big}, {"file_url": server.url("/large")}], "invalid_input_file_url", "larger than 100000 bytes"),
        ([data] * 5, "too_many_input_files", "5 files; the most is 4"),
    ):
        with pytest.raises(openai.BadRequestError, match=words) as refused:
            given(client, *parts)
        assert refused.value.code == code
    assert printed(given(client, {"file_id": big}, command="wc -c < data.csv")) == "3900000\n"


BAD_HOSTS = [
    *"127.0.0.1 localhost LOCALHOST. 127.1 2130706433 0x7f000001 0x7f.1 0177.0.0.1 127.0.0.1. 0.0.0.0 0 127.0.0.2".split(),
    *"10.0.0.7 172.16.0.1 192.168.1.1 169.254.169.254 100.64.0.1 198.18.0.1 192.0.2.1 224.0.0.1 255.255.255.255".split(),
    *"[::1] [::] [::ffff:127.0.0.1] [::ffff:7f00:1] [::127.0.0.1] [64:ff9b::7f00:1] [fe80::1] [fc00::1] [ff02::1]".split(),
    *"[2002:7f00:1::] [2001::1] [2001:db8::1] ⑫7.0.0.1 user@127.0.0.1 127.0.0.1\\@example.com metadata.google.internal".split(),
]


@pytest.mark.promise("hadrian-file-url-checks-every-redirect")
def test_no_address_of_the_inside_is_ever_dialed(server: HttpsServer, home_directory: Any) -> None:
    """Without `allowed_networks` nothing on loopback may be reached, however it is spelled; with it, no redirect leads elsewhere."""
    before = server.dials
    config = f"[features.file_url]\nports = [{server.port}]\ntimeout_secs = 5\n"
    with running(home_directory, runtime=RUNTIME, config=config, env={"SSL_CERT_FILE": str(server.trust)}) as gateway:
        client = gateway.client()
        for host in BAD_HOSTS:
            with pytest.raises(openai.BadRequestError) as refused:
                given(client, {"file_url": server.url("/dataset.csv", host)})
            assert (refused.value.param, refused.value.code) == (
                "input[0].content[1].file_url",
                "invalid_input_file_url",
            )
        assert list(client.containers.list()) == []
    assert server.dials == before


def test_a_redirect_to_the_inside_is_refused_and_names_no_address(fetching: Gateway, server: HttpsServer) -> None:
    with pytest.raises(openai.BadRequestError, match="redirects to where nothing may be fetched") as refused:
        given(fetching.client(), {"file_url": server.url("/inside")})
    assert refused.value.code == "invalid_input_file_url"
    assert "10.0.0.7" not in refused.value.response.text


def test_a_server_that_has_no_such_file_is_named_with_its_status(fetching: Gateway, server: HttpsServer) -> None:
    with pytest.raises(openai.BadRequestError, match="status 404"):
        given(fetching.client(), {"file_url": server.url("/nothing?token=secret")})


def test_urls_are_not_fetched_where_the_operator_forbids_it(server: HttpsServer, home_directory: Any) -> None:
    with (
        running(home_directory, runtime=RUNTIME, config="[features.file_url]\nenabled = false\n") as gateway,
        pytest.raises(openai.BadRequestError, match="fetches no URLs"),
    ):
        given(gateway.client(), {"file_url": server.url("/dataset.csv")})


def test_without_a_shell_a_provider_gets_the_file_itself(fetching: Gateway, provider: Provider) -> None:
    client = fetching.client()
    provider.play("read", "still there", "gone")
    parts = message(
        {"file_id": upload(client, b"1,2\n")}, {"file_data": CSV}, {"file_url": "https://files.example.com/x"}, text="?"
    )
    first = client.responses.create(model="gpt-scripted", input=parts)
    second = client.responses.create(model="gpt-scripted", input="Again?", previous_response_id=first.id)
    for file in client.files.list():
        client.files.delete(file.id)
    client.responses.create(model="gpt-scripted", input="Now?", previous_response_id=second.id)

    shown, later, last = (asked["input"][0]["content"] for asked in provider.asked)
    encoded = base64.b64encode(b"1,2\n").decode()
    assert shown[1]["type"] == "input_file"
    assert (shown[1]["filename"], shown[1]["file_data"].rpartition(",")[2]) == ("data.csv", encoded)
    assert shown[2:] == [
        {"type": "input_file", "file_data": CSV},
        {"type": "input_file", "file_url": "https://files.example.com/x"},
    ]
    assert later == shown
    assert last[1]["type"] == "input_text"
    assert last[1]["text"].endswith("was deleted.]")


def test_what_a_provider_cannot_be_shown_is_refused_by_its_place(client: openai.OpenAI) -> None:
    for part, code in (
        ({"file_url": "https://files.example.com/x"}, "unsupported_input"),
        ({"file_id": "file-" + "1" * 32}, "file_not_found"),
    ):
        with pytest.raises(openai.BadRequestError) as refused:
            given(client, part, tools=[])
        assert (refused.value.code, (refused.value.param or "")[:19]) == (code, "input[0].content[1]")
