"""What the events of a response's stream look like, as JSON Schema: one for each type, from the struct of its payload."""

from typing import Any

import msgspec

from limpet.responses.event_payloads import PAYLOADS, ItemPieceEvent

Json = dict[str, Any]
EVENT = "ResponseStreamEvent"
_OTHER = "OtherStreamEvent"


def event_schemas(reference: str) -> Json:
    """By name, with what they refer to; `reference` is a reference's text around `{name}`."""
    structs = list(dict.fromkeys(PAYLOADS.values()))
    _, found = msgspec.json.schema_components(structs, ref_template=reference)
    events = {_name(type): _described(type, found[PAYLOADS[type].__name__]) for type in PAYLOADS}
    other = {"type": {"type": "string", "not": {"enum": list(PAYLOADS)}}}
    events[_OTHER] = {"type": "object", "properties": {**other, **_NUMBER}, "required": ["type"]}
    parts = {name: schema for name, schema in found.items() if name not in {struct.__name__ for struct in structs}}
    return {**parts, **events, EVENT: {"anyOf": [{"$ref": reference.format(name=name)} for name in events]}}


_NUMBER: Json = {"sequence_number": {"type": "integer", "minimum": 0}}


def _name(type: str) -> str:
    """As OpenAI's clients name it: ResponseOutputTextDeltaEvent."""
    words = type.replace(".", "_").split("_")
    return "".join(word.capitalize() for word in words) + "Event"


def _described(type: str, payload: Json) -> Json:
    required = ["type", "sequence_number", *payload["required"]]
    properties = {"type": {"const": type}, **_NUMBER, **payload["properties"]}
    if issubclass(PAYLOADS[type], ItemPieceEvent):
        properties.setdefault("item_id", {"type": "string"})
    described = {"type": "object", "properties": properties, "required": required}
    return described | ({"description": payload["description"]} if "description" in payload else {})
