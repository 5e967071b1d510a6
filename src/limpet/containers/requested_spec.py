"""What a request asks of a container, checked and held against what the operator allows. Pure; the 400s of these fields end here.

Both `POST /v1/containers` and the shell tool's `container_auto` environment are read here: their fields are the same.
"""

import re
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Any

from limpet.containers.attachments import MARKDOWN, ZIP, InlineSkill, RequestedSkill, SkillReference
from limpet.containers.container import MIB, ContainerSpec, mounts_skills
from limpet.containers.network_grants import NetworkGrants, is_within
from limpet.containers.settings import ContainerSettings, ShellLimits
from limpet.core.errors import RequestInvalid
from limpet.core.ports import Offer
from limpet.store.containers import ContainerRecord

MAX_NAME_BYTES = 255
LEAST_MEMORY = 16 * MIB
MOST_MEMORY = 64 << 40  # what a kernel can count is not much more
_MEMORY = re.compile(r"(\d{1,15})\s*([kmgt]?)(?:i?b)?", re.IGNORECASE)
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
MOST_SKILLS = 200
MOST_FILES = 50
MOST_INLINE = 70_254_592  # characters of base64, as OpenAI's schema has it


def narrow(
    fields: Mapping[str, Any],
    *,
    settings: ContainerSettings,
    limits: ShellLimits,
    offers: frozenset[Offer],
    host_memory_mb: int | None = None,
    place: str = "",
    grants: NetworkGrants | None = None,
) -> ContainerSpec:
    """The specification that these request fields ask for; absent and null ones take the operator's defaults.

    `place` goes before a field's name in an error's `param`, such as "tools[0].environment". Other fields are
    ignored here. Raises RequestInvalid, naming what was asked and what would be allowed.
    """
    asked = fields.get("memory_limit")
    if asked is not None and Offer.LIMITS not in offers:
        raise RequestInvalid(
            "This gateway's runtime cannot limit memory: leave `memory_limit` out.",
            param=_join(place, "memory_limit"),
            code="memory_limit_unsupported",
        )
    policy, grants = fields.get("network_policy"), grants or NetworkGrants()
    return ContainerSpec(
        idle_ttl=_idle_ttl(fields.get("expires_after"), settings, _join(place, "expires_after")),
        memory=None if asked is None else _memory(asked, limits, host_memory_mb, _join(place, "memory_limit")),
        memory_limit=None if asked is None else str(asked),
        network_policy=grants.requested(policy, offers, _join(place, "network_policy")),
        secrets=grants.requested_secrets(policy, _join(place, "network_policy")),
        skills=_skills(fields.get("skills"), offers, _join(place, "skills")),
        file_ids=_file_ids(fields.get("file_ids"), _join(place, "file_ids")),
        place=f"{place}." if place else "",
    )


def adapted(record: ContainerRecord, spec: ContainerSpec, fields: AbstractSet[str]) -> int:
    """The time to live, in seconds, that a later `container_auto` leaves a living container with. Raises RequestInvalid for what its
    `fields` ask for and a container cannot become: more memory or network than it has, or less memory while it lives."""
    if "memory_limit" in fields and spec.memory is not None and spec.memory != record.spec.get("memory"):
        raise RequestInvalid(
            f"The container of this conversation has the memory limit {record.memory_limit or 'of the gateway'}, which cannot change "
            f"to {spec.memory_limit} while it lives. Leave `memory_limit` out, or begin a new conversation.",
            param=f"{spec.place}memory_limit",
            code="container_memory_limit_fixed",
        )
    if "network_policy" in fields and not is_within(spec.network_policy, record.spec.get("network_policy", {})):
        raise RequestInvalid(
            "The container of this conversation may reach less than that, and its network policy can only become narrower here. Leave "
            "`network_policy` out, begin a new conversation, or change the container's own at POST /v1/containers/{id}.",
            param=f"{spec.place}network_policy",
            code="container_network_policy_fixed",
        )
    return spec.idle_ttl if "expires_after" in fields else record.idle_ttl


def checked_name(name: object, *, param: str = "name") -> str:
    """A container's name: text of 1 to 255 bytes. Raises RequestInvalid."""
    if not isinstance(name, str) or not name:
        raise RequestInvalid("`name` is required: give the container a name, as text.", param=param)
    if len(name.encode(errors="replace")) > MAX_NAME_BYTES:
        raise RequestInvalid(f"`name` may have {MAX_NAME_BYTES} bytes at most.", param=param, code="name_too_long")
    if any(ord(letter) < 32 for letter in name):
        raise RequestInvalid("`name` holds control characters; use letters.", param=param)
    return name


def parse_memory(text: object, *, param: str = "memory_limit") -> int:
    """Bytes from "1g", "512m", "65536k" or a plain number of bytes; units are powers of 1024. Raises RequestInvalid."""
    match = _MEMORY.fullmatch(text.strip()) if isinstance(text, str) else None
    if isinstance(text, int) and not isinstance(text, bool):
        size = text
    elif match is not None:
        size = int(match[1]) * _UNITS[match[2].lower()]
    else:
        raise RequestInvalid(
            f"{_shown(text)} is not an amount of memory. Write it as 1g, 4g or 512m.",
            param=param,
            code="invalid_memory_limit",
        )
    if size < LEAST_MEMORY:
        raise RequestInvalid(
            f"{text} is less memory than a shell needs; ask for {LEAST_MEMORY // MIB}m or more.",
            param=param,
            code="invalid_memory_limit",
        )
    if size > MOST_MEMORY:
        raise RequestInvalid(
            f"{text} is more memory than any machine has; ask for {MOST_MEMORY >> 40}t or less.",
            param=param,
            code="invalid_memory_limit",
        )
    return size


def _shown(value: object) -> str:
    """A value in an error: short, and never formatted by nested parts of its own."""
    return repr(value[:40]) if isinstance(value, str) else "That"


def _memory(asked: object, limits: ShellLimits, host_memory_mb: int | None, param: str) -> int:
    size = parse_memory(asked, param=param)
    if limits.max_mem_limit_mb is not None and size > limits.max_mem_limit_mb * MIB:
        raise RequestInvalid(
            f"{asked} of memory was asked for; this gateway allows {limits.max_mem_limit_mb}m at most.",
            param=param,
            code="memory_limit_exceeds_cap",
        )
    if host_memory_mb is not None and size > host_memory_mb * MIB:
        raise RequestInvalid(
            f"{asked} of memory was asked for; this gateway's host has {host_memory_mb}m in all. Ask for that or less.",
            param=param,
            code="memory_limit_exceeds_host",
        )
    return size


def _idle_ttl(asked: object, settings: ContainerSettings, param: str) -> int:
    if asked is None:
        return settings.default_idle_ttl_secs
    if not isinstance(asked, Mapping):
        raise RequestInvalid(_EXPIRES_AFTER, param=param)
    minutes = asked.get("minutes")
    if asked.get("anchor", "last_active_at") != "last_active_at":
        raise RequestInvalid(_EXPIRES_AFTER, param=f"{param}.anchor")
    if not isinstance(minutes, int) or isinstance(minutes, bool) or minutes < 1:
        raise RequestInvalid(_EXPIRES_AFTER, param=f"{param}.minutes")
    if minutes * 60 > settings.max_idle_ttl_secs:
        raise RequestInvalid(
            f"{minutes} minutes were asked for; this gateway allows {settings.max_idle_ttl_secs // 60} at most.",
            param=f"{param}.minutes",
            code="expires_after_exceeds_cap",
        )
    return minutes * 60


_EXPIRES_AFTER = 'Write it as {"anchor": "last_active_at", "minutes": 20}, with a whole number of minutes from 1 on.'


def _file_ids(asked: object, param: str) -> tuple[str, ...]:
    if asked is None:
        return ()
    if not isinstance(asked, list) or len(asked) > MOST_FILES or not all(isinstance(id, str) for id in asked):
        raise RequestInvalid(f"Write it as a list of at most {MOST_FILES} ids of files.", param=param)
    return tuple(asked)


def _skills(asked: object, offers: frozenset[Offer], param: str) -> tuple[RequestedSkill, ...]:
    if asked is None or asked == []:
        return ()
    if not isinstance(asked, list) or len(asked) > MOST_SKILLS:
        raise RequestInvalid(f"Write it as a list of at most {MOST_SKILLS} skills.", param=param)
    if not mounts_skills(offers):
        raise RequestInvalid(
            "This gateway's runtime cannot mount skills: leave `skills` out.", param=param, code="skills_unsupported"
        )
    return tuple(_skill(each, f"{param}[{index}]") for index, each in enumerate(asked))


def _skill(asked: object, param: str) -> RequestedSkill:
    match asked:
        case {"type": "skill_reference", "skill_id": str(skill_id), **rest} if 0 < len(skill_id) <= 64:
            version = rest.get("version")
            if type(version) is int and 0 < version < 1 << 63:
                version = str(version)  # OpenAI's guide writes it so
            if version is not None and not isinstance(version, str):
                raise RequestInvalid(
                    '`version` is a number such as "2" or 2, or "latest".',
                    param=f"{param}.version",
                    code="unsupported_skill_version",
                )
            return SkillReference(skill_id, version)
        case {"type": "inline", "name": str(name), "description": str(description), "source": Mapping() as source}:
            media_type = source.get("media_type")
            if media_type not in (ZIP, MARKDOWN):
                raise RequestInvalid(
                    f"An inline skill is {ZIP} or {MARKDOWN}, not {str(media_type)[:100]!r}.",
                    param=f"{param}.source.media_type",
                    code="unsupported_inline_skill_media_type",
                )
            encoded = source.get("data")
            if not isinstance(encoded, str) or not 0 < len(encoded) <= MOST_INLINE:
                raise RequestInvalid(
                    f"`data` is base64 of at most {MOST_INLINE} characters.", param=f"{param}.source.data"
                )
            return InlineSkill(name=name, description=description, media_type=media_type, encoded=encoded)
    raise RequestInvalid(
        'A skill is {"type": "skill_reference", "skill_id": "skill_…"} or {"type": "inline", "name", "description", "source": '
        '{"type": "base64", "media_type", "data"}}.',
        param=param,
    )


def _join(place: str, field: str) -> str:
    return f"{place}.{field}" if place else field
