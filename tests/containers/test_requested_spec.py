"""Requests held against what the operator allows."""

from typing import Any

import pytest

from limpet.containers.attachments import InlineSkill, SkillReference
from limpet.containers.container import MIB, ContainerSpec
from limpet.containers.requested_spec import checked_name, narrow, parse_memory
from limpet.containers.settings import ContainerSettings, ShellLimits
from limpet.core.errors import RequestInvalid
from limpet.core.ports import Offer

ALL = frozenset(Offer)


def asked(
    fields: dict[str, Any], *, offers: frozenset[Offer] = ALL, max_mem_limit_mb: int | None = None
) -> ContainerSpec:
    settings = ContainerSettings(max_idle_ttl_secs=7200)
    return narrow(
        fields,
        settings=settings,
        limits=ShellLimits(max_mem_limit_mb=max_mem_limit_mb),
        offers=offers,
        place="tools[0].environment",
    )


@pytest.mark.parametrize(
    "text, size",
    [
        ("1g", 1 << 30),
        ("512m", 512 * MIB),
        ("64G", 64 << 30),
        ("65536k", 64 * MIB),
        ("512 MiB", 512 * MIB),
        (64 * MIB, 64 * MIB),
    ],
)
def test_amounts_of_memory(text: object, size: int) -> None:
    assert parse_memory(text) == size


@pytest.mark.parametrize("text", ["", "lots", "-1g", "1.5g", "1gg", "1", "1m", "0g", True, None, 1.5, ["1g"], "٣g٣"])
def test_what_is_no_amount_of_memory_is_refused(text: object) -> None:
    with pytest.raises(RequestInvalid) as refused:
        parse_memory(text, param="memory_limit")
    assert (refused.value.param, refused.value.code) == ("memory_limit", "invalid_memory_limit")


def test_absent_and_null_fields_take_the_defaults() -> None:
    default = ContainerSpec(idle_ttl=1200, memory=None, memory_limit=None, network_policy={"type": "disabled"})

    assert asked({}) == default
    assert asked(dict.fromkeys(["memory_limit", "expires_after", "network_policy", "file_ids", "skills"])) == default
    assert asked({"file_ids": [], "skills": [], "type": "container_auto"}) == default


REFERENCE = {"type": "skill_reference", "skill_id": "skill_1"}
SOURCE = {"type": "base64", "media_type": "text/markdown", "data": "IyBoaQ=="}
INLINE = {"type": "inline", "name": "n", "description": "d", "source": SOURCE}


def test_skills_and_files_are_read() -> None:
    versions = [{**REFERENCE, "version": version} for version in ("2", 3)]
    spec = asked({"skills": [REFERENCE, *versions, INLINE], "file_ids": ["file-1", "file-2"]})
    assert spec.file_ids == ("file-1", "file-2")
    assert spec.skills == (
        SkillReference("skill_1", None),
        SkillReference("skill_1", "2"),
        SkillReference("skill_1", "3"),
        InlineSkill(name="n", description="d", media_type="text/markdown", encoded="IyBoaQ=="),
    )


def test_a_runtime_that_cannot_mount_takes_no_skills() -> None:
    with pytest.raises(RequestInvalid) as refused:
        asked({"skills": [REFERENCE]}, offers=frozenset())
    assert refused.value.code == "skills_unsupported"


def test_what_fits_is_granted() -> None:
    fields = {
        "memory_limit": "1g",
        "expires_after": {"anchor": "last_active_at", "minutes": 120},
        "network_policy": {"type": "disabled"},
    }

    assert asked(fields, max_mem_limit_mb=1024) == ContainerSpec(idle_ttl=7200, memory=1 << 30, memory_limit="1g")


@pytest.mark.parametrize(
    "fields, param, code",
    [
        ({"memory_limit": "4g"}, "memory_limit", "memory_limit_exceeds_cap"),
        ({"memory_limit": "x"}, "memory_limit", "invalid_memory_limit"),
        ({"expires_after": {"minutes": 121}}, "expires_after.minutes", "expires_after_exceeds_cap"),
        ({"expires_after": {"minutes": 0}}, "expires_after.minutes", None),
        ({"expires_after": {"minutes": True}}, "expires_after.minutes", None),
        ({"expires_after": {}}, "expires_after.minutes", None),
        ({"expires_after": 20}, "expires_after", None),
        ({"expires_after": {"anchor": "created_at", "minutes": 5}}, "expires_after.anchor", None),
        ({"network_policy": {"type": "allowlist", "allowed_domains": ["a.b"]}}, "network_policy.allowed_domains[0]",
         "network_policy_rejected"),
        ({"network_policy": {"type": "open"}}, "network_policy.type", "network_policy_rejected"),
        ({"network_policy": {}}, "network_policy.type", "network_policy_rejected"),
        ({"network_policy": "disabled"}, "network_policy.type", "network_policy_rejected"),
        ({"file_ids": "file-1"}, "file_ids", None),
        ({"file_ids": [1]}, "file_ids", None),
        ({"file_ids": ["file-1"] * 51}, "file_ids", None),
        ({"skills": {"type": "inline"}}, "skills", None),
        ({"skills": [{}] * 201}, "skills", None),
        ({"skills": [{"type": "other"}]}, "skills[0]", None),
        ({"skills": [{"type": "skill_reference"}]}, "skills[0]", None),
        ({"skills": [{"type": "skill_reference", "skill_id": ""}]}, "skills[0]", None),
        ({"skills": [{**REFERENCE, "version": True}]}, "skills[0].version", "unsupported_skill_version"),
        ({"skills": [{**REFERENCE, "version": 0}]}, "skills[0].version", "unsupported_skill_version"),
        ({"skills": [{**REFERENCE, "version": 2.0}]}, "skills[0].version", "unsupported_skill_version"),
        ({"skills": [REFERENCE, {**INLINE, "source": 1}]}, "skills[1]", None),
        (
            {"skills": [{**INLINE, "source": {**SOURCE, "media_type": "text/html"}}]},
            "skills[0].source.media_type",
            "unsupported_inline_skill_media_type",
        ),
        ({"skills": [{**INLINE, "source": {**SOURCE, "data": ""}}]}, "skills[0].source.data", None),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_by_the_name_of_its_field(
    fields: dict[str, Any], param: str, code: str | None
) -> None:
    with pytest.raises(RequestInvalid) as refused:
        asked(fields, max_mem_limit_mb=1024)
    assert (refused.value.param, refused.value.code) == (f"tools[0].environment.{param}", code)


def test_a_memory_limit_that_the_runtime_cannot_hold_is_refused() -> None:
    with pytest.raises(RequestInvalid) as refused:
        asked({"memory_limit": "1g"}, offers=ALL - {Offer.LIMITS})
    assert refused.value.code == "memory_limit_unsupported"


def test_a_refusal_names_what_was_asked_and_what_is_allowed() -> None:
    with pytest.raises(RequestInvalid, match="4g of memory was asked for; this gateway allows 1024m at most"):
        asked({"memory_limit": "4g"}, max_mem_limit_mb=1024)


def test_more_memory_than_the_host_has_is_refused_by_name() -> None:
    given: dict[str, Any] = {
        "settings": ContainerSettings(),
        "limits": ShellLimits(),
        "offers": ALL,
        "host_memory_mb": 2048,
    }
    assert narrow({"memory_limit": "2g"}, **given).memory == 2 << 30
    with pytest.raises(RequestInvalid, match="64g of memory was asked for; this gateway's host has 2048m") as refused:
        narrow({"memory_limit": "64g"}, **given)
    assert (refused.value.param, refused.value.code) == ("memory_limit", "memory_limit_exceeds_host")


@pytest.mark.parametrize("text", ["x" * 1_000_000, [[[[]]]], {"a": {}}, 1e308])
def test_what_is_no_amount_is_never_repeated_at_length(text: object) -> None:
    with pytest.raises(RequestInvalid) as refused:
        parse_memory(text)
    assert len(str(refused.value)) < 200


@pytest.mark.parametrize("name", [None, "", 5, "x" * 256, "ü" * 128, "a\nb"])
def test_a_name_is_text_of_bounded_length(name: object) -> None:
    with pytest.raises(RequestInvalid) as refused:
        checked_name(name)
    assert refused.value.param == "name"


def test_a_good_name_stays_as_it_is() -> None:
    assert checked_name("my-workspace ü") == "my-workspace ü"
