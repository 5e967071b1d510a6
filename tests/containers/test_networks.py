"""What containers reach: what a request asked and the operator grants, changed while they live, and held again after a restart."""

from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest

from limpet.containers.manager import ContainerManager
from limpet.containers.network_grants import NetworkGrants, is_within
from limpet.core.errors import RequestInvalid
from limpet.core.ports import Offer, Runtime
from limpet.egress.policy import Admitted
from limpet.store.database import Database
from limpet.store.settings import DatabaseSettings
from tests.containers.turned import TurnedClock
from tests.support.doors import BOUND, Upstream, upstream
from tests.support.runtimes import opened

pytestmark = pytest.mark.anyio
TENANT = "default"
GOOD, OTHER = "api.good.example", "other.good.example"
SETS = {"packages:python": ("index.example", "*.files.example")}
OFFERS = frozenset({Offer.NETWORK_POLICY})


@pytest.fixture
async def db(home: Path) -> AsyncIterator[Database]:
    async with Database(DatabaseSettings(), home=home) as database:
        yield database


def grants(up: Upstream, *hosts: str) -> NetworkGrants:
    async def resolve(host: str, port: int) -> Sequence[str]:
        return ["127.0.0.1"]

    return NetworkGrants(hosts=hosts, ports=(up.port,), networks=("127.0.0.0/8",), resolve=resolve)


def manager(
    runtime: Runtime, db: Database, home: Path, clock: TurnedClock, granted: NetworkGrants, *, stop: bool = True
) -> ContainerManager:
    return ContainerManager(runtime, db, home=home, clock=clock, stop_boxes=stop, grants=granted)


def allowlist(*domains: str) -> dict[str, Any]:
    return {"type": "allowlist", "allowed_domains": list(domains)}


async def new(containers: ContainerManager, *domains: str) -> str:
    spec = containers.narrow({"network_policy": allowlist(*domains)})
    return (await containers.create(TENANT, name="box", spec=spec)).id


async def reached(containers: ContainerManager, container_id: str, up: Upstream, host: str = GOOD) -> bytes:
    async with containers.lease(TENANT, container_id) as lease:
        return (await lease.shell.run(f"curl -sf --max-time 20 http://{host}:{up.port}/ || true")).stdout


async def test_a_policy_holds_at_the_first_command_changes_at_once_and_ends_open_connections(
    home: Path, db: Database, clock: TurnedClock
) -> None:
    with upstream(tls=False) as up:
        async with (
            opened("bubblewrap", home) as runtime,
            manager(runtime, db, home, clock, grants(up, "*.good.example")) as containers,
        ):
            mine = await new(containers, GOOD)
            assert await reached(containers, mine, up) == b"hello"
            assert await reached(containers, mine, up, OTHER) == b""
            async with containers.lease(TENANT, mine) as lease:
                held = await lease.shell.spawn(
                    f"exec 3<>/dev/tcp/{GOOD}/{up.port}; printf 'GET / HTTP/1.1\\r\\nHost: {GOOD}:{up.port}\\r\\n\\r\\n' >&3; "
                    "head -c 15 <&3 > got; cat <&3 > /dev/null"
                )
                with anyio.fail_after(BOUND):
                    while (await lease.shell.run("test -s got")).exit_code:
                        await anyio.sleep(0.01)
                await containers.networks.change(TENANT, mine, allowlist(OTHER))
                with anyio.fail_after(BOUND):
                    await held.wait()
            assert await reached(containers, mine, up) == b""
            assert await reached(containers, mine, up, OTHER) == b"hello"
            await containers.networks.change(TENANT, mine, {"type": "disabled"})
            assert await reached(containers, mine, up, OTHER) == b""


async def test_a_container_that_reached_nothing_can_be_given_a_network_while_it_lives(
    home: Path, db: Database, clock: TurnedClock
) -> None:
    with upstream(tls=False) as up:
        async with (
            opened("bubblewrap", home) as runtime,
            manager(runtime, db, home, clock, grants(up, GOOD)) as containers,
        ):
            mine = (await containers.create(TENANT, name="box", spec=containers.narrow({}))).id
            assert await reached(containers, mine, up) == b""
            await containers.networks.change(TENANT, mine, allowlist(GOOD))
            assert await reached(containers, mine, up) == b"hello"


async def test_a_box_is_closed_without_its_gateway_and_has_its_door_again_with_the_next_one(
    home: Path, db: Database, clock: TurnedClock
) -> None:
    asking = f"while :; do curl -s --max-time 10 http://{GOOD}:$PORT/ > now; mv now last; sleep 0.05; done"
    with upstream(tls=False) as up:
        granted = grants(up, GOOD)
        async with (
            opened("bubblewrap", home) as runtime,
            manager(runtime, db, home, clock, granted, stop=False) as before,
        ):
            mine = await new(before, GOOD)
            async with before.lease(TENANT, mine) as lease:
                await lease.shell.spawn(asking, env={"PORT": str(up.port)})
                with anyio.fail_after(BOUND):
                    while not up.seen:
                        await anyio.sleep(0.01)
        count = up.dials
        async with opened("bubblewrap", home) as runtime:
            await anyio.sleep(0.2)  # nothing may happen in this time, whatever the box tries
            assert up.dials <= count + 1
            async with manager(runtime, db, home, clock, granted):
                with anyio.fail_after(BOUND):
                    while up.dials <= count + 1:  # without a lease: what runs there goes on
                        await anyio.sleep(0.01)


@pytest.mark.parametrize(
    "operator, asked, is_fine",
    [
        ([], [GOOD], False),
        ([], [], True),
        ([GOOD], [GOOD], True),
        ([GOOD], [OTHER], False),
        (["*.good.example"], [GOOD, "*.x.good.example"], True),
        ([GOOD], ["*.good.example"], False),
        (["open"], ["any.example"], True),
        (["open"], ["open"], True),
        ([GOOD], ["open"], False),
        (["packages:python"], ["packages:python"], True),
        (["packages:python"], ["index.example", "x.files.example"], True),
        ([GOOD], ["packages:python"], False),
        (["index.example", "*.files.example"], ["packages:python"], True),
        ([GOOD], ["packages:node"], False),
        ([GOOD], ["1.1.1.1"], False),
        ([GOOD], ["*"], False),
        ([GOOD], [5], False),
        ([GOOD], ["db.host.internal"], True),
        (["open"], ["other.host.internal"], True),
    ],
)
async def test_a_request_lies_within_what_the_operator_grants(
    operator: list[str], asked: list[Any], is_fine: bool
) -> None:
    granted = NetworkGrants(hosts=tuple(operator), sets=SETS, services={"db": "127.0.0.1:5432"})
    if is_fine:
        assert granted.requested(allowlist(*asked), OFFERS, "network_policy") == allowlist(*asked)
        return
    with pytest.raises(RequestInvalid) as refused:
        granted.requested(allowlist(*asked), OFFERS, "network_policy")
    assert refused.value.code == "network_policy_rejected"
    assert (refused.value.param or "").startswith("network_policy.allowed_domains")


async def test_sets_that_stand_for_too_many_hosts_are_refused_by_their_request_and_open_no_door() -> None:
    sets = {name: tuple(f"{name[0]}{number}.good.example" for number in range(600)) for name in ("a:x", "b:x")}
    granted = NetworkGrants(hosts=("*.good.example",), sets=sets)
    assert granted.requested(allowlist("a:x"), OFFERS, "network_policy")
    with pytest.raises(RequestInvalid, match="1200 hosts; 1000 are allowed") as refused:
        granted.requested(allowlist("a:x", "b:x"), OFFERS, "network_policy")
    assert refused.value.param == "network_policy.allowed_domains"


class CountedSet(tuple[str, ...]):
    reads = 0

    def __iter__(self) -> Iterator[str]:
        self.reads += 1
        return super().__iter__()


async def test_the_operators_patterns_are_parsed_once() -> None:
    counted = CountedSet(("index.example", "*.files.example"))
    granted = NetworkGrants(hosts=("packages:python",), sets={"packages:python": counted})
    assert all(granted.grants(f"x{number}.files.example") for number in range(50))
    assert not granted.grants(GOOD)
    assert counted.reads == 1


async def test_disabled_is_nothing_whatever_stands_beside_it_and_what_is_no_longer_granted_is_left_out() -> None:
    granted = NetworkGrants(hosts=("open",), services={"db": "127.0.0.1:5432"})
    assert granted.policy({"type": "disabled", "allowed_domains": [GOOD]}).grants_nothing
    assert granted.policy({}).grants_nothing
    assert granted.policy(allowlist()).grants_nothing
    stored = allowlist(GOOD, "db.host.internal", "packages:python")
    later = NetworkGrants(hosts=(OTHER,)).policy(stored)
    assert later.grants_nothing
    full = NetworkGrants(hosts=(GOOD,), services={"db": "127.0.0.1:5432"}).policy(stored)
    assert isinstance(full.decide("db.host.internal", 5432), Admitted)
    assert full.rule_for(GOOD) == GOOD


@pytest.mark.parametrize(
    "narrower, wider, is_narrower",
    [
        ({"type": "disabled"}, allowlist(GOOD), True),
        ({"type": "disabled"}, {"type": "disabled"}, True),
        (allowlist(GOOD), {"type": "disabled"}, False),
        (allowlist(GOOD), allowlist(GOOD, OTHER), True),
        (allowlist(GOOD, OTHER), allowlist(GOOD), False),
        (allowlist(GOOD), allowlist("*.good.example"), True),
        (allowlist("packages:python"), allowlist("packages:python"), True),
        (allowlist("packages:python"), allowlist(GOOD), False),
        (allowlist("open"), allowlist("*.good.example"), False),
        (allowlist(GOOD), allowlist("open"), True),
        (allowlist(), {"type": "disabled"}, True),
    ],
)
async def test_what_a_later_turn_may_ask_is_narrower(
    narrower: dict[str, Any], wider: dict[str, Any], is_narrower: bool
) -> None:
    assert is_within(narrower, wider) is is_narrower
