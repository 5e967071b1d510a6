"""Properties that hold for every name and every request (property-based tests)."""

import string
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from limpet.containers.attachments import final_names
from limpet.containers.changes import MAX_NAME_BYTES, safe_name
from limpet.containers.container import MIB, ContainerSpec, sandbox_spec
from limpet.containers.requested_spec import adapted, narrow
from limpet.containers.settings import ContainerSettings, ShellLimits
from limpet.core.box_settings import BoxSettings
from limpet.core.errors import RequestInvalid
from limpet.core.ports import Offer
from limpet.server.files import shown_name
from limpet.store.containers import ContainerRecord

always = settings(derandomize=True, database=None, deadline=None, max_examples=400)
ALL = frozenset(Offer)

# What names are made of that somebody wants to do harm with, beside any text there is.
AWKWARD = st.lists(
    st.sampled_from(
        [*"/\\.~-$`'\"\0\t\n\r\x1b\x7f %:;*?", "..", "é", "漢", "\u202e", "\ud800", "CON", "x" * 90, ".txt"]
    ),
    max_size=12,
).map("".join)
NAMES = st.one_of(AWKWARD, st.text(st.characters(), max_size=300))  # lone surrogates too


@always
@given(NAMES)
def test_a_cleaned_name_is_one_plain_file_in_its_directory(name: str) -> None:
    clean = safe_name(name)

    assert Path("/mnt/data", clean).parent == Path("/mnt/data")
    assert clean not in ("", ".", "..")
    assert not set(clean) & {"/", "\\", "\0"}
    assert not any(ord(letter) < 32 or ord(letter) == 127 for letter in clean)
    assert 0 < len(clean.encode()) <= MAX_NAME_BYTES
    assert safe_name(clean) == clean


@always
@given(st.text(string.ascii_letters + string.digits + "-_ ", min_size=1, max_size=60).map(str.strip).filter(bool))
def test_a_good_name_stays_as_it_is(name: str) -> None:
    assert (safe_name(name), safe_name(f"{name}.csv")) == (name, f"{name}.csv")


@always
@given(st.lists(NAMES, max_size=8), st.sets(NAMES, max_size=8))
@example(["a.txt", "A.TXT", "a-2.txt"], {"a.TXT"})
def test_files_that_come_together_never_share_a_name_nor_take_another_files(names: list[str], taken: set[str]) -> None:
    final = final_names(names, taken)

    folded = [name.casefold() for name in final]
    assert len(final) == len(names)
    assert len(set(folded)) == len(folded)
    assert not set(folded) & {name.casefold() for name in taken}
    assert all(Path("/mnt/data", name).parent == Path("/mnt/data") and len(name.encode()) <= 255 for name in final)


@always
@given(NAMES)
def test_a_shown_name_is_one_line_without_a_path(name: str) -> None:
    shown = shown_name(name)

    assert 0 < len(shown) <= 255
    assert shown.isprintable()
    assert "/" not in shown
    assert shown not in (".", "..")


MEMORY = st.one_of(
    st.none(),
    st.integers(-5, 1 << 50),
    st.builds(
        "{}{}".format, st.integers(0, 10**7), st.sampled_from(["", "k", "m", "M", "g", "G", "t", "MiB", "gb", "x"])
    ),
    st.text(max_size=8),
)
EXPIRY = st.one_of(
    st.none(),
    st.fixed_dictionaries(
        {}, optional={"anchor": st.sampled_from(["last_active_at", "created_at", 5]), "minutes": st.integers(-2, 10**7)}
    ),
    st.integers(),
)
NETWORK = st.one_of(
    st.none(),
    st.fixed_dictionaries(
        {"type": st.sampled_from(["disabled", "allowlist", "open", "", 1])},
        optional={"allowed_domains": st.lists(st.text(max_size=9), max_size=3)},
    ),
)
FIELDS = st.fixed_dictionaries(
    {}, optional={"memory_limit": MEMORY, "expires_after": EXPIRY, "network_policy": NETWORK}
)
OPERATOR = st.builds(
    lambda ttl, most, memory, most_memory: (
        ContainerSettings(default_idle_ttl_secs=min(ttl, most), max_idle_ttl_secs=most),
        ShellLimits(default_mem_limit_mb=memory, max_mem_limit_mb=most_memory),
    ),
    st.integers(60, 10**6),
    st.integers(60, 10**7),
    st.one_of(st.none(), st.integers(16, 10**6)),
    st.one_of(st.none(), st.integers(16, 10**6)),
)
Operator = tuple[ContainerSettings, ShellLimits]


def narrowed(fields: dict[str, Any], operator: Operator) -> ContainerSpec | None:
    """What it grants; None where it refuses."""
    try:
        return narrow(fields, settings=operator[0], limits=operator[1], offers=ALL)
    except RequestInvalid:
        return None


def row(spec: ContainerSpec) -> ContainerRecord:
    return ContainerRecord(
        id="cntr_1", tenant="t", name="n", status="running", created_at=0, last_active_at=0, idle_ttl=spec.idle_ttl,
        memory_limit=spec.memory_limit, spec=spec.stored(),
    )  # fmt: skip


@always
@given(FIELDS, OPERATOR, st.integers(16, 10**6))
def test_a_narrowed_request_never_admits_what_the_operator_does_not(
    fields: dict[str, Any], operator: Operator, box_memory: int
) -> None:
    spec = narrowed(fields, operator)
    if spec is None:
        return
    cap = operator[1].max_mem_limit_mb

    assert spec.idle_ttl <= operator[0].max_idle_ttl_secs
    assert cap is None or spec.memory is None or spec.memory <= cap * MIB
    assert spec.network_policy in (
        {"type": "disabled"},
        {"type": "allowlist", "allowed_domains": []},
    )  # no host in either
    box = sandbox_spec(row(spec), Path("/d"), box=BoxSettings(memory_mb=box_memory), limits=operator[1], offers=ALL)
    assert cap is None or box.limits.memory is None or box.limits.memory <= cap * MIB
    assert spec.memory is None or box.limits.memory == spec.memory


@always
@given(FIELDS, OPERATOR, st.integers(0, 10**6), st.integers(0, 10**6))
def test_what_a_strict_operator_grants_a_generous_one_grants_too(
    fields: dict[str, Any], operator: Operator, more_seconds: int, more_memory: int
) -> None:
    containers, limits = operator
    most = limits.max_mem_limit_mb
    generous = (
        replace(containers, max_idle_ttl_secs=containers.max_idle_ttl_secs + more_seconds),
        replace(limits, max_mem_limit_mb=None if most is None else most + more_memory),
    )

    if (granted := narrowed(fields, operator)) is not None:
        assert narrowed(fields, generous) == granted


@always
@given(FIELDS, FIELDS, OPERATOR)
def test_a_later_turn_never_widens_what_its_container_has(
    first: dict[str, Any], later: dict[str, Any], operator: Operator
) -> None:
    before, after = narrowed(first, operator), narrowed(later, operator)
    if before is None or after is None:
        return
    try:
        idle_ttl = adapted(row(before), after, later.keys())
    except RequestInvalid:
        return

    assert idle_ttl in (before.idle_ttl, after.idle_ttl)
    assert idle_ttl <= operator[0].max_idle_ttl_secs
    # Memory and network stay as they were: whoever asks for others is refused.
    assert later.get("memory_limit") is None or after.memory == before.memory
    assert not after.network_policy.get("allowed_domains")


@pytest.mark.parametrize("offers", [frozenset(), ALL - {Offer.LIMITS}])
def test_a_runtime_without_limits_never_grants_one(offers: frozenset[Offer]) -> None:
    with pytest.raises(RequestInvalid):
        narrow({"memory_limit": "1g"}, settings=ContainerSettings(), limits=ShellLimits(), offers=offers)
