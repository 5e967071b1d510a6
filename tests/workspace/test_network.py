"""Boxes reach what they were allowed, and nothing else: real boxes, a real server on loopback, whose log says what left."""

import json
import logging
from collections.abc import Sequence
from pathlib import Path

import pytest

import limpet
from limpet.core.errors import ConfigInvalid, OfferMissing
from limpet.runtimes.bubblewrap.runtime import BubblewrapRuntime
from tests.support.doors import Upstream, upstream
from tests.support.runtimes import opened
from tests.support.users import again_as_an_ordinary_user

pytestmark = pytest.mark.anyio
GOOD = "api.good.example"


def reaching(up: Upstream, *hosts: str) -> limpet.Network:
    """A network whose every name leads to that server."""

    async def resolve(host: str, port: int) -> Sequence[str]:
        return ["127.0.0.1"]

    return limpet.Network(hosts=hosts, ports=[up.port], networks=["127.0.0.0/8"], resolve=resolve)


def curl(up: Upstream, url: str, *, proxied: bool) -> str:
    """A request that trusts that server's authority, whose certificate it writes first."""
    unset = "" if proxied else "unset http_proxy https_proxy HTTP_PROXY HTTPS_PROXY; "
    return f"printf %s '{up.trust}' > ca; {unset}curl -sS --max-time 20 --cacert ca {url}"


@pytest.mark.parametrize("proxied", [True, False], ids=["by proxy", "transparently"])
async def test_a_box_reaches_the_allowed_host_over_tls(home: Path, proxied: bool) -> None:
    with upstream(GOOD) as up:
        async with (
            opened("bubblewrap", home) as runtime,
            limpet.open_workspace(runtime=runtime, network=reaching(up, GOOD)) as box,
        ):
            result = await box.run(curl(up, f"https://{GOOD}:{up.port}/a", proxied=proxied))
            assert (result.stdout, result.exit_code) == (b"hello", 0), result.stderr
    assert [head.splitlines()[0] for head in up.seen] == [b"GET /a HTTP/1.1"]
    assert up.names == [GOOD]


async def test_all_other_ways_out_fail_at_once(home: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Addresses, other names, other ports, UDP, names that would carry data, and the host."""
    tries = [
        "curl -sS https://evil.example:{port}/",
        "curl -sS --noproxy '*' https://evil.example/",
        "curl -sS --noproxy '*' http://127.0.0.1:{port}/",
        f"curl -sS http://{GOOD}:22/",
        "curl -sS --noproxy '*' http://1.1.1.1/",
        "curl -sS http://1.1.1.1/",
        "curl -sS http://169.254.169.254/latest/meta-data/",
        "curl -sS -x '' http://[::1]:{port}/",
        "python3 -c 'import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b\"x\", (\"8.8.8.8\", 53))'",
        "getent hosts secret-data.evil.example",
        "python3 -c 'import socket; socket.create_connection((\"198.18.0.2\", 80), 5)'",
        f"curl -sS --connect-to {GOOD}:443:evil.example:443 https://{GOOD}/",
    ]  # fmt: skip
    caplog.set_level(logging.INFO, "limpet.network_audit")
    with upstream(GOOD) as up:
        async with (
            opened("bubblewrap", home) as runtime,
            limpet.open_workspace(runtime=runtime, network=reaching(up, GOOD)) as box,
        ):
            results = [await box.run(each.replace("{port}", str(up.port))) for each in tries]
            assert [
                (each, result.exit_code) for each, result in zip(tries, results, strict=True) if result.exit_code == 0
            ] == []
            assert max(result.duration for result in results) < 15
    assert (up.dials, up.seen) == (0, [])
    audited = [json.loads(record.getMessage().partition(" ")[2]) for record in caplog.records]
    assert ("evil.example", "refused", "host_not_allowed") in {
        (each["host"], each["verdict"], each["rule"]) for each in audited
    }


async def test_a_box_without_a_network_has_loopback_only(home: Path) -> None:
    async with opened("bubblewrap", home) as runtime, limpet.open_workspace(runtime=runtime, network=[]) as box:
        result = await box.run("cat /proc/net/fib_trie | grep -c 198.18; env | grep -ci _proxy; cat /etc/resolv.conf")
        assert result.stdout == b"0\n0\n"
        # Not "temporarily": npm and others would try again for a minute.
        look = "import socket\ntry: socket.getaddrinfo('a.example', 443)\nexcept socket.gaierror as e: print(e.errno == socket.EAI_NONAME)"
        assert (await box.run(["python3", "-c", look])).stdout == b"True\n"
        settings = (await box.run("cat /etc/pip.conf /etc/npmrc")).stdout.split()
        assert {b"retries", b"fetch-retry-mintimeout=500", b"fetch-retry-maxtimeout=2000"} <= set(settings)


async def test_a_service_of_the_host_is_seen_by_its_name_and_port_alone(home: Path) -> None:
    with upstream(tls=False, answer=b"service") as up:
        network = limpet.Network(services={"db": f"127.0.0.1:{up.port}"})
        async with (
            opened("bubblewrap", home) as runtime,
            limpet.open_workspace(runtime=runtime, network=network) as box,
        ):
            reached = await box.run(f"curl -sS --noproxy '*' http://db.host.internal:{up.port}/")
            other = await box.run(f"curl -sS --noproxy '*' http://db.host.internal:{up.port + 1}/")
            proxied = await box.run(f"curl -sS -p http://db.host.internal:{up.port}/")
    assert (reached.stdout, proxied.stdout, other.exit_code) == (b"service", b"service", 7)


async def test_what_a_command_does_cannot_take_the_doors_ports(home: Path) -> None:
    async with opened("bubblewrap", home) as runtime, limpet.open_workspace(runtime=runtime, network=[GOOD]) as box:
        bind = "import socket; socket.socket().bind(('198.18.0.1', {port}))"
        denied = [await box.run(["python3", "-c", bind.format(port=port)]) for port in (80, 443)]
        assert all(b"Permission denied" in result.stderr or b"in use" in result.stderr for result in denied)
        assert (await box.run("ip addr add 10.0.0.1/8 dev lo || unshare -Urn true")).exit_code != 0


@pytest.mark.parametrize("name", ["memory", "local"])
async def test_a_runtime_that_cannot_hold_a_network_refuses_it(home: Path, name: str) -> None:
    async with opened(name, home) as runtime:
        with pytest.raises(OfferMissing, match="network_policy"):
            async with limpet.open_workspace(runtime=runtime, network=[GOOD]):
                pytest.fail("it was opened")


@pytest.mark.parametrize("network", ["*", "yes", ["https://x.example"], ["1.1.1.1"], [1], {"a": 1}, ["*.com"]])
async def test_a_network_that_is_none_is_refused_with_what_is_right(network: object) -> None:
    with pytest.raises(ConfigInvalid, match="network"):
        async with limpet.open_workspace(network=network):  # type: ignore[arg-type]
            pytest.fail("it was opened")


async def test_an_error_in_the_block_is_raised_as_it_is(home: Path) -> None:
    async with BubblewrapRuntime(home=home) as runtime:
        with pytest.raises(KeyError, match="mine"):
            async with limpet.open_workspace(runtime=runtime, network=[GOOD]):
                raise KeyError("mine")


def test_an_ordinary_users_boxes_have_the_same_door() -> None:
    again_as_an_ordinary_user(__file__, "-k", "reaches or other_ways or take_the_doors")
