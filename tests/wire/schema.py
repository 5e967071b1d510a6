"""The oracle: is this value what OpenAI's own clients accept?

Every `check_*` function returns nothing when the value holds, and raises AssertionError with one line per problem when it
does not. The schemas are OpenAI's own (data/NOTICE.md); extra keys are allowed, as they are there. Never asks our code.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError
from jsonschema.validators import extend
from openai.types.responses import ResponseCompactionCompactingEvent
from pydantic import BaseModel
from pydantic import ValidationError as WrongType

from tests.wire.order import check_event_order
from tests.wire.problems import demand

__all__ = [
    "RESPONSE_KEYS",
    "brought_up_to_date",
    "check_container",
    "check_container_file",
    "check_container_file_list",
    "check_container_list",
    "check_create_container",
    "check_create_response",
    "check_deleted",
    "check_error",
    "check_event",
    "check_event_order",
    "check_events",
    "check_input_items",
    "check_model_list",
    "check_required_keys",
    "check_response",
    "problems_of",
    "recording",
]

DATA = Path(__file__).parent / "data"

# Open Responses (specification of 2026-04-24) wants each of these on every response object, null where there is nothing to say.
_KEYS = """
id object created_at completed_at status incomplete_details model previous_response_id instructions output error tools
tool_choice truncation parallel_tool_calls text top_p presence_penalty frequency_penalty top_logprobs temperature reasoning
usage max_output_tokens max_tool_calls store background service_tier metadata safety_identifier prompt_cache_key
"""
RESPONSE_KEYS = tuple(_KEYS.split())
USAGE_KEYS = ("input_tokens", "input_tokens_details", "output_tokens", "output_tokens_details", "total_tokens")
FUNCTION_TOOL_KEYS = ("type", "name", "description", "parameters", "strict")

Schema = Mapping[str, Any]


def check_response(value: object) -> None:
    """A Response object, as `POST` and `GET /v1/responses` and the lifecycle events carry it."""
    _check("Response", value)


def check_event(value: object) -> None:
    """One event of a response's stream: the JSON of its `data:` line."""
    demand(_problems_of_event(value), "ResponseStreamEvent")


def check_events(values: Iterable[object]) -> None:
    """Every event of a stream; the message numbers those that fail."""
    problems = [
        f"event {number}: {problem}" for number, value in enumerate(values) for problem in _problems_of_event(value)
    ]
    demand(problems, "events")


# Events that are newer than the document, as the official client has them.
_NEWER: Mapping[str, type[BaseModel]] = {"response.compaction.compacting": ResponseCompactionCompactingEvent}


def _problems_of_event(value: object) -> list[str]:
    kind = _NEWER.get(str(value.get("type"))) if isinstance(value, dict) else None
    if kind is None:
        return problems_of("ResponseStreamEvent", value)
    try:
        kind.model_validate(value, strict=True)
    except WrongType as error:
        return str(error).splitlines()
    return []


def check_create_response(value: object) -> None:
    """The body of `POST /v1/responses` (a request: what we send to a provider, what a test sends to us)."""
    _check("CreateResponse", value)


def check_input_items(value: object) -> None:
    """The page that `GET /v1/responses/{id}/input_items` answers with."""
    _check("ResponseItemList", value)


def check_create_container(value: object) -> None:
    """The body of `POST /v1/containers`."""
    _check("CreateContainerBody", value)


def check_container(value: object) -> None:
    """A container. A free memory size such as `512m` in `memory_limit` fails here, as it does in strict clients."""
    _check("ContainerResource", value)


def check_container_list(value: object) -> None:
    """A page of containers. An empty page may have null for `first_id` and `last_id`, which the schema forgets."""
    _check("ContainerListResource", _named_page(value))


def check_container_file(value: object) -> None:
    """A container file's metadata."""
    _check("ContainerFileResource", value)


def check_container_file_list(value: object) -> None:
    """A page of container files; the empty one as for containers."""
    _check("ContainerFileListResource", _named_page(value))


def check_file(value: object) -> None:
    """A file of the Files API."""
    _check("OpenAIFile", value)


def check_file_list(value: object) -> None:
    """A page of those; the empty one as for containers."""
    _check("ListFilesResponse", _named_page(value))


def check_deleted(value: object, kind: str) -> None:
    """The object that answers a DELETE: `kind` is `response`, `file`, `container.deleted` or `container.file.deleted`."""
    if not isinstance(value, Mapping):
        demand([f"{value!r} is not an object"], "deleted object")
        return
    problems = [f"{key}: missing" for key in ("id", "object", "deleted") if key not in value]
    if not problems:
        problems += [f"id: {value['id']!r} is not a string"] if not isinstance(value["id"], str) else []
        problems += [f"object: {value['object']!r} is not {kind!r}"] if value["object"] != kind else []
        problems += [f"deleted: {value['deleted']!r} is not true"] if value["deleted"] is not True else []
    demand(problems, "deleted object")


def check_error(value: object) -> None:
    """The body of any answer of 400 and above: `{"error": {"message", "type", "param", "code"}}`."""
    _check("ErrorResponse", value)


def check_model_list(value: object) -> None:
    """What `GET /v1/models` answers with."""
    _check("ListModelsResponse", value)


def check_required_keys(response: Mapping[str, Any]) -> None:
    """The keys that strict clients miss although the schema calls them optional: all of RESPONSE_KEYS, the whole usage
    (with `cache_write_tokens`, which the official SDK demands), and three keys on each echoed function tool."""
    problems = [f"{key}: missing" for key in RESPONSE_KEYS if key not in response]
    if "user" in response and response["user"] is None:
        problems.append("user: null is refused by the schema, leave it out")
    usage = response.get("usage")
    if usage is not None:
        problems += [f"usage.{key}: missing" for key in USAGE_KEYS if key not in usage]
        inward, outward = usage.get("input_tokens_details") or {}, usage.get("output_tokens_details") or {}
        problems += [
            f"usage.input_tokens_details.{key}: missing"
            for key in ("cached_tokens", "cache_write_tokens")
            if key not in inward
        ]
        problems += [
            f"usage.output_tokens_details.{key}: missing" for key in ("reasoning_tokens",) if key not in outward
        ]
    for number, tool in enumerate(response.get("tools") or ()):
        if tool.get("type") == "function":
            problems += [f"tools[{number}].{key}: missing" for key in FUNCTION_TOOL_KEYS if key not in tool]
    demand(problems, "required keys")


def recording(name: str) -> list[dict[str, Any]]:
    """The events of one recording of the real service, as they came (data/NOTICE.md)."""
    lines = (DATA / f"{name}.1.chunks.txt").read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines if line.strip()]


def brought_up_to_date(event: Mapping[str, Any]) -> dict[str, Any]:
    """A recorded event as today's service sends it: the recordings of February 2026 lack `cache_write_tokens`, and carry a
    `user: null` that the schema refuses. Nothing else is changed."""
    if "response" not in event:
        return dict(event)
    response = {key: value for key, value in event["response"].items() if not (key == "user" and value is None)}
    if response.get("usage"):
        details = {"cache_write_tokens": 0, **response["usage"]["input_tokens_details"]}
        response["usage"] = {**response["usage"], "input_tokens_details": details}
    return {**event, "response": response}


def problems_of(name: str, value: object) -> list[str]:
    """What keeps `value` from being a `name` of OpenAI's document, one line each; empty when nothing does."""
    lines = (_line(error) for error in _validator(name).iter_errors(value))
    return list(dict.fromkeys(lines))


def _named_page(value: object) -> object:
    if not isinstance(value, dict) or value.get("data") != []:
        return value
    return {**value, **{key: "" for key in ("first_id", "last_id") if key in value and value[key] is None}}


def _check(name: str, value: object) -> None:
    demand(problems_of(name, value), name)


def _line(error: ValidationError) -> str:
    place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.absolute_path).lstrip(".")
    message = error.message if len(error.message) <= 300 else error.message[:140] + " … " + error.message[-140:]
    return f"{place or 'top level'}: {message}"


@cache
def _document() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((DATA / "openai-schema.json").read_text("utf-8"))
    return loaded


@cache
def _validator(name: str) -> Draft202012Validator:
    definitions = _document()["$defs"]
    kind = extend(Draft202012Validator, {"$ref": _ref, "anyOf": _any_of})
    validator: Draft202012Validator = kind(definitions[name])
    return validator


def _ref(validator: Any, reference: str, instance: object, schema: Schema) -> Iterator[ValidationError]:
    # Every reference of the document is `#/$defs/NAME`: a dictionary is asked instead of a resolver, ten times as fast.
    yield from validator.descend(instance, _definition(reference))


def _any_of(validator: Any, branches: list[Schema], instance: object, schema: Schema) -> Iterator[ValidationError]:
    """A union: only the branches that the instance's own `type` names are asked, and the nearest one reports."""
    candidates = [branch for branch in branches if _may_be(branch, instance)]
    if not candidates:
        named = sorted({tag for branch in branches for tag in _tags(branch) or ()})
        got = f"type {instance.get('type')!r}" if isinstance(instance, dict) and named else f"{instance!r}"
        wanted = ", ".join(named) if named else " or ".join(json.dumps(branch)[:80] for branch in branches)
        yield ValidationError(f"{got} is none of: {wanted}")
        return
    best: list[ValidationError] | None = None
    for branch in candidates:
        errors = list(validator.descend(instance, branch))
        if not errors:
            return
        if best is None or len(errors) < len(best):
            best = errors
    yield from best or ()


def _may_be(branch: Schema, instance: object) -> bool:
    """Whether a branch can be meant: its kind of JSON fits and, for an object, its `type` is the instance's."""
    if not isinstance(instance, dict):
        kinds = _kinds(branch)
        return kinds is None or any(Draft202012Validator.TYPE_CHECKER.is_type(instance, kind) for kind in kinds)
    kinds = _kinds(branch)
    if kinds is not None and "object" not in kinds:
        return False
    tags = _tags(branch)
    return tags is None or "type" not in instance or instance["type"] in tags


_known_tags: dict[int, frozenset[str] | None] = {}
_known_kinds: dict[int, frozenset[str] | None] = {}


def _tags(schema: Schema) -> frozenset[str] | None:
    """The values of `type` that an object of this schema can have; None when it can be any."""
    key = id(schema)  # schemas live as long as the cached document
    if key not in _known_tags:
        _known_tags[key] = None  # a schema that contains itself
        _known_tags[key] = _find_tags(schema)
    return _known_tags[key]


def _find_tags(schema: Schema) -> frozenset[str] | None:
    if "$ref" in schema:
        return _tags(_definition(schema["$ref"]))
    if "anyOf" in schema:
        objects = [branch for branch in schema["anyOf"] if "object" in (_kinds(branch) or {"object"})]
        each = [_tags(branch) for branch in objects]
        return None if not each or None in each else frozenset().union(*(tags for tags in each if tags))
    for part in schema.get("allOf", ()):
        if (tags := _tags(part)) is not None:
            return tags
    named = schema.get("properties", {}).get("type", {}).get("enum")
    return frozenset(named) if named else None


def _kinds(schema: Schema) -> frozenset[str] | None:
    """The kinds of JSON value that a schema admits; None when it doesn't say."""
    key = id(schema)
    if key not in _known_kinds:
        _known_kinds[key] = None
        _known_kinds[key] = _find_kinds(schema)
    return _known_kinds[key]


def _find_kinds(schema: Schema) -> frozenset[str] | None:
    if "$ref" in schema:
        return _kinds(_definition(schema["$ref"]))
    if "anyOf" in schema:
        each = [_kinds(branch) for branch in schema["anyOf"]]
        return None if None in each else frozenset().union(*(kinds for kinds in each if kinds))
    for part in schema.get("allOf", ()):
        if (kinds := _kinds(part)) is not None:
            return kinds
    said = schema.get("type", "object" if "properties" in schema else None)
    return None if said is None else frozenset([said] if isinstance(said, str) else said)


def _definition(reference: str) -> Schema:
    found: Schema = _document()["$defs"][reference.removeprefix("#/$defs/")]
    return found
