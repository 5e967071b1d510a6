"""From TOML's values to frozen dataclasses, with errors that say where, which key and what would be right.

The dataclasses are the schema: their names are the keys, their hints the types, their defaults the defaults. A hint may carry
marks (`core/settings.py`). Knows no section by name and reads neither files nor the environment.
"""

import dataclasses
import difflib
import re
import tomllib
import types
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn, TypeVar, get_args, get_origin

from limpet.core.errors import ConfigInvalid
from limpet.core.secret import Secret
from limpet.core.settings import Between, Checked, EntryPoints, ImageName, Later, LeftOut, TableName, image_path

T = TypeVar("T")

_REFERENCE = re.compile(r"\$(\$\{|\{([A-Za-z_][A-Za-z0-9_]*)\})")


@dataclass(frozen=True, slots=True, repr=False)
class EnvironmentValue:
    """A value that an environment variable gives as text. It is read as TOML, unless its key wants text."""

    variable: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownKey:
    """One key that may be set, as the manual lists it. `key` is dotted; chosen names in it stand as NAME."""

    key: str
    type: str
    default: str


def known_keys(section: type, prefix: str = "") -> Iterator[KnownKey]:
    """Every key of a dataclass and of those inside it, in their order."""
    for name, (hint, marks, _) in _fields(section).items():
        key = f"{prefix}{name}"
        if dataclasses.is_dataclass(hint):
            yield from known_keys(typing.cast(type, hint), f"{key}.")
        elif get_origin(hint) is Mapping and dataclasses.is_dataclass(get_args(hint)[1]):
            yield from known_keys(get_args(hint)[1], f"{key}.NAME.")
        elif get_origin(hint) is Mapping:
            yield KnownKey(key=f"{key}.NAME", type=_described(get_args(hint)[1], ()), default="none")
        else:
            field = next(field for field in dataclasses.fields(section) if field.name == name)
            yield KnownKey(key=key, type=_described(hint, marks), default=_default(field))


def inside(section: object, key: str) -> object:
    """What lies below `key` of a section: a dataclass, or for a table of chosen names its type and marks; None where nothing does.

    For the walk along a variable's name; `section` is a dataclass or what this function returned."""
    if isinstance(section, tuple):
        return section[0]
    hint, marks, _ = _fields(section).get(key, (None, (), False)) if isinstance(section, type) else (None, (), False)
    if get_origin(hint) is Mapping:
        return (get_args(hint)[1], *marks)
    return hint if dataclasses.is_dataclass(hint) else None


def conflicts(section: object, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Each key below a bound section that does not fit others of its dataclass, and what would be right."""
    if isinstance(section, Checked):
        yield from ((f"{prefix}{key}", problem) for key, problem in section.conflicts())
    for field in dataclasses.fields(section) if dataclasses.is_dataclass(section) else ():
        value = getattr(section, field.name)
        named = value.items() if isinstance(value, Mapping) else ()
        for name, each in [("", value), *((f".{name}", each) for name, each in named)]:
            yield from conflicts(each, f"{prefix}{field.name}{name}.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Binder:
    """Binds one source. `where` names it in errors, `base` is where relative paths begin, `environ` answers `${NAME}`."""

    where: str
    base: Path
    environ: Mapping[str, str]
    root: type

    def table(self, section: type[T], raw: object, key: str = "", *, name: str = "") -> T:
        """The dataclass from a TOML table; `name` is the one that the operator chose for it.

        Raises ConfigInvalid for the first thing that is wrong, known keys before unknown
        ones, so that a type not built yet is named rather than its settings."""
        raw = _parsed(raw)
        if not isinstance(raw, Mapping):
            self._wrong(raw, key, "should be a table")
        fields = _fields(section)
        bound = {
            each: self.value(hint, marks, raw[each], _join(key, each))
            for each, (hint, marks, _) in fields.items()
            if each in raw
        }
        for each in raw:
            if each not in fields:
                self._unknown(raw[each], key, each, fields)
        for each, (_, _, required) in fields.items():
            if required and each not in raw:
                self._wrong(raw, _join(key, each), "is missing; it has no default")
        try:
            return section(**bound, **dict.fromkeys(_named_by_table(section), name))
        except ConfigInvalid as refused:
            raise ConfigInvalid(_origin(raw) or self.where, _join(key, refused.key), refused.problem) from refused

    def value(self, hint: Any, marks: tuple[object, ...], raw: object, key: str, *, name: str = "") -> Any:
        """One value of that type; `name` is the one that the operator chose for a table."""
        if dataclasses.is_dataclass(hint):
            return self.table(typing.cast(type, hint), raw, key, name=name)
        if get_origin(hint) is Mapping:
            return self._named(get_args(hint)[1], raw, key)
        if get_origin(hint) in (tuple, frozenset):
            return get_origin(hint)(self._list(get_args(hint)[0], marks, raw, key))
        if get_origin(hint) is Literal:
            return self._choice(get_args(hint), marks, raw, key)
        if hint in (str, Secret, Path):
            return self._text(hint, raw, key, is_image=ImageName() in marks)
        return self._number(hint, marks, raw, key)

    def _named(self, section: Any, raw: object, key: str) -> Mapping[str, Any]:
        raw = _parsed(raw)
        if not isinstance(raw, Mapping):
            values = "tables" if dataclasses.is_dataclass(section) else "texts"
            self._wrong(raw, key, f"should be a table of {values}, each under a name of yours")
        return {name: self.value(section, (), value, _join(key, name), name=name) for name, value in raw.items()}

    def _list(self, hint: Any, marks: tuple[object, ...], raw: object, key: str) -> tuple[Any, ...]:
        value = _parsed(raw)
        if not isinstance(value, list):
            self._wrong(raw, key, f"should be a list of {_described(hint, marks)}, in square brackets")
        return tuple(self.value(hint, marks, each, f"{key}[{index}]") for index, each in enumerate(value))

    def _choice(self, choices: tuple[str, ...], marks: tuple[object, ...], raw: object, key: str) -> str:
        value = self._string(raw, key)
        built = ", ".join(choices)
        later = next((mark.names for mark in marks if isinstance(mark, Later)), ())
        if value in later:
            self._wrong(raw, key, f'"{value}" is not built yet; built: {built}')
        for mark in marks:
            if isinstance(mark, LeftOut) and mark.name == value:
                self._wrong(raw, key, f'"{value}" is left out: {mark.reason}; built: {built}')
        if value in choices:
            return value
        added = next((mark.names() for mark in marks if isinstance(mark, EntryPoints)), ())
        if value not in added:
            near = difflib.get_close_matches(value or "", [*choices, *later, *added], n=1)
            hint = f"; the nearest is {near[0]}" if near else ""
            self._wrong(raw, key, f"should be one of {', '.join((*choices, *added))}{_shown(raw)}{hint}")
        return value

    def _text(self, hint: type, raw: object, key: str, *, is_image: bool) -> str | Secret | Path:
        value = self._string(raw, key)
        if hint is Secret:
            return Secret(value)
        if is_image:
            return image_path(value, self.base)
        if hint is Path:
            return self.base / Path(value).expanduser()
        return value

    def _string(self, raw: object, key: str) -> str:
        """Text, with `${NAME}` replaced where it stands in a file and `$${` for a literal `${`."""
        if isinstance(raw, EnvironmentValue):
            value = _parsed(raw)
            return value if isinstance(value, str) else raw.text
        if not isinstance(raw, str):
            self._wrong(raw, key, f"should be text in quotes, not {_kind(raw)}")
        return _REFERENCE.sub(lambda match: "${" if match[2] is None else self._variable(match[2], key), raw)

    def _variable(self, name: str, key: str) -> str:
        if name not in self.environ:
            raise ConfigInvalid(
                self.where, key, f"the environment has no variable {name}; set it, or write the value here"
            )
        return self.environ[name]

    def _number(self, hint: type, marks: tuple[object, ...], raw: object, key: str) -> bool | int | float:
        value = _parsed(raw)
        reference = _REFERENCE.fullmatch(raw) if isinstance(raw, str) else None
        if reference and reference[2]:
            value = _parsed(EnvironmentValue(reference[2], self._variable(reference[2], key)))
        if hint is float and type(value) is int:
            value = float(value)
        if not isinstance(value, bool | int | float) or type(value) is not hint or not _lies_between(value, marks):
            self._wrong(raw, key, f"should be {_with_article(_described(hint, marks))}{_shown(raw)}")
        return value

    def _unknown(self, raw: object, key: str, name: str, siblings: Mapping[str, object]) -> NoReturn:
        full = _join(key, name)
        near = difflib.get_close_matches(name, list(siblings), n=1)
        if near:
            self._wrong(raw, full, f"is not known; the nearest known key is {_join(key, near[0])}")
        every = _keys_and_sections(self.root)
        tails = [known for known in every if f".{known}".endswith(f".{full}") or known.rpartition(".")[2] == name]
        near = tails[:1] or difflib.get_close_matches(full, every, n=1)
        hint = f"the nearest known key is {near[0]}; here " if near else "here "
        self._wrong(raw, full, f"is not known; {hint}{', '.join(siblings)} may stand")

    def _wrong(self, raw: object, key: str, problem: str) -> NoReturn:
        raise ConfigInvalid(_origin(raw) or self.where, key, problem)


def _keys_and_sections(root: type) -> list[str]:
    """Every known key and every section on the way to one, each once."""
    found: dict[str, None] = {}
    for known in known_keys(root):
        parts = known.key.split(".")
        found |= dict.fromkeys(".".join(parts[: count + 1]) for count in range(len(parts)))
    return list(found)


def _lies_between(value: float, marks: tuple[object, ...]) -> bool:
    return all(mark.least <= value <= mark.most for mark in marks if isinstance(mark, Between))


def _fields(section: type) -> dict[str, tuple[Any, tuple[object, ...], bool]]:
    """Name -> (type without None, marks, required); a section's own keys before those that it inherits."""
    hints = typing.get_type_hints(section, include_extras=True)
    own = section.__annotations__
    ordered = sorted(dataclasses.fields(section), key=lambda field: field.name not in own)
    keys = (field for field in ordered if field.name not in _named_by_table(section))
    return {field.name: (*_plain(hints[field.name]), _default(field) == "required") for field in keys}


def _named_by_table(section: type) -> list[str]:
    """The fields that hold the name of the table, and are no keys."""
    hints = typing.get_type_hints(section, include_extras=True)
    return [name for name, hint in hints.items() if TableName() in _plain(hint)[1]]


def _plain(hint: Any) -> tuple[Any, tuple[object, ...]]:
    marks: tuple[object, ...] = ()
    if get_origin(hint) is Annotated:
        hint, *found = get_args(hint)
        marks = tuple(found)
    if get_origin(hint) in (types.UnionType, typing.Union):
        inner, more = _plain(next(each for each in get_args(hint) if each is not type(None)))
        return inner, marks + more
    return hint, marks


def _default(field: dataclasses.Field[Any]) -> str:
    """The default as TOML, "none" where there is none and nothing is needed, "required" where one is needed."""
    if field.default_factory is not dataclasses.MISSING:
        return _toml(field.default_factory())
    if field.default is dataclasses.MISSING:
        return "required"
    return _toml(field.default)


def _toml(value: object) -> str:
    match value:
        case None:
            return "none"
        case bool():
            return str(value).lower()
        case str():
            return f'"{value}"'
        case tuple() | frozenset():
            return f"[{', '.join(map(_toml, value))}]"
        case _:
            return str(value)


def _described(hint: Any, marks: tuple[object, ...]) -> str:
    """The type in words: "a whole number from 1 to 65535"."""
    if get_origin(hint) is Literal:
        return "one of " + ", ".join(get_args(hint))
    if get_origin(hint) in (tuple, frozenset):
        return f"list of {_described(get_args(hint)[0], marks)}"
    word = {bool: "true or false", int: "whole number", float: "number", str: "text", Secret: "secret", Path: "path"}[
        hint
    ]
    bounds = next((mark for mark in marks if isinstance(mark, Between)), None)
    if bounds is None:
        return word
    return f"{word} from {bounds.least}" + ("" if bounds.most == inf else f" to {bounds.most}")


def _with_article(words: str) -> str:
    return words if words.startswith("true") else f"a {words}"


def _shown(raw: object) -> str:
    """What stands in the file; nothing for what an environment variable gave, since that may be a secret."""
    return (
        ""
        if isinstance(raw, EnvironmentValue)
        else f", not {_toml(raw) if isinstance(raw, str | int | float) else _kind(raw)}"
    )


def _kind(raw: object) -> str:
    names = {bool: "true or false", int: "a number", float: "a number", str: "text", list: "a list", dict: "a table"}
    return names.get(type(raw), "a date or time")


def _parsed(raw: object) -> object:
    if not isinstance(raw, EnvironmentValue):
        return raw
    try:
        value = tomllib.loads(f"value = {raw.text}")
    except tomllib.TOMLDecodeError:
        return raw.text
    return value["value"] if len(value) == 1 else raw.text


def _origin(raw: object) -> str | None:
    """The variable that a value came from; None where (some of) it stands in the file."""
    if isinstance(raw, EnvironmentValue):
        return raw.variable
    if not isinstance(raw, Mapping) or not raw:
        return None
    origins = [_origin(value) for value in raw.values()]
    return origins[0] if all(origins) else None


def _join(key: str, name: str) -> str:
    return f"{key}.{name}" if key else name
