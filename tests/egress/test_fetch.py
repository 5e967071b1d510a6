"""A file is fetched from a real TLS server on loopback, which the operator's settings allow by name; nothing else there is dialed."""

import gzip
import ssl
import zlib
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio
import pytest
import trustme
from anyio.abc import SocketAttribute, SocketStream
from anyio.streams.tls import TLSListener, TLSStream

from limpet.core.errors import FetchFailed, FetchRefused
from limpet.egress.fetch import Fetcher, check_url
from limpet.egress.settings import FetchSettings

pytestmark = pytest.mark.anyio
HOST = "files.example.com"
LOOPBACK = ("127.0.0.1/32",)
Answers = dict[str, bytes | Callable[[TLSStream], object]]


@dataclass(slots=True)
class Names:
    """A resolver that gives what the test wrote down, one list after the other, and keeps what it was asked."""

    answers: dict[str, list[Sequence[str]]]
    asked: list[str] = field(default_factory=list)

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked.append(host)
        if host not in self.answers:
            raise OSError("no such name")
        left = self.answers[host]
        return left.pop(0) if len(left) > 1 else left[0]


@dataclass(slots=True)
class Server:
    """What is served, by path; `seen` are the heads of the requests, `dials` counts the connections."""

    port: int
    tls: ssl.SSLContext
    answers: dict[str, bytes]
    seen: list[bytes] = field(default_factory=list)
    dials: int = 0

    def url(self, path: str = "/data.csv", host: str = HOST) -> str:
        return f"https://{host}:{self.port}{path}"

    def fetcher(self, names: Names | None = None, **settings: object) -> Fetcher:
        bounds = {"allowed_networks": LOOPBACK, "ports": (443, self.port), "timeout_secs": 5.0} | settings
        return Fetcher(
            FetchSettings(**bounds),  # type: ignore[arg-type]  # the tests name its fields
            tls=self.tls,
            resolve=names or Names({HOST: [["127.0.0.1"]]}),
        )


def head(body: bytes, *headers: str, status: str = "200 OK") -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", "Connection: close", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


@asynccontextmanager
async def serving(answers: dict[str, bytes]) -> AsyncIterator[Server]:
    authority = trustme.CA()
    theirs, ours = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH), ssl.create_default_context()
    authority.issue_cert(HOST, f"other.{HOST}").configure_cert(theirs)
    authority.configure_trust(ours)
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    server = Server(port=listener.extra(SocketAttribute.local_port), tls=ours, answers=answers)

    async def answer(stream: TLSStream) -> None:
        server.dials += 1
        try:
            async with stream:
                request = await stream.receive()
                server.seen.append(request)
                await stream.send(server.answers[request.split()[1].decode()])
        except (anyio.BrokenResourceError, anyio.EndOfStream):
            pass  # the client has heard enough

    async with anyio.create_task_group() as tasks:
        wrapped = TLSListener(listener, theirs, standard_compatible=False)
        tasks.start_soon(wrapped.serve, answer)
        yield server
        tasks.cancel_scope.cancel()


async def fetched(fetcher: Fetcher, url: str, **options: int) -> bytes:
    async with fetcher.open(url, **options) as file:
        return b"".join([piece async for piece in file.data])


async def test_a_file_comes_whole_with_its_type() -> None:
    answer = head(b"a,b\n" * 100_000, "Content-Type: text/csv")
    async with (
        serving({"/data.csv?v=1": answer}) as server,
        server.fetcher().open(server.url("/data.csv?v=1")) as file,
    ):
        data = b"".join([piece async for piece in file.data])
    assert (data, file.content_type) == (b"a,b\n" * 100_000, "text/csv")


async def test_letters_of_every_language_may_stand_in_a_url() -> None:
    async with serving({"/d%C3%A4ta.csv?q=%C3%BC%20": head(b"x")}) as server:
        assert await fetched(server.fetcher(), server.url("/däta.csv?q=ü%20")) == b"x"
        for host in ("⑫7.0.0.1", "münchen.example.com", "a" * 64 + "ü.example.com"):
            with pytest.raises((FetchRefused, FetchFailed)):
                await fetched(server.fetcher(allowed_networks=()), server.url(host=host))
    assert server.dials == 1


async def test_nothing_of_the_gateway_travels_with_the_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    async with serving({"/data.csv": head(b"x", "Set-Cookie: a=b")}) as server:
        fetcher = server.fetcher()
        assert [await fetched(fetcher, server.url()) for _ in range(2)] == [b"x", b"x"]
    assert all(b"cookie" not in seen.lower() and b"authorization" not in seen.lower() for seen in server.seen)


async def test_compressed_content_arrives_unpacked() -> None:
    body = b"line\n" * 50_000
    answers = {
        "/gzip": head(gzip.compress(body), "Content-Encoding: gzip"),
        "/deflate": head(zlib.compress(body), "Content-Encoding: deflate"),
    }
    async with serving(answers) as server:
        assert [await fetched(server.fetcher(), server.url(path)) for path in answers] == [body, body]


async def test_the_size_counts_after_decompression() -> None:
    bomb = head(gzip.compress(bytes(50_000_000)), "Content-Encoding: gzip")
    async with serving({"/bomb": bomb, "/plain": head(bytes(2_000_001))}) as server:
        for path in ("/bomb", "/plain"):
            with pytest.raises(FetchRefused, match="larger than 2000000 bytes"):
                await fetched(server.fetcher(), server.url(path), max_bytes=2_000_000)


@pytest.mark.parametrize(
    "answer, problem",
    [
        (head(b"gone", status="404 Not Found"), "status 404"),
        (head(b"x", "Content-Encoding: br"), "content encoding 'br'"),
        (head(b"not gzip at all", "Content-Encoding: gzip"), "damaged"),
        (head(gzip.compress(bytes(100_000))[:60], "Content-Encoding: gzip"), "ends in the middle"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf", "broke off"),
        (b"hello\r\n\r\n", "did not answer as https demands"),
    ],
)
async def test_a_server_that_does_not_deliver_is_a_failure_that_says_so(answer: bytes, problem: str) -> None:
    async with serving({"/data.csv": answer}) as server:
        with pytest.raises(FetchFailed, match=problem):
            await fetched(server.fetcher(), server.url())


async def test_a_server_that_never_ends_runs_into_the_deadline() -> None:
    async with serving({"/data.csv": b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf"}) as server:
        listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
        silent = listener.extra(SocketAttribute.local_port)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(listener.serve, _hold)
            fetcher = server.fetcher(ports=(silent,), timeout_secs=0.3)
            with pytest.raises(FetchFailed, match=r"within 0\.3 seconds"):
                await fetched(fetcher, f"https://{HOST}:{silent}/x")
            tasks.cancel_scope.cancel()


async def _hold(stream: SocketStream) -> None:
    async with stream:
        await anyio.sleep_forever()


async def test_a_certificate_of_nobody_we_trust_is_a_failure() -> None:
    async with serving({"/data.csv": head(b"x")}) as server:
        fetcher = Fetcher(
            FetchSettings(allowed_networks=LOOPBACK, ports=(server.port,)),
            resolve=Names({HOST: [["127.0.0.1"]]}),
        )
        with pytest.raises(FetchFailed):
            await fetched(fetcher, server.url())
    assert server.seen == []


async def test_a_redirect_is_followed_and_checked_like_the_first_url() -> None:
    async with serving({}) as server:
        server.answers |= {
            "/data.csv": head(b"", f"Location: https://other.{HOST}:{server.port}/there", status="302 Found"),
            "/there": head(b"there"),
        }
        names = Names({HOST: [["127.0.0.1"]], f"other.{HOST}": [["127.0.0.1"]]})
        assert await fetched(server.fetcher(names), server.url()) == b"there"
    assert names.asked == [HOST, f"other.{HOST}"]


@pytest.mark.parametrize(
    "target",
    [
        "http://files.example.com/plain",
        "https://169.254.169.254/latest/meta-data",
        "https://[::1]/x",
        "https://2130706433/x",
        "https://user:pass@files.example.com/x",
        "https://files.example.com:22/x",
        "file:///etc/passwd",
        "//127.1/x",
        "https://inner.example.com/x",
    ],
)
async def test_a_redirect_leads_nowhere_that_the_first_url_may_not(target: str) -> None:
    async with serving({"/data.csv": head(b"", f"Location: {target}", status="302 Found")}) as server:
        names = Names({HOST: [["127.0.0.1"]], "inner.example.com": [["10.0.0.7"]]})
        with pytest.raises(FetchRefused) as refused:
            await fetched(server.fetcher(names), server.url())
    assert server.dials == 1
    # Neither the address nor its spelling: the client may not know where the redirect leads.
    secret = target.partition("//")[2].partition("/")[0].rpartition("@")[2].partition(":2")[0] or target
    assert "redirects to where nothing may be fetched" in str(refused.value)
    assert secret in (HOST, "files.example.com") or secret not in str(refused.value)
    assert "10.0.0.7" not in str(refused.value)


async def test_redirects_in_a_ring_end() -> None:
    async with serving({"/data.csv": head(b"", "Location: /data.csv", status="302 Found")}) as server:
        with pytest.raises(FetchFailed, match="more than 5 redirects"):
            await fetched(server.fetcher(), server.url())
    assert server.dials == 6


@pytest.mark.parametrize(
    "answers",
    [
        ["10.0.0.1"],
        ["127.0.0.1", "10.0.0.1"],
        ["93.184.216.34", "169.254.169.254"],
        ["::ffff:169.254.169.254"],
        ["fe80::1%lo"],
        ["64:ff9b::a9fe:a9fe"],
    ],
)
async def test_one_inner_address_poisons_a_name(answers: list[str]) -> None:
    async with serving({"/data.csv": head(b"x")}) as server:
        with pytest.raises(FetchRefused) as refused:
            await fetched(server.fetcher(Names({HOST: [answers]})), server.url())
    assert server.dials == 0
    assert not any(answer in str(refused.value) for answer in answers)


async def test_a_name_that_changes_its_answer_is_caught_when_it_changes() -> None:
    async with serving({"/data.csv": head(b"x")}) as server:
        fetcher = server.fetcher(Names({HOST: [["127.0.0.1"], ["169.254.169.254"]]}))
        assert await fetched(fetcher, server.url()) == b"x"
        with pytest.raises(FetchRefused):
            await fetched(fetcher, server.url())
    assert server.dials == 1


async def test_loopback_is_not_dialed_unless_the_operator_says_so() -> None:
    async with serving({"/data.csv": head(b"x")}) as server:
        for host in ("localhost", HOST, "127.0.0.1"):
            fetcher = server.fetcher(Names({host: [["127.0.0.1"]]}), allowed_networks=())
            with pytest.raises(FetchRefused):
                await fetched(fetcher, server.url(host=host))
    assert server.dials == 0


@pytest.mark.parametrize(
    "url",
    [
        "http://files.example.com/x",
        "ftp://files.example.com/x",
        "//files.example.com/x",
        "https:///x",
        "https://",
        "https://a b/x",
        "https://files.example.com\\@inner/x",
        "https://user@files.example.com/x",
        "https://files.example.com:0x50/x",
        "https://files.example.com:99999/x",
        "https://files.example.com:8443/x",
        "https://[::1/x",
        "https://files.example.com/\r\nHost: inner",
        "https://files.example.com/" + "x" * 9000,
        "data:text/plain,x",
        "",
    ],
)
def test_a_url_that_may_not_be_fetched_is_refused_with_what_would_be_right(url: str) -> None:
    with pytest.raises(FetchRefused):
        check_url(url)


async def test_a_name_without_an_address_is_a_failure() -> None:
    async with serving({}) as server:
        with pytest.raises(FetchFailed, match="could not be resolved"):
            await fetched(server.fetcher(Names({})), server.url())
