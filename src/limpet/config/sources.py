"""Where settings come from: one TOML file and the environment laid over it. Reads; decides nothing about a value."""

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from limpet.config.bind import EnvironmentValue, inside
from limpet.core.errors import ConfigInvalid
from limpet.core.settings import Names

PREFIX = "LIMPET_"
FILE = "limpet.toml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """What was found. `where` names it in errors; relative paths in it begin at `base`."""

    where: str
    base: Path
    table: dict[str, Any]


def find_source(named: Path | None, home: Path, working_directory: Path) -> Source:
    """The file that was named, else limpet.toml here, else the one in the home directory, else nothing at all."""
    if named is not None:
        return _read(named.expanduser(), "--config")
    for directory in (working_directory, home):
        if (directory / FILE).is_file():
            return _read(directory / FILE, "the file")
    return Source(where="the defaults", base=working_directory, table={})


def overlaid(table: Mapping[str, Any], environ: Mapping[str, str], root: type) -> dict[str, Any]:
    """The table with every variable of the form LIMPET_SECTION__KEY laid over it, as Spelled values. `root` is the dataclass
    of the whole; names that the operator chose match those of the file without regard to case."""
    whole = dict(table)
    for variable in sorted(environ):
        if variable.startswith(PREFIX) and "__" in variable.removeprefix(PREFIX):
            parts = variable.removeprefix(PREFIX).split("__")
            _lay(whole, parts, root, EnvironmentValue(variable, environ[variable]))
    return whole


def source_of(table: Mapping[str, Any], key: Sequence[str], *, file: str) -> str | None:
    """What sets a key of the overlaid table: a variable or the file; None where neither does."""
    value: Any = table
    for part in key:
        if not isinstance(value, Mapping) or part not in value:
            return None
        value = value[part]
    return value.variable if isinstance(value, EnvironmentValue) else file


def _lay(table: dict[str, Any], parts: list[str], section: object, value: EnvironmentValue) -> None:
    names = next((mark for mark in section if isinstance(mark, Names)), None) if isinstance(section, tuple) else None
    key = _chosen(parts[0], table, names) if names else parts[0].lower()
    if len(parts) == 1:
        table[key] = value
        return
    below = table.get(key)
    table[key] = dict(below) if isinstance(below, dict) else {}
    _lay(table[key], parts[1:], inside(section, key), value)


def _chosen(part: str, table: Mapping[str, Any], names: Names) -> str:
    """The file's own name that a variable means, or how a new one is spelled."""
    for name in table:
        if re.sub(r"[^A-Za-z0-9]", "_", name).upper() == part.upper():
            return name
    return part.lower() if names.lower else part


def _read(path: Path, key: str) -> Source:
    path = path.absolute()
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ConfigInvalid(str(path), key, "there is no such file") from error
    except OSError as error:
        raise ConfigInvalid(str(path), key, f"it cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigInvalid(str(path), key, "it is not UTF-8 text") from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigInvalid(str(path), key, f"it is not TOML: {error}") from error
    return Source(where=str(path), base=path.parent, table=table)
