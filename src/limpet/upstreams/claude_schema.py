"""A client's JSON schema as Claude takes one that binds it. Pure. Source: Anthropic's "Structured outputs", and what its own client does
with a schema (`transform_schema`): keywords that the API refuses become words of the description, so that the model may follow them.
"""

from collections.abc import Mapping
from typing import Any

FORMATS = frozenset("date-time time date duration email hostname uri ipv4 ipv6 uuid".split())
_FEWEST_ITEMS = (0, 1)


def binding_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema, with every object closed. Raises ValueError for one that says no type."""
    rest = dict(schema)
    made: dict[str, Any] = {}
    if (definitions := rest.pop("$defs", None)) is not None:
        made["$defs"] = {name: binding_schema(each) for name, each in definitions.items()}
    if (reference := rest.pop("$ref", None)) is not None:
        return made | {"$ref": reference}
    kind = rest.pop("type", None)
    unions = [
        ("anyOf", rest.pop("anyOf", None)),
        ("anyOf", rest.pop("oneOf", None)),
        ("allOf", rest.pop("allOf", None)),
    ]
    values = _values(rest)
    made |= values
    union = next(((name, cases) for name, cases in unions if isinstance(cases, list)), None)
    if union is not None:
        made[union[0]] = [binding_schema(each) for each in union[1]]
    elif not values:
        if kind is None:
            raise ValueError("A JSON schema must say a type, anyOf, oneOf, allOf, const or enum.")
        made["type"] = kind
    made |= {name: rest.pop(name) for name in ("description", "title") if rest.get(name) is not None}
    if not values:
        made |= _of_kind(kind, rest)
    if rest:
        words = "{" + ", ".join(f"{name}: {value}" for name, value in rest.items()) + "}"
        made["description"] = "\n\n".join(filter(None, [made.get("description"), words]))
    return made


def _values(rest: dict[str, Any]) -> dict[str, Any]:
    """What says the values themselves, of which the type follows."""
    made: dict[str, Any] = {}
    if isinstance(rest.get("enum"), list) and rest["enum"] and all(map(_is_plain, rest["enum"])):
        made["enum"] = rest.pop("enum")
    if "const" in rest and _is_plain(rest["const"]):
        made["const"] = rest.pop("const")
    return made


def _is_plain(value: object) -> bool:
    return value is None or isinstance(value, (str, int, float))


def _of_kind(kind: object, rest: dict[str, Any]) -> dict[str, Any]:
    """What of a type's own keywords the API knows; taken out of `rest`."""
    made: dict[str, Any] = {}
    if kind == "object":
        made["properties"] = {name: binding_schema(each) for name, each in rest.pop("properties", {}).items()}
        rest.pop("additionalProperties", None)
        made["additionalProperties"] = False
        if (required := rest.pop("required", None)) is not None:
            made["required"] = required
    elif kind == "string" and rest.get("format") in FORMATS:
        made["format"] = rest.pop("format")
    elif kind == "array":
        if (items := rest.pop("items", None)) is not None:
            made["items"] = binding_schema(items)
        if rest.get("minItems") in _FEWEST_ITEMS:
            made["minItems"] = rest.pop("minItems")
    return made
