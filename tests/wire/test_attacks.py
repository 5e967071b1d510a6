"""Attacks: a web page against the gateway, a request made to hurt, a command against what reads after it."""

import socket
from pathlib import Path

import httpx2
import openai
import pytest

from tests.support.gateway import Gateway, running
from tests.wire.asking import container_of, entries, output_files, run

ASKED = b'{"model": "limpet/script", "input": "hello"}'


def status_of(gateway: Gateway, *headers: str, body: bytes = ASKED) -> int:
    """The status of a POST /v1/responses with exactly these headers."""
    lines = ["POST /v1/responses HTTP/1.1", *headers, f"Content-Length: {len(body)}", "Connection: close", "", ""]
    with socket.create_connection(("127.0.0.1", httpx2.URL(gateway.url).port), timeout=10.0) as connected:
        connected.sendall("\r\n".join(lines).encode() + body)
        return int(connected.makefile("rb").readline().split()[1])


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "evil.example@127.0.0.1",
        "127.0.0.1#.evil.example",
        "localhost/evil.example",
        "localhost.",
        "0.0.0.0",
        "127.1",
        "2130706433",
        "[::ffff:192.0.2.1]",
        "",
    ],
)
def test_a_host_that_is_not_exactly_loopback_is_refused(gateway: Gateway, host: str) -> None:
    assert status_of(gateway, f"Host: {host}", "Content-Type: application/json") == 403


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8420", "127.0.0.1", "127.0.0.2:1", "[::1]:8420"])
def test_this_machines_own_names_are_answered(gateway: Gateway, host: str) -> None:
    assert status_of(gateway, f"Host: {host}", "Content-Type: application/json") == 200


@pytest.mark.parametrize(
    "header",
    ["Origin: http://localhost", "Origin: HTTP://LOCALHOST", "Sec-Fetch-Site: same-origin", "Sec-Fetch-Site: none"],
)
def test_the_gateways_own_page_is_answered(gateway: Gateway, header: str) -> None:
    assert status_of(gateway, "Host: localhost", "Content-Type: application/json", header) == 200


def test_a_second_host_does_not_hide_behind_the_first(gateway: Gateway) -> None:
    assert status_of(gateway, "Host: localhost", "Host: evil.example", "Content-Type: application/json") in (400, 403)


@pytest.mark.parametrize(
    "header",
    [
        "Origin: http://evil.example",
        "Origin: null",
        "Origin:",
        "Origin: http://localhost:3000",
        "Origin: http://evil.example@localhost",
        "Sec-Fetch-Site: cross-site",
        "Sec-Fetch-Site: Cross-Site",
        "Sec-Fetch-Site:  cross-site ",
        "Sec-Fetch-Site: same-site",
        "Sec-Fetch-Site: same-origin\r\nSec-Fetch-Site: cross-site",
        "Sec-Fetch-Site: same-origin, cross-site",
        "Origin: http://localhost\r\nOrigin: http://evil.example",
        "Origin: http://localhost\r\nOrigin: null",
        "Origin: http://localhost http://evil.example",
        "Origin: http://localhost/ http://evil.example",
        "Origin: file://localhost",
        "Origin: http://localhost.",
        "Origin: http://localhost@evil.example",
        "ORIGIN: http://evil.example",
    ],
)
def test_a_request_from_another_page_is_refused(gateway: Gateway, header: str) -> None:
    assert status_of(gateway, "Host: localhost", "Content-Type: application/json", header) == 403


@pytest.mark.parametrize(
    "content_type",
    [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "",
        "text/plain\r\nContent-Type: application/json",
        "application/json\r\nContent-Type: text/plain",
        "text/plain; application/json",
        "text/plain, application/json",
    ],
)
def test_json_under_a_type_that_a_page_may_send_unasked_is_refused(gateway: Gateway, content_type: str) -> None:
    assert status_of(gateway, "Host: localhost", f"Content-Type: {content_type}") in (400, 415)


def test_a_body_of_a_million_empty_objects_is_refused_before_it_is_read(gateway: Gateway) -> None:
    body = b'{"model": "limpet/script", "input": [' + b"{}," * 1_000_000 + b"{}]}"

    assert status_of(gateway, "Host: localhost", "Content-Type: application/json", body=body) == 413


def test_names_that_are_no_utf8_are_shown_with_replacements_and_the_response_completes(client: openai.OpenAI) -> None:
    response = run(client, r"printf x > $'\xff\xfe'; mkdir $'\xc3'; printf y > $'\xc3/inner'; printf z > good.txt")

    named = {"/mnt/data/\ufffd\ufffd", "/mnt/data/\ufffd/inner", "/mnt/data/good.txt"}
    assert response.status == "completed"
    assert {file["path"] for file in output_files(response)} == named
    listed = client.containers.files.list(container_of(response))
    assert {file.path for file in listed} == named


def test_more_output_than_a_box_keeps_ends_with_the_commands_own_outcome(client: openai.OpenAI) -> None:
    response = run(client, "head -c 300000000 /dev/zero | tr '\\0' a; exit 7")

    (entry,) = entries(response)
    assert (entry.outcome.type, entry.outcome.exit_code) == ("exit", 7)
    assert "could not be kept" in entry.stdout


def test_a_fault_in_the_log_shows_no_values_of_variables(tmp_path: Path) -> None:
    """A fault is made by taking the database away beneath the gateway."""
    with running(tmp_path, runtime="memory") as gateway:
        for file in gateway.home.glob("*.db*"):
            file.write_bytes(b"no database")
        with gateway.http() as http:
            http.post("/v1/responses", json={"model": "limpet/script", "input": "canary-of-the-input"})
            http.get("/v1/responses/resp_canary-of-the-path")

        assert "canary-of-the-input" not in gateway.log.read_text(errors="replace")
