"""The door of a box: how fast it carries, beside a direct connection, squid and mitmproxy; what it costs a box; a box that floods."""

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import trustme
from anyio import to_thread

from bench import egress_clients as clients
from bench.egress_clients import HOST, process
from bench.table import Line, NotMeasured, Row, Scale, by_turns, compared, seconds
from limpet import open_workspace
from limpet.core.network import DoorPlan
from limpet.core.ports import Offer, SandboxSpec, WhileOwned
from limpet.core.secret import Secret
from limpet.egress.authority import Authority
from limpet.egress.network import place_secrets
from limpet.egress.secrets import DomainSecret
from limpet.runtimes.bubblewrap.runtime import BubblewrapRuntime
from limpet.runtimes.bubblewrap.settings import BubblewrapSettings

BOXES = 200
TOOLS = {
    "curl": "curl -sS https://evil.example/",
    "git": "git clone -q https://evil.example/x",
    "pip": "python3 -m pip install -q x",
    "npm": "npm install --silent x",
}


async def rows(scale: Scale) -> list[Line]:
    with tempfile.TemporaryDirectory() as place, _upstream(Path(place)) as (up, trust):
        lines = await to_thread.run_sync(_passed_through, scale, Path(place), up, trust)
        lines += await to_thread.run_sync(_intercepted, scale, Path(place), up, trust)
        lines += await to_thread.run_sync(_flooded, scale, up)
        lines.append(await to_thread.run_sync(_memory, trust))
    if scale.runtime != "bubblewrap":
        return [*lines, NotMeasured(name="doors of boxes", reason="Only boxes of bubblewrap have doors.")]
    return [*lines, await _opened(scale), *await _booted(scale), *await _closed(scale)]


@contextmanager
def _upstream(place: Path) -> Iterator[tuple[dict[str, int], str]]:
    """The upstream's ports, and the file of its authority."""
    authority, certificate, trust = trustme.CA(), place / "certificate.pem", place / "trust.pem"
    certificate.write_bytes(authority.issue_cert(HOST, "localhost").private_key_and_cert_chain_pem.bytes())
    trust.write_bytes(authority.cert_pem.bytes())
    with process("bench.egress_upstream", str(certificate)) as ports:
        yield ports, str(trust)


def _passed_through(scale: Scale, place: Path, up: dict[str, int], trust: str) -> list[Line]:
    stream, reply, tls = up["stream"], up["reply"], up["tls"]
    with (
        process("bench.egress_door", "2", "-", str(stream), str(reply), str(tls)) as ours,
        clients.squid(place / "squid") as squid,
    ):
        door, other = ours["doors"]  # connections are paced, of each door for itself
        lines: list[Line] = []
        n = scale.of(5)
        if squid is None:
            lines.append(
                NotMeasured(name="passed through, beside squid", reason="squid is not here.", is_optional=True)
            )
        else:
            carried = _in_turns(
                partial(clients.megabytes_a_second, door, stream),
                partial(clients.megabytes_a_second, squid, stream, "127.0.0.1"),
                n=n,
            )
            lines.append(
                compared(
                    "passed through a door, one tunnel",
                    *_beside("CONNECT through squid", carried),
                    "MB/s",
                    target="≥ 0.8 ×",
                )
            )
        carried = _in_turns(
            partial(clients.megabytes_a_second, door, stream), partial(clients.megabytes_a_second, None, stream), n=n
        )
        lines.append(compared("passed through a door, one tunnel", *_beside("direct", carried), "MB/s"))
        shaken = partial(clients.new_tls_connection, context=clients.trusted(Path(trust).read_text()))
        opened = _in_turns(partial(shaken, other, tls), partial(shaken, None, tls), n=scale.of(200))
        lines.append(compared("new TLS connection through a door", *_beside("direct", opened), target="≤ 2 ×"))
        opened = _in_turns(
            partial(clients.new_connection, door, reply), partial(clients.new_connection, None, reply), n=scale.of(200)
        )
        lines.append(compared("the same without a handshake, TCP alone", *_beside("direct", opened)))
        refused = _in_turns(
            partial(clients.refusal, door), partial(clients.new_connection, None, reply), n=scale.of(200)
        )
        lines.append(compared("refusal of a host", *_beside("a direct connection", refused), target="≤ 100 ms"))
        return lines


def _intercepted(scale: Scale, place: Path, up: dict[str, int], trust: str) -> list[Line]:
    tls, count = up["tls"], scale.of(4000)
    with process("bench.egress_door", "1", trust, str(tls)) as ours, clients.mitmproxy(place / "mitm") as peer:
        (door,) = ours["doors"]
        context, token = clients.trusted(ours["trust"]), ours["placeholder"]
        size, buffer = 1 << 28, bytearray(1 << 20)

        def carried() -> float:
            with clients.secure(door, tls, context) as connection:
                begun = time.perf_counter()
                clients.get(connection, size, token, buffer)
                return size / (time.perf_counter() - begun) / 1e6

        def direct() -> float:
            with clients.trusted(None).wrap_socket(clients.tunnel(None, tls), server_hostname=HOST) as connection:
                begun = time.perf_counter()
                clients.get(connection, size, token, buffer)
                return size / (time.perf_counter() - begun) / 1e6

        rates = _in_turns(carried, direct, n=scale.of(5))
        lines: list[Line] = [
            compared(
                "through an interception with a secret", *_beside("TLS, direct", rates), "MB/s", target="≥ 300 MB/s"
            )
        ]
        if peer is None:
            reason = "mitmproxy is not here; BENCH_MITMDUMP names it."
            return [
                *lines,
                NotMeasured(name="requests with a secret, beside mitmproxy", reason=reason, is_optional=True),
            ]
        asked = _in_turns(
            partial(clients.requests_a_second, door, tls, context, token, count=count),
            partial(clients.requests_a_second, peer, tls, clients.trusted(None), "PLACEHOLDER", count=count // 4, host="localhost"),
            n=scale.of(3),
        )  # fmt: skip
        return [
            *lines,
            compared("requests with a secret, 8 connections", *_beside("mitmproxy", asked), "1/s", target="≥ 4 ×"),
        ]


def _flooded(scale: Scale, up: dict[str, int]) -> list[Line]:
    """New connections of one box, at the 99th of 100, while another of the same gateway asks for what is refused as fast as it can."""
    reply, count = up["reply"], scale.of(1500, least=200)
    with process("bench.egress_door", "2", "-", str(reply)) as ours:
        quiet_door, flooded_door = ours["doors"]
        connect = partial(clients.new_connection, quiet_door, reply)
        quiet = [connect() for _ in range(count)]
        with process("bench.egress_clients", str(flooded_door)):
            time.sleep(0.5)
            flooded = [connect() for _ in range(count)]
    row = Row(
        name="new connection while another box floods, 99th of 100",
        ours=statistics.quantiles(flooded, n=100)[-1],
        beside="the same, quiet",
        floor=statistics.quantiles(quiet, n=100)[-1],
        unit="ms",
        n=count,
        target="≤ 2 ×",
    )
    return [row]


def _memory(trust: str) -> Line:
    with (
        process("bench.egress_door", str(BOXES), trust, "443") as ours,
        process("bench.egress_door", "0", "-", "443") as none,
    ):
        sizes = [_mib(each["pid"]) for each in (ours, none)]
    return Row(
        name=f"{BOXES} doors with a secret each, RSS",
        ours=sizes[0], beside="no door", floor=sizes[1], unit="MiB", n=1, target="≤ 150 MiB",
    )  # fmt: skip


def _mib(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("VmRSS:")) / 1024


async def _opened(scale: Scale) -> Line:
    """Listeners in a new box, and an authority with the certificate of a secret's host."""
    placed = place_secrets({"TOKEN": DomainSecret(value=Secret("a-secret-value"), hosts=(HOST,))})
    taken: list[float] = []
    async with BubblewrapRuntime(BubblewrapSettings(home=scale.home)) as runtime:
        for number in range(scale.of(20)):
            spec = SandboxSpec(name=f"bench-{number}", lifetime=WhileOwned(), needs=frozenset({Offer.NETWORK_POLICY}))
            sandbox: Any = await runtime.create(spec)
            begun = time.perf_counter()
            listeners = await sandbox.listen(DoorPlan())
            Authority.for_hosts(placed[0].hosts).context_for(HOST)
            taken.append((time.perf_counter() - begun) * 1000)
            listeners.close()
            await sandbox.destroy()
    return compared("listeners and authority of a new box", taken, "none", [0.0], target="≤ 15 ms")


async def _booted(scale: Scale) -> list[Line]:
    async def life(network: list[str] | None) -> None:
        async with open_workspace("bench", runtime=scale.runtime, home=scale.home, network=network) as box:
            await box.run("true")

    opened, plain = await by_turns(partial(life, [HOST]), partial(life, None), n=scale.of(30))
    return [compared("a box with a door: boot, a command, end", opened, "a box without", plain)]


async def _closed(scale: Scale) -> list[Line]:
    """What tools do in a box without any network."""
    lines: list[Line] = []
    async with open_workspace("bench", runtime=scale.runtime, home=scale.home) as box:
        for tool, command in TOOLS.items():
            if (await box.run(f"command -v {command.split()[0]}")).exit_code != 0:
                lines.append(NotMeasured(name=f"{tool} without a network", reason="It is not here.", is_optional=True))
                continue
            taken = [await seconds(partial(box.run, command)) * 1000 for _ in range(scale.of(2, least=1))]
            lines.append(
                compared(f"{tool} without a network, until it gives up", taken, "none", [0.0], target="≤ 10 s")
            )
    return lines


def _in_turns(*measures: Callable[[], float], n: int) -> list[list[float]]:
    """Each measure's n results, after one that does not count."""
    for measure in measures:
        measure()
    found: list[list[float]] = [[] for _ in measures]
    for _ in range(n):
        for results, measure in zip(found, measures, strict=True):
            results.append(measure())
    return found


def _beside(name: str, measured: list[list[float]]) -> tuple[list[float], str, list[float]]:
    ours, floor = measured
    return ours, name, floor
