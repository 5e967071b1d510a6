"""Reads a model's arguments by type. An error is one sentence: what was wrong, what is right, and an example. Pure.

Models write numbers as text, leave keys empty and guess names. What can mean one thing only is taken ("30", "true", null for
an argument left out); everything else is refused, and nothing is dropped in silence.
"""

import difflib
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

_NUMBER = re.compile(r"[+-]?(\d{1,15}(\.\d{0,15})?|\.\d{1,15})")
_SURROGATE = re.compile("[\ud800-\udfff]")
_SHOWN = 60  # characters of a wrong value that an error repeats
MOST_NAME = 64  # characters of an unknown name that are compared
# What models write for a name that another tool has otherwise; spelling alone would lead `cmd` to `cwd`.
OTHER_WORDS = {
    **dict.fromkeys(("cmd", "cmds", "script", "code", "bash", "shell", "input", "line"), ("command", "commands")),
    **dict.fromkeys(
        ("workdir", "workingdirectory", "dir", "directory", "pwd"), ("cwd", "directory", "workingdirectory")
    ),
    **dict.fromkeys(("args", "argv", "arguments", "params"), ("parameters", "args")),
    **dict.fromkeys(("filename", "filepath", "file"), ("path",)),
}
MOST_WORDS = 4_096  # entries of one list
_Choice = TypeVar("_Choice", bound=str)


class BadArguments(Exception):
    """The arguments cannot be used; nothing was done. Its text is for the model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments:
    """The arguments of one call, from `read`. Each method raises BadArguments; a null counts as not given."""

    given: Mapping[str, Any]
    tool: str
    example: Mapping[str, Any]

    def has(self, name: str) -> bool:
        return self.given.get(name) is not None

    def text(self, name: str, *, may_be_empty: bool = False, nul: bool = False) -> str:
        """A text that must be there. `nul` lets NUL characters in (the content of a file, not a command)."""
        value = self.given.get(name)
        if value is None:
            raise self.wrong(f"{name} is missing")
        if not isinstance(value, str):
            raise self.wrong(f"{name} must be a text, not {_kind(value)} {_shown(value)}")
        if not may_be_empty and not value.strip():
            raise self.wrong(f"{name} is empty")
        return self._sound(name, value, nul=nul)

    def optional_text(self, name: str, *, may_be_empty: bool = False, nul: bool = False) -> str | None:
        return self.text(name, may_be_empty=may_be_empty, nul=nul) if self.has(name) else None

    def number(self, name: str, *, least: float | None = None, most: float | None = None) -> float | None:
        """A finite number, or a text that is one. Outside `least` to `most`, ends included, it is refused."""
        value = self.given.get(name)
        if value is None:
            return None
        number = _as_number(value)
        if number is None:
            raise self.wrong(f"{name} must be a number, not {_kind(value)} {_shown(value)}")
        if (least is not None and number < least) or (most is not None and number > most):
            raise self.wrong(f"{name} is {_shown(value)}, and must be {_range(least, most)}")
        return number

    def whole(self, name: str, *, least: int | None = None, most: int | None = None) -> int | None:
        """A whole number: 5, 5.0, "5"."""
        number = self.number(name, least=least, most=most)
        if number is not None and number != int(number):
            raise self.wrong(f"{name} must be a whole number, not {_shown(self.given[name])}")
        return None if number is None else int(number)

    def flag(self, name: str, *, default: bool = False) -> bool:
        """true or false, also as text."""
        value = self.given.get(name)
        if value is None:
            return default
        if isinstance(value, bool):
            return value
        if isinstance(value, str) and value.strip().lower() in ("true", "false"):
            return value.strip().lower() == "true"
        raise self.wrong(f"{name} must be true or false, not {_kind(value)} {_shown(value)}")

    def choice(self, name: str, choices: Sequence[_Choice], *, default: _Choice) -> _Choice:
        value = self.given.get(name)
        if value is None:
            return default
        for one in choices:
            if isinstance(value, str) and value.strip().lower() == one.lower():
                return one
        raise self.wrong(f"{name} must be one of {', '.join(map(_shown, choices))}, not {_shown(value)}")

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of texts, empty when left out. Numbers in it become text; a list that was written as JSON text is read."""
        value = _as_json(self.given.get(name), list)
        if value is None:
            return ()
        if not isinstance(value, (list, tuple)):
            raise self.wrong(f"{name} must be a list of texts, one for each, not {_kind(value)} {_shown(value)}")
        if len(value) > MOST_WORDS:
            raise self.wrong(
                f"{name} has {len(value)} entries, and may have {MOST_WORDS}; write them to a file instead"
            )
        return tuple(self._word(f"{name}[{place}]", one) for place, one in enumerate(value))

    def text_map(self, name: str) -> dict[str, str]:
        """An object of texts, empty when left out. Numbers, true and false become text."""
        value = _as_json(self.given.get(name), dict)
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            raise self.wrong(f"{name} must be an object of texts, not {_kind(value)} {_shown(value)}")
        return {
            self._word(f"a key of {name}", key): self._word(f"{name}[{_shown(key)}]", one) for key, one in value.items()
        }

    def wrong(self, problem: str) -> BadArguments:
        """The error to raise: the problem, a clause without a full stop, and the example."""
        return BadArguments(f"{self.tool}: {problem}. Example: {json.dumps(self.example)}")

    def _word(self, name: str, value: Any) -> str:
        if isinstance(value, bool):
            value = "true" if value else "false"
        elif not isinstance(value, str) and _as_number(value) is not None:
            value = str(value)
        if not isinstance(value, str):
            raise self.wrong(f"{name} must be a text, not {_kind(value)} {_shown(value)}")
        return self._sound(name, value)

    def _sound(self, name: str, value: str, *, nul: bool = False) -> str:
        """`value`, if a program or a file can receive it."""
        if not nul and "\0" in value:
            raise self.wrong(
                f"{name} holds a NUL character at position {value.index(chr(0))}, which no program can receive; leave it out"
            )
        if found := _SURROGATE.search(value):
            raise self.wrong(
                f"{name} holds half of a surrogate pair (U+{ord(found.group()):04X}) at position {found.start()}, which is"
                " no character; write the whole character or leave it out"
            )
        return value


def read(given: Any, *, tool: str, names: Sequence[str], example: Mapping[str, Any]) -> Arguments:
    """The arguments of a call of `tool`, which knows `names`. Raises BadArguments where they are no object or hold an unknown
    name, with the nearest known one. `example` is shown with every error: the least that is right."""
    arguments = Arguments(given={}, tool=tool, example=example)
    given = _as_json(given, dict)
    if not isinstance(given, Mapping):
        raise arguments.wrong(f"the arguments must be an object, not {_kind(given)} {_shown(given)}")
    for name in given:
        if name not in names:
            meant = nearest(str(name)[:MOST_NAME], names)
            hint = f"did you mean {meant}" if meant else f"it knows {', '.join(names)}"
            raise arguments.wrong(f"{_shown(name)} is not an argument of it; {hint}")
    return Arguments(given=given, tool=tool, example=example)


def nearest(name: str, names: Sequence[str]) -> str | None:
    """The one of these names that was probably meant: another word for the same thing, or the one that is spelled most alike."""
    by_plain = {_plain(one): one for one in names}
    for other in OTHER_WORDS.get(_plain(name), ()):
        if other in by_plain:
            return by_plain[other]
    near = difflib.get_close_matches(_plain(name), list(by_plain), n=1, cutoff=0.5)
    return by_plain[near[0]] if near else None


def _plain(name: object) -> str:
    return str(name).replace("_", "").replace("-", "").lower()


def _as_number(value: Any) -> float | None:
    if isinstance(value, str) and _NUMBER.fullmatch(value.strip()):
        return float(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _as_json(value: Any, wanted: type) -> Any:
    """What a text holds if it is JSON of the wanted kind; else `value` as it is."""
    if not isinstance(value, str):
        return value
    try:
        held = json.loads(value)
    except (ValueError, RecursionError):
        return value
    return held if isinstance(held, wanted) else value


def _range(least: float | None, most: float | None) -> str:
    if most is None:
        return f"{least:g} or more"
    return f"{most:.15g} or less" if least is None else f"from {least:.15g} to {most:.15g}"


def _kind(value: Any) -> str:
    match value:
        case None:
            return "the value"
        case bool():
            return "the truth value"
        case str():
            return "the text"
        case int() | float():
            return "the number"
        case Mapping():
            return "the object"
        case list() | tuple():
            return "the list"
        case _:
            return "a value of another kind:"


def _shown(value: Any) -> str:
    """A value as an error may repeat it: as JSON in ASCII, and short."""
    try:
        text = json.dumps(value, default=repr)
    except (ValueError, TypeError, RecursionError):  # a number of thousands of digits, an object within itself
        return "that cannot be shown"
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
