"""What no client should send to `/v1/containers`: refused with a status, OpenAI's error shape, the place and what would be right."""

from typing import Any

import httpx2
import pytest

from tests.support.gateway import Gateway
from tests.support.host import rows
from tests.wire.conftest import RUNTIME
from tests.wire.schema import check_error

A_MINUTE = {"anchor": "last_active_at", "minutes": 1}

BAD_BODIES: dict[str, tuple[Any, str | None]] = {
    # what is sent, and the `param` of the error
    "no name": ({}, "name"),
    "null name": ({"name": None}, "name"),
    "number as name": ({"name": 5}, "name"),
    "list as name": ({"name": ["a"]}, "name"),
    "empty name": ({"name": ""}, "name"),
    "long name": ({"name": "x" * 256}, "name"),
    "name with a line break": ({"name": "a\nb"}, "name"),
    "name with a NUL": ({"name": "a\0b"}, "name"),
    "body is a list": ([], None),
    "body is a text": ("name", None),
    "body is null": (None, None),
    "memory as a word": ({"name": "a", "memory_limit": "lots"}, "memory_limit"),
    "memory as true": ({"name": "a", "memory_limit": True}, "memory_limit"),
    "memory as a list": ({"name": "a", "memory_limit": ["1g"]}, "memory_limit"),
    "no memory": ({"name": "a", "memory_limit": "0"}, "memory_limit"),
    "negative memory": ({"name": "a", "memory_limit": -1}, "memory_limit"),
    "too little memory": ({"name": "a", "memory_limit": "1m"}, "memory_limit"),
    "half a gigabyte": ({"name": "a", "memory_limit": "0.5g"}, "memory_limit"),
    "memory in petabytes": ({"name": "a", "memory_limit": "1p"}, "memory_limit"),
    "more memory than there are numbers": ({"name": "a", "memory_limit": "9" * 40}, "memory_limit"),
    "memory beyond any machine": ({"name": "a", "memory_limit": "999999999999999t"}, "memory_limit"),
    "policy as a text": ({"name": "a", "network_policy": "disabled"}, "network_policy.type"),
    "policy without a type": ({"name": "a", "network_policy": {}}, "network_policy.type"),
    "unknown policy": ({"name": "a", "network_policy": {"type": "open"}}, "network_policy.type"),
    "policy that cannot be held": (
        {"name": "a", "network_policy": {"type": "allowlist", "allowed_domains": ["example.com"]}},
        "network_policy.allowed_domains[0]" if RUNTIME == "bubblewrap" else "network_policy",
    ),
    "expiry as a number": ({"name": "a", "expires_after": 20}, "expires_after"),
    "expiry as a list": ({"name": "a", "expires_after": [20]}, "expires_after"),
    "expiry without minutes": ({"name": "a", "expires_after": {"anchor": "last_active_at"}}, "expires_after.minutes"),
    "no minutes": ({"name": "a", "expires_after": {**A_MINUTE, "minutes": 0}}, "expires_after.minutes"),
    "negative minutes": ({"name": "a", "expires_after": {**A_MINUTE, "minutes": -5}}, "expires_after.minutes"),
    "half a minute": ({"name": "a", "expires_after": {**A_MINUTE, "minutes": 0.5}}, "expires_after.minutes"),
    "minutes as a text": ({"name": "a", "expires_after": {**A_MINUTE, "minutes": "20"}}, "expires_after.minutes"),
    "minutes as true": ({"name": "a", "expires_after": {**A_MINUTE, "minutes": True}}, "expires_after.minutes"),
    "more minutes than allowed": (
        {"name": "a", "expires_after": {**A_MINUTE, "minutes": 10**9}},
        "expires_after.minutes",
    ),
    "unknown anchor": ({"name": "a", "expires_after": {**A_MINUTE, "anchor": "created_at"}}, "expires_after.anchor"),
    "files by id": ({"name": "a", "file_ids": ["file-1"]}, "file_ids[0]"),
    "files by id as a text": ({"name": "a", "file_ids": "file-1"}, "file_ids"),
    "skills": ({"name": "a", "skills": [{"type": "skill_reference", "skill_id": "skill_1"}]}, "skills[0].skill_id"),
    "skills as an object": ({"name": "a", "skills": {"type": "inline"}}, "skills"),
}

BAD_RAW: dict[str, tuple[bytes, dict[str, str], int]] = {
    "nothing": (b"", {"content-type": "application/json"}, 400),
    "broken JSON": (b'{"name": ', {"content-type": "application/json"}, 400),
    "bytes that are no text": (b'{"name": "\xff"}', {"content-type": "application/json"}, 400),
    "half a character": (b'{"name": "a\\ud800"}', {"content-type": "application/json"}, 400),
    "deeper than deep": (b"[" * 100_000, {"content-type": "application/json"}, 400),
    "a form": (b"name=a", {"content-type": "application/x-www-form-urlencoded"}, 415),
    "a text": (b'{"name": "a"}', {"content-type": "text/plain"}, 415),
    "no type": (b'{"name": "a"}', {}, 415),
}

BAD_QUERIES: dict[str, tuple[str, str]] = {
    "limit=0": ("limit=0", "limit"),
    "limit=101": ("limit=101", "limit"),
    "limit=-1": ("limit=-1", "limit"),
    "limit=x": ("limit=x", "limit"),
    "limit=1.5": ("limit=1.5", "limit"),
    "limit empty": ("limit=", "limit"),
    "limit of many digits": ("limit=" + "9" * 5000, "limit"),
    "limit in other digits": ("limit=%C2%B2", "limit"),
    "limit of signs": ("limit=--1", "limit"),
    "order=up": ("order=up", "order"),
    "order empty": ("order=", "order"),
    "order=ASC": ("order=ASC", "order"),
    "after unknown": ("after=cntr_" + "0" * 32, "after"),
    "after empty": ("after=", "after"),
    "after NUL": ("after=%00", "after"),
}


def refused(answer: httpx2.Response, *, param: str | None, status: int = 400) -> None:
    assert answer.status_code == status, answer.text
    check_error(answer.json())
    error = answer.json()["error"]
    assert error["param"] == param, error
    assert error["type"] == "invalid_request_error"
    assert len(error["message"]) > 20
    assert "Traceback" not in answer.text


def containers(gateway: Gateway) -> list[dict[str, Any]]:
    return rows(gateway.home / "limpet.db", "SELECT count(*) AS number FROM containers")


@pytest.mark.parametrize("case", BAD_BODIES)
def test_a_wrong_body_makes_no_container_and_names_its_field(gateway: Gateway, case: str) -> None:
    body, param = BAD_BODIES[case]
    before = containers(gateway)

    with gateway.http() as http:
        answer = http.post("/v1/containers", json=body)

    refused(answer, param=param)
    assert containers(gateway) == before


@pytest.mark.parametrize("case", BAD_RAW)
def test_a_body_that_is_not_json_makes_no_container(gateway: Gateway, case: str) -> None:
    content, headers, status = BAD_RAW[case]
    before = containers(gateway)

    with gateway.http() as http:
        answer = http.post("/v1/containers", content=content, headers=headers)

    refused(answer, param=None, status=status)
    assert containers(gateway) == before


def test_a_body_that_is_too_large_is_413(gateway: Gateway) -> None:
    with gateway.http() as http:
        answer = http.post("/v1/containers", json={"name": "a" * (65 * 1024 * 1024)})

    refused(answer, param=None, status=413)


@pytest.mark.parametrize("case", BAD_QUERIES)
def test_a_wrong_query_is_refused_in_both_lists(gateway: Gateway, case: str) -> None:
    query, param = BAD_QUERIES[case]
    with gateway.http() as http:
        container = http.post("/v1/containers", json={"name": "a"}).json()["id"]

        for path in ("/v1/containers", f"/v1/containers/{container}/files"):
            refused(http.get(f"{path}?{query}"), param=param)


FORM = {"content-type": "multipart/form-data; boundary=x"}


def part(headers: str, content: bytes = b"content") -> bytes:
    return b"--x\r\n" + headers.encode() + b"\r\n\r\n" + content + b"\r\n--x--\r\n"


BAD_UPLOADS: dict[str, tuple[bytes, dict[str, str], str | None]] = {
    "JSON without a file id": (b'{"file": "file-1"}', {"content-type": "application/json"}, "file_id"),
    "another part's name": (part('Content-Disposition: form-data; name="data"; filename="a"'), FORM, "file"),
    "a field instead of a file": (part('Content-Disposition: form-data; name="file"'), FORM, "file"),
    "no boundary": (b"content", {"content-type": "multipart/form-data"}, "file"),
    "another boundary": (b"--y\r\n\r\n", FORM, "file"),
    "nothing at all": (b"--x--\r\n", FORM, "file"),
    "a part without a head": (b"--x\r\n\r\ncontent\r\n--x--\r\n", FORM, "file"),
    "a head without a name": (part("Content-Disposition: form-data"), FORM, "file"),
    "broken off": (b'--x\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\nconte', FORM, "file"),
    "two files": (
        part('Content-Disposition: form-data; name="file"; filename="a"')[:-7]
        + b"\r\n"
        + part('Content-Disposition: form-data; name="file"; filename="b"'),
        FORM,
        "file",
    ),
    "a thousand fields": (
        b"".join(b'--x\r\nContent-Disposition: form-data; name="f"\r\n\r\nv\r\n' for _ in range(1000)) + b"--x--\r\n",
        FORM,
        "file",
    ),
}


@pytest.mark.parametrize("case", BAD_UPLOADS)
def test_a_wrong_upload_writes_nothing(gateway: Gateway, case: str) -> None:
    content, headers, param = BAD_UPLOADS[case]
    with gateway.http() as http:
        container = http.post("/v1/containers", json={"name": "a"}).json()["id"]

        answer = http.post(f"/v1/containers/{container}/files", content=content, headers=headers)

        refused(answer, param=param)
        assert http.get(f"/v1/containers/{container}/files").json()["data"] == []
    data = gateway.home / "boxes" / container / "data"
    assert not data.exists() or list(data.iterdir()) == []


@pytest.mark.parametrize("announced", [True, False])
def test_an_upload_beyond_the_limit_is_413_and_writes_nothing(gateway: Gateway, announced: bool) -> None:
    content = part('Content-Disposition: form-data; name="file"; filename="big"', b"x" * (25 * 1024 * 1024 + 1))
    with gateway.http() as http:
        container = http.post("/v1/containers", json={"name": "a"}).json()["id"]

        answer = http.post(
            f"/v1/containers/{container}/files", content=content if announced else iter([content]), headers=FORM
        )

        refused(answer, param="file", status=413)
        assert http.get(f"/v1/containers/{container}/files").json()["data"] == []
    data = gateway.home / "boxes" / container / "data"
    assert not data.exists() or list(data.iterdir()) == []


def test_a_method_that_is_not_there_is_405(gateway: Gateway) -> None:
    with gateway.http() as http:
        for method in ("PUT", "PATCH"):
            answer = http.request(method, "/v1/containers", json={})
            assert answer.status_code == 405
            check_error(answer.json())
            assert answer.json()["error"]["code"] == "method_not_allowed"
