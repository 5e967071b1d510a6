"""When containers expire, which box they get, how they look on the wire. No I/O."""

from dataclasses import replace
from pathlib import Path

import pytest
from msgspec import to_builtins

from limpet.containers.changes import safe_name
from limpet.containers.container import (
    MIB,
    SLACK,
    ExpiryPlan,
    expires_at,
    plan_expiry,
    read_ref,
    sandbox_spec,
    stored_ref,
)
from limpet.containers.requested_spec import parse_memory
from limpet.containers.settings import ShellLimits
from limpet.containers.wire_objects import container_object
from limpet.core.box_settings import BoxSettings
from limpet.core.clock import MICROSECONDS
from limpet.core.ports import Held, Limits, Offer, SandboxRef, TimeToLive, WhileOwned
from limpet.store.containers import ContainerRecord
from tests.wire.schema import check_container_list
from tests.wire.strict import STRICT

T = 1_700_000_000 * MICROSECONDS
RECORD = ContainerRecord(
    id="cntr_1",
    tenant="default",
    name="mine",
    status="running",
    created_at=T,
    last_active_at=T + 5 * MICROSECONDS,
    idle_ttl=1200,
    spec={"memory": None, "network_policy": {"type": "disabled"}},
    user_id=7,
)
END = T + 1205 * MICROSECONDS


def test_the_end_of_a_container_is_its_last_use_and_its_time_to_live() -> None:
    assert expires_at(RECORD) == END
    assert expires_at(replace(RECORD, status="expired", ended_at=T + 9)) == T + 9


@pytest.mark.parametrize(
    "record, now, busy, expires",
    [
        (RECORD, END, frozenset(), False),
        (RECORD, END + 1, frozenset(), True),
        (RECORD, END + 1, frozenset({"cntr_1"}), False),
        (RECORD, END + 1, frozenset({"cntr_2"}), True),
        (replace(RECORD, status="expired"), END + 1, frozenset(), False),
        (replace(RECORD, status="deleted"), END + 1, frozenset(), False),
    ],
)
def test_which_containers_expire(record: ContainerRecord, now: int, busy: frozenset[str], expires: bool) -> None:
    plan = plan_expiry([record], now, busy)

    assert plan == ExpiryPlan(held=tuple(busy), expired=(record,) if expires else ())


@pytest.mark.parametrize(
    "asked, default, box, most, memory",
    [
        (None, None, 512, None, 512 * MIB),
        (None, 256, 512, None, 256 * MIB),
        (128 * MIB, 256, 512, None, 128 * MIB),
        (128 * MIB, 256, 512, 64, 64 * MIB),
        (None, None, 512, 256, 256 * MIB),
    ],
)
def test_the_request_goes_before_the_default_and_the_default_before_the_box(
    asked: int | None, default: int | None, box: int, most: int | None, memory: int | None
) -> None:
    record = replace(RECORD, spec={"memory": asked})
    limits = ShellLimits(default_mem_limit_mb=default, max_mem_limit_mb=most)

    spec = sandbox_spec(
        record, Path("/x"), box=BoxSettings(memory_mb=box, cpus=2.0), limits=limits, offers=frozenset(Offer)
    )

    assert spec.limits == Limits(memory=memory, cpus=2.0)


def test_a_box_outlives_the_gateway_where_it_can_be_found_again() -> None:
    attached = sandbox_spec(RECORD, Path("/x"), box=BoxSettings(), limits=ShellLimits(), offers=frozenset(Offer))
    owned = sandbox_spec(RECORD, Path("/x"), box=BoxSettings(cpus=1.0), limits=ShellLimits(), offers=frozenset())

    assert (attached.name, attached.directory, attached.user_id) == ("cntr_1", Path("/x"), 7)
    assert attached.lifetime == TimeToLive(1200 + SLACK)
    assert (owned.lifetime, owned.directory, owned.limits) == (WhileOwned(), None, Limits())


def test_a_reference_survives_its_row() -> None:
    ref = SandboxRef(runtime="bubblewrap", name="cntr_1", boot_id="b", version=2, facts={"pid": 5})

    assert read_ref(stored_ref(ref)) == ref


def test_a_container_on_the_wire() -> None:
    record = replace(RECORD, memory_limit="1024m", spec={"memory": 1 << 30})

    held = Held(memory="process", processes="process", disk="sandbox")

    assert list(to_builtins(container_object(record, T, held)).items()) == [
        ("id", "cntr_1"),
        ("object", "container"),
        ("name", "mine"),
        ("created_at", 1_700_000_000),
        ("status", "running"),
        ("last_active_at", 1_700_000_005),
        ("expires_after", {"anchor": "last_active_at", "minutes": 20}),
        ("network_policy", {"type": "disabled"}),
        ("expires_at", 1_700_001_205),
        ("idle_ttl_secs", 1200),
        ("limits", {"memory": "per process", "processes": "per process", "cpu": "none", "disk": "per sandbox"}),
        ("memory_limit", "1g"),
        ("memory_limit_bytes", 1 << 30),
    ]
    assert container_object(record, END + 1, held).status == "expired"
    assert container_object(replace(record, status="expired"), T, held).status == "expired"
    assert container_object(record, T, replace(held, notes=("So.",))).limits.notes == ("So.",)


@pytest.mark.promise("a-strict-client-lists-containers-of-any-memory")
def test_a_strict_client_lists_containers_of_every_amount_of_memory() -> None:
    asked = [None, "100m", "512m", "1g", "65536k", "4096m", "3g", "64g"]
    records = [
        replace(RECORD, memory_limit=text, spec={"memory": None if text is None else parse_memory(text)})
        for text in asked
    ]
    data = [to_builtins(container_object(record, T, Held())) for record in records]
    page = {"object": "list", "data": data, "first_id": "cntr_1", "last_id": "cntr_1", "has_more": False}

    check_container_list(page)
    listed = STRICT.containers(page)

    assert [each.memory_limit for each in listed] == [None, None, None, "1g", None, "4g", None, "64g"]
    assert [each.get("memory_limit_bytes") for each in data] == [record.spec["memory"] for record in records]


@pytest.mark.parametrize(
    "name, safe",
    [
        ("data.csv", "data.csv"),
        ("../../etc/passwd", "passwd"),
        ("C:\\Users\\me\\notes.txt", "notes.txt"),
        ("", "upload"),
        ("..", "upload"),
        ("a/", "upload"),
        ("a\0b\n.txt", "ab.txt"),
        (".env", ".env"),
        ("-rf", "-rf"),
        ("ü bär.png", "ü bär.png"),
        ("x" * 300 + ".csv", "x" * 196 + ".csv"),
        ("ü" * 150 + ".csv", "ü" * 98 + ".csv"),
        ("\ud800bad", "bad"),
    ],
)
def test_uploads_get_safe_names(name: str, safe: str) -> None:
    assert safe_name(name) == safe
