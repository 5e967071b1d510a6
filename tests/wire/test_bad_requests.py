"""What no client may send: each is refused in OpenAI's shape, with the place and a sentence of what would be right."""

import json
import socket

import httpx2
import openai
import pytest

from tests.support.gateway import Gateway
from tests.support.host import rows
from tests.support.providers.turns import FunctionCall
from tests.wire.asking import SHELL, entries, run
from tests.wire.bad_bodies import ALL, Bad, asked
from tests.wire.provider import MODEL, Provider
from tests.wire.schema import check_error
from tests.wire.strict import STRICT

JSON = {"Content-Type": "application/json"}
MIB = 1024 * 1024


def refused(answer: httpx2.Response, status: int) -> dict:
    """The error of an answer, which must be one in OpenAI's shape, of that status, and of no inner workings."""
    assert answer.status_code == status, answer.text[:500]
    assert answer.headers["content-type"] == "application/json"
    check_error(answer.json())
    error = answer.json()["error"]
    assert error["type"] == "invalid_request_error"
    assert error["message"].endswith(".")
    assert len(error["message"]) < 1000
    assert not any(word in answer.text for word in ("Traceback", 'File "', "pydantic", "msgspec"))
    return dict(error)


@pytest.mark.promise("hadrian-errors-have-openais-envelope")
@pytest.mark.parametrize("bad", ALL, ids=[bad.name for bad in ALL])
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.promise("hadrian-environment-union-is-checked")
def test_a_wrong_body_is_refused_with_its_place_and_what_would_be_right(
    gateway: Gateway, bad: Bad, streamed: bool
) -> None:
    may_stream = isinstance(bad.body, dict) and "stream" not in bad.body
    body = {**bad.body, "stream": streamed} if may_stream else bad.body
    with gateway.http() as http:
        error = refused(http.post("/v1/responses", content=json.dumps(body), headers=JSON), bad.status)

    assert (error["param"], error["code"]) == (bad.param, bad.code)
    assert bad.says in error["message"]


def test_an_unknown_model_is_told_which_there_are(scripted_gateway: Gateway) -> None:
    with pytest.raises(openai.NotFoundError) as problem:
        scripted_gateway.client().responses.create(model="claude", input="hello")

    assert problem.value.code == "model_not_found"
    assert all(name in problem.value.message for name in ("gpt-*", "limpet/"))


RAW = {
    "empty": b"",
    "not-json": b"model=limpet/script",
    "cut": b'{"model": "limpet/script", "input": "he',
    "two-values": b'{"model": "m"} {"model": "m"}',
    "not-a-number": b'{"model": "limpet/script", "input": "x", "temperature": NaN}',
    "infinite": b'{"model": "limpet/script", "input": "x", "temperature": 1e999}',
    "not-utf8": b'{"model": "limpet/script", "input": "\xff\xfe"}',
    "half-a-character": b'{"model": "limpet/script", "input": "\\ud83d"}',
    "half-a-character-in-a-name": b'{"model": "limpet/script", "input": "x", "metadata": {"\\udc00": "x"}}',
    "deeply-nested": b'{"model": "limpet/script", "input": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
}


@pytest.mark.parametrize("content", RAW.values(), ids=RAW)
def test_what_is_not_json_is_refused(gateway: Gateway, content: bytes) -> None:
    with gateway.http() as http:
        error = refused(http.post("/v1/responses", content=content, headers=JSON), 400)

    assert (error["param"], error["code"]) == (None, "invalid_json")
    assert "JSON" in error["message"]


@pytest.mark.parametrize("depth", [50, 400, 900])
def test_nesting_is_taken_or_refused_but_never_breaks(gateway: Gateway, depth: int) -> None:
    nested = "[" * depth + "]" * depth
    bodies = [
        f'{{"model": "limpet/script", "input": "x", "tools": [{{"type": "shell", "deep": {nested}}}]}}',
        f'{{"model": "limpet/script", "input": [{{"role": "user", "content": "x", "deep": {nested}}}]}}',
        f'{{"model": "limpet/script", "input": "x", "unknown": {nested}}}',
    ]
    with gateway.http() as http:
        for body in bodies:
            answer = http.post("/v1/responses", content=body.encode(), headers=JSON)
            if answer.status_code == 200:
                assert answer.json()["status"] == "completed"
                assert http.get(f"/v1/responses/{answer.json()['id']}").json() == answer.json()
            else:
                refused(answer, 400)


def test_a_body_past_the_limit_is_413_announced_or_not(gateway: Gateway) -> None:
    whole = b'{"model": "limpet/script", "input": "' + b"x" * (65 * MIB) + b'"}'
    pieces = (whole[at : at + MIB] for at in range(0, len(whole), MIB))
    for content in (whole, pieces):
        with gateway.http() as http:
            error = refused(http.post("/v1/responses", content=content, headers=JSON), 413)
        assert error["code"] == "request_too_large"
        assert str(64 * MIB) in error["message"]


@pytest.mark.parametrize(
    "method, path, status, code, says",
    [
        ("PUT", "/v1/responses", 405, "method_not_allowed", "POST"),
        ("GET", "/v1/responses", 426, "upgrade_required", "POST"),
        ("PATCH", "/v1/responses/resp_0", 405, "method_not_allowed", "DELETE"),
        ("POST", "/v1/responses/resp_0", 405, "method_not_allowed", "GET"),
        ("POST", "/v1/answers", 404, "unknown_url", "/v1/answers"),
        ("GET", "/", 404, "unknown_url", "GET /"),
        ("GET", "/v1/responses/", 404, "unknown_url", "/v1/responses/"),
        ("GET", "/v1/responses/%00", 404, "response_not_found", "not found"),
        ("GET", "/v1/responses/..%2f..%2fetc", 404, "unknown_url", "nothing at"),
        ("GET", "/v1/responses/" + "x" * 5000, 404, "response_not_found", "not found"),
    ],
)
def test_a_wrong_method_or_address_is_refused(
    gateway: Gateway, method: str, path: str, status: int, code: str, says: str
) -> None:
    with gateway.http() as http:
        answer = http.request(method, path)

    error = refused(answer, status)
    assert error["code"] == code
    assert says in error["message"]


@pytest.mark.parametrize(
    "headers, status, code",
    [
        ({"Host": "evil.example"}, 403, "host_not_allowed"),
        ({"Host": "127.0.0.1.evil.example"}, 403, "host_not_allowed"),
        ({"Host": "192.168.1.5:8420"}, 403, "host_not_allowed"),
        ({"Host": "[::ffff:10.0.0.1]"}, 403, "host_not_allowed"),
        ({"Origin": "https://evil.example"}, 403, "origin_not_allowed"),
        ({"Origin": "http://localhost:1"}, 403, "origin_not_allowed"),
        ({"Origin": "null"}, 403, "origin_not_allowed"),
        ({"Content-Type": "text/plain"}, 415, "unsupported_content_type"),
        ({"Content-Type": "application/x-www-form-urlencoded"}, 415, "unsupported_content_type"),
        ({"Content-Type": ""}, 415, "unsupported_content_type"),
    ],
)
def test_a_web_page_cannot_reach_the_gateway(gateway: Gateway, headers: dict, status: int, code: str) -> None:
    """Loopback only: neither DNS rebinding nor a form nor a script of another origin gets through."""
    content = json.dumps(asked()).encode()
    before = rows(gateway.home / "limpet.db", "SELECT count(*) AS responses FROM responses")
    with gateway.http() as http:
        error = refused(http.post("/v1/responses", content=content, headers={**JSON, **headers}), status)

    assert error["code"] == code
    assert rows(gateway.home / "limpet.db", "SELECT count(*) AS responses FROM responses") == before


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:99", "127.0.0.1", "127.9.9.9:1", "[::1]:8420"])
def test_every_loopback_name_is_let_in(gateway: Gateway, host: str) -> None:
    with gateway.http() as http:
        assert http.post("/v1/responses", json=asked(), headers={"Host": host}).status_code == 200


def test_two_hosts_or_none_are_refused(gateway: Gateway) -> None:
    address = gateway.url.removeprefix("http://")
    name, _, port = address.partition(":")
    for head in ("", "Host: localhost\r\nHost: evil.example\r\n", "Host: evil.example\r\nHost: localhost\r\n"):
        with socket.create_connection((name, int(port)), timeout=5) as connection:
            connection.sendall(f"GET /v1/models HTTP/1.1\r\n{head}Connection: close\r\n\r\n".encode())
            answer = b"".join(iter(lambda: connection.recv(65536), b""))
        assert answer.split(b" ")[1] in (b"400", b"403"), head


def test_a_null_byte_in_a_command_is_the_models_mistake_and_not_a_failure(client: openai.OpenAI) -> None:
    response = run(client, "echo a\0b", "echo after")

    refused_entry, after = entries(response)
    assert refused_entry.outcome.exit_code == 126
    assert refused_entry.stderr.endswith(".\n")
    assert after.stdout == "after\n"


def test_null_bytes_and_odd_letters_in_texts_are_kept(client: openai.OpenAI, gateway: Gateway) -> None:
    odd = "a\0b \u202e\ufffe\U0010ffff"
    response = client.responses.create(
        model="limpet/script", input=odd, instructions=odd, metadata={"odd": odd}, safety_identifier=odd
    )

    again = client.responses.retrieve(response.id)
    assert again == response
    assert (again.instructions, again.metadata, again.safety_identifier) == (odd, {"odd": odd}, odd)


def test_a_refused_request_leaves_nothing_behind(gateway: Gateway) -> None:
    counts = "SELECT (SELECT count(*) FROM responses) AS responses, (SELECT count(*) FROM containers) AS containers"
    before = rows(gateway.home / "limpet.db", counts)
    with gateway.http() as http:
        for bad in ALL:
            assert http.post("/v1/responses", content=json.dumps(bad.body), headers=JSON).status_code == bad.status

    assert rows(gateway.home / "limpet.db", counts) == before


def test_unknown_fields_of_tools_and_items_are_kept(provider: Provider, scripted_gateway: Gateway) -> None:
    function = {"type": "function", "name": "lookup", "parameters": {}, "x_color": "blue", "nested": {"a": [None, 1]}}
    newcomer = {"type": "namespace", "name": "n", "description": "d", "tools": [function], "x_kept": True}
    shell = {"type": "shell", "x_size": 3}
    message = {"role": "user", "content": [{"type": "input_text", "text": "hi", "x_bold": True}], "x_mood": "glad"}
    item = {"type": "x_future_item", "id": "f_1", "payload": {"deep": [1, {"b": None}]}}
    provider.play(FunctionCall("lookup", {}))
    with scripted_gateway.http() as http:
        body = {"model": MODEL, "input": [message, item], "tools": [function, newcomer, shell], "x_top": {"y": 1}}
        answer = http.post("/v1/responses", json=body)

    assert answer.status_code == 200, answer.text
    (seen,) = provider.asked
    assert seen["input"] == [{"type": "message", **message}, item]
    assert [tool for tool in seen["tools"] if tool["type"] != "shell"] == [function, newcomer]
    assert seen["x_top"] == {"y": 1}
    echoed = answer.json()["tools"]
    assert echoed[0] == {"strict": True, "description": None, **function}
    assert echoed[1] == newcomer
    assert (echoed[2]["x_size"], echoed[2]["environment"]["type"]) == (3, "container_reference")
    STRICT.response(answer.json())


def test_a_run_that_breaks_in_an_unforeseen_way_ends_alone(gateway: Gateway) -> None:
    """What once ended the whole gateway: a field of a kind that is not read, with a value of another type."""
    body = asked(input=[{"type": "computer_call", "environment": True}, {"role": "user", "content": "hello"}])
    with gateway.http() as http:
        assert http.post("/v1/responses", json=body).json()["status"] == "completed"
        assert http.get("/livez").status_code == 200


@pytest.mark.parametrize("tools", [SHELL, []], ids=["shell", "no-tools"])
def test_the_strict_client_is_content_with_the_smallest_request(client: openai.OpenAI, tools: list) -> None:
    assert client.responses.create(model="limpet/script", input="", tools=tools).status == "completed"
