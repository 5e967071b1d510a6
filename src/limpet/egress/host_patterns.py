"""Patterns of host names: `api.example.com` is one host, `*.example.com` every name below example.com and not that name itself.

Pure. Names are compared in their ASCII form, in lower case and without a final dot. No address is a pattern, in any spelling.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from limpet.core.errors import FetchRefused
from limpet.egress.addresses import MOST_NAME, canonical_host

_ANY_BELOW = "*."
MOST_PATTERNS = 1000


@dataclass(frozen=True, slots=True)
class HostPattern:
    """`name` is canonical; `is_suffix` where it stands for all names below it."""

    name: str
    is_suffix: bool = False

    def __str__(self) -> str:
        return f"{_ANY_BELOW}{self.name}" if self.is_suffix else self.name

    def matches(self, host: str) -> bool:
        """Whether it admits this canonical name."""
        return host.endswith(f".{self.name}") if self.is_suffix else host == self.name

    def includes(self, other: "HostPattern") -> bool:
        """Whether it admits every name that `other` admits."""
        if other.is_suffix:
            return self.is_suffix and (other.name == self.name or other.name.endswith(f".{self.name}"))
        return self.matches(other.name)


@lru_cache(maxsize=1024)
def canonical_name(text: str) -> str:
    """A host name as it is compared and dialed. Raises ValueError for what is none, such as an address in any spelling."""
    if not 0 < len(text) <= MOST_NAME + 1 or ":" in text or "[" in text or "*" in text:
        raise ValueError(f"{text[:100]!r} is not the name of a host")
    try:
        name = canonical_host(text)
    except FetchRefused as error:
        raise ValueError(f"{text[:100]!r} is not the name of a host; write it as api.example.com") from error
    # A public address passes there; here a name is wanted. Names whose last label is a number were refused.
    if name.rpartition(".")[2].isdigit():
        raise ValueError(f"{text[:100]!r} is an address; name the host, as api.example.com")
    return name


def parse_pattern(text: str) -> HostPattern:
    """The pattern that was written so. Raises ValueError, whose text is a clause that says what would be right."""
    if "://" in text or "/" in text or "@" in text:
        raise ValueError(f"{text[:100]!r} is a URL; write the host alone, as api.example.com")
    if text in ("*", "*."):
        raise ValueError('"*" would be every host; name them, or write *.example.com for the names below example.com')
    if not text.startswith(_ANY_BELOW):
        return HostPattern(canonical_name(text))
    name = canonical_name(text.removeprefix(_ANY_BELOW))
    if "." not in name:
        raise ValueError(f"{text[:100]!r} would be a whole top-level domain; write *.example.com")
    return HostPattern(name, is_suffix=True)


def parse_patterns(texts: Iterable[str], *, sets: Mapping[str, Sequence[str]] | None = None) -> tuple[HostPattern, ...]:
    """All of them, in order and once each; a name of `sets` (such as "packages:python") stands for the hosts that the operator put
    there. Raises ValueError for one that is neither."""
    found: dict[HostPattern, None] = {}
    for text in texts:
        named = (sets or {}).get(text)
        for each in (text,) if named is None else named:
            found[parse_pattern(each)] = None
    if len(found) > MOST_PATTERNS:
        raise ValueError(f"these are {len(found)} hosts; {MOST_PATTERNS} are allowed at most")
    return tuple(found)


def outside(asked: Iterable[HostPattern], allowed: Sequence[HostPattern]) -> tuple[HostPattern, ...]:
    """Those of `asked` that no single pattern of `allowed` includes."""
    return tuple(each for each in asked if not any(one.includes(each) for one in allowed))
