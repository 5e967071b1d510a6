"""Validates values of a request against a type; the first error becomes one RequestInvalid that names its place. Pure."""

from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from limpet.core.errors import RequestInvalid

T = TypeVar("T")
QUOTED = 80

# pydantic's kinds of errors -> OpenAI's codes; those that end in `_type` are `invalid_type`, all others `invalid_value`.
_CODES = {
    "missing": "missing_required_parameter",
    "string_too_long": "string_above_max_length",
    "string_too_short": "string_below_min_length",
    "too_long": "array_above_max_length",
    "too_short": "array_below_min_length",
    "greater_than_equal": "number_below_min_value",
    "less_than_equal": "number_above_max_value",
}
# What pydantic puts into the place of an error for the branches of its unions; no request has such a field.
_BRANCHES = frozenset(
    {
        "container_auto",
        "container_reference",
        "local",
        "exit",
        "timeout",
        "str",
        "[key]",
        "ToolChoice",
        "ConversationReference",
    }
)
_BRANCH_KINDS = ("function-", "constrained-", "list[", "dict[", "literal[", "lax-or-strict", "nullable[")
_SHOULD = "Input should be "


def validated(adapter: TypeAdapter[T], value: object, *, at: str = "") -> T:
    """`value` as the adapter's type; the first problem raises RequestInvalid with its place below `at` as `param`."""
    try:
        return adapter.validate_python(value)
    except ValidationError as problem:
        errors = problem.errors(include_url=False)
        place = _deepest([_place(error, at) for error in errors])
        same = [error for error in errors if _place(error, at) == place]
        raise RequestInvalid(
            f"{place}: {_sentence(same)}{_got(same[0])}.", param=place, code=_code(same[0]["type"])
        ) from problem


def _deepest(places: list[str]) -> str:
    """The first place; below it, the one of the union's branch that fitted furthest, which is the one that was meant."""
    below = [place for place in places if place.startswith(places[0])]
    return max(below, key=lambda place: place.count(".") + place.count("["))


def _sentence(errors: list[ErrorDetails]) -> str:
    """What would be right; the branches of a union are alternatives."""
    said = list(dict.fromkeys(_message(error) for error in errors))
    first, *others = said
    if not all(each.startswith(_SHOULD) for each in said):
        return first
    return " or ".join([first, *(each.removeprefix(_SHOULD) for each in others)])


def _message(error: ErrorDetails) -> str:
    match error["type"]:
        case "union_tag_not_found" | "union_tag_invalid":
            tags = error.get("ctx", {}).get("expected_tags")
            return f"{_SHOULD}{tags.replace(', ', ' or ')}" if tags else "It needs a `type`"
        case "dict_type" | "model_type" | "model_attributes_type":
            return f"{_SHOULD}an object"
        case "list_type":
            return f"{_SHOULD}a list"
        case "bool_type":
            return f"{_SHOULD}true or false"
        case "missing":
            return "It is required"
        case _:
            return error["msg"]


def _got(error: ErrorDetails) -> str:
    got = error.get("input")
    return f" (got {got!r})" if isinstance(got, (str, int, float, bool)) and len(repr(got)) < QUOTED else ""


def _code(kind: str) -> str:
    return _CODES.get(kind) or ("invalid_type" if kind.endswith("_type") else "invalid_value")


def _place(error: ErrorDetails, at: str) -> str:
    """`tools[0].environment.type`; the names of union branches, which pydantic puts in between, are left out."""
    place = at
    path: tuple[Any, ...] = error["loc"]
    if error["type"] in ("union_tag_not_found", "union_tag_invalid"):
        path = (*path, "type")
    for part in path:
        if isinstance(part, int):
            place += f"[{part}]"
        elif part not in _BRANCHES and not part.startswith(_BRANCH_KINDS):
            place += f".{part}" if place else part
    return place or "body"
