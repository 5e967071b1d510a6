"""Marks for the dataclasses whose fields are settings: what a value may be, beyond its type.

The part that a setting configures owns its dataclass, with the name, the unit and the default that the operator's file has. The
marks stand in the types (`Annotated[int, Between(1)]`); `limpet.config` reads them, and nothing checks them elsewhere.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Annotated, Protocol, runtime_checkable

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Between:
    """Marks a number, or the numbers of a list, that must lie in this range, ends included."""

    least: float
    most: float = math.inf


@dataclass(frozen=True, slots=True)
class Later:
    """Marks a choice: these names are known, but what they name is not built yet."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Marks a choice: this name is known, and what it names was left out for that reason, a clause that follows "is left out: "."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class EntryPoints:
    """Marks a choice to which installed packages add: the names of their entry points of that group
    (https://packaging.python.org/en/latest/specifications/entry-points/)."""

    group: str

    def names(self) -> tuple[str, ...]:
        return tuple(sorted(metadata.entry_points(group=self.group).names))


@dataclass(frozen=True, slots=True)
class ImageName:
    """Marks a path that may be the name of an image instead: without a `/`, `./` or `~` before it, and with nothing there."""


def image_path(text: str, base: Path) -> Path:
    """What a person wrote as an image: an absolute path where it says one or is there below `base`, else the name of an image."""
    path = Path(text).expanduser()
    is_said = text.startswith(("/", "./", "../", "~")) or text in (".", "..")
    return base / path if is_said or (base / path).exists() else Path(text)


@dataclass(frozen=True, slots=True)
class Names:
    """Marks a table whose keys the operator chooses: how a name is spelled that only an environment variable gives."""

    lower: bool = True


@dataclass(frozen=True, slots=True)
class TableName:
    """Marks a field that is no key: it holds the name that the operator chose for the table of its dataclass."""


@runtime_checkable
class Checked(Protocol):
    """A dataclass of settings with a rule that the type of no single field can say."""

    def conflicts(self) -> Iterator[tuple[str, str]]:
        """Each key of this dataclass that does not fit the others, and what would be right."""
        ...


Port = Annotated[int, Between(0, 65_535)]
Positive = Annotated[int, Between(1)]
Megabytes = Annotated[int, Between(16)]
Seconds = Annotated[float, Between(0.1, 86_400)]
