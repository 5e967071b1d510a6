"""What a client asks for: the body of `POST /v1/responses`, checked and turned into ours. 400s end here.

Unknown fields of tools and items are kept; unknown fields of the request itself are handed to providers that speak Responses.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt, StrictStr, TypeAdapter, ValidationError

from limpet.core.errors import RequestInvalid

Json = dict[str, Any]
T = TypeVar("T")
MAX_INPUT_CHARS = 10 * 1024 * 1024

_NOT_BUILT = {
    "background": "Background responses are not built yet: leave `background` out and read the stream.",
    "conversation": "Conversations are not built yet: chain with `previous_response_id`.",
}


class ContainerAuto(BaseModel):
    model_config = ConfigDict(extra="allow")
    type: Literal["container_auto"]
    memory_limit: StrictStr | None = None
    network_policy: dict[str, Any] | None = None
    file_ids: Annotated[list[StrictStr], Field(max_length=50)] | None = None
    skills: Annotated[list[dict[str, Any]], Field(max_length=200)] | None = None
    expires_after: dict[str, Any] | None = None


class ContainerReference(BaseModel):
    model_config = ConfigDict(extra="allow")
    type: Literal["container_reference"]
    container_id: Annotated[StrictStr, Field(min_length=1)]


class Local(BaseModel):
    model_config = ConfigDict(extra="allow")
    type: Literal["local"]
    skills: Annotated[list[dict[str, Any]], Field(max_length=200)] | None = None


Environment = Annotated[ContainerAuto | ContainerReference | Local, Field(discriminator="type")]


class ShellTool(BaseModel):
    """The shell tool as asked for. No environment means a hosted one (DESIGN section 7)."""

    model_config = ConfigDict(extra="allow")
    type: Literal["shell"]
    environment: Environment | None = None
    allowed_callers: Annotated[list[StrictStr], Field(min_length=1)] | None = None


class FunctionTool(BaseModel):
    model_config = ConfigDict(extra="allow")
    type: Literal["function"]
    name: Annotated[StrictStr, Field(min_length=1, max_length=128, pattern=r"^[a-zA-Z0-9_-]+$")]
    parameters: dict[str, Any] | None = None
    strict: StrictBool | None = None
    description: StrictStr | None = None


class CreateRequest(BaseModel):
    """The fields that the gateway itself reads, and the bounds of OpenAI's schema."""

    model_config = ConfigDict(extra="allow", protected_namespaces=())
    model: Annotated[StrictStr, Field(min_length=1, max_length=512)]
    input: StrictStr | list[dict[str, Any]] | None = None
    instructions: StrictStr | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: StrictStr | dict[str, Any] | None = None
    parallel_tool_calls: StrictBool | None = None
    max_tool_calls: Annotated[StrictInt, Field(ge=1)] | None = None
    max_output_tokens: Annotated[StrictInt, Field(ge=16)] | None = None
    previous_response_id: StrictStr | None = None
    store: StrictBool | None = None
    stream: StrictBool | None = None
    stream_options: dict[str, Any] | None = None
    background: StrictBool | None = None
    conversation: Any = None
    include: list[StrictStr] | None = None
    metadata: (
        Annotated[
            dict[Annotated[str, Field(max_length=64)], Annotated[StrictStr, Field(max_length=512)]],
            Field(max_length=16),
        ]
        | None
    ) = None
    temperature: Annotated[float, Field(ge=0, le=2, strict=True)] | None = None
    top_p: Annotated[float, Field(ge=0, le=1, strict=True)] | None = None
    top_logprobs: Annotated[StrictInt, Field(ge=0, le=20)] | None = None
    reasoning: dict[str, Any] | None = None
    text: dict[str, Any] | None = None
    truncation: Literal["auto", "disabled"] | None = None
    service_tier: StrictStr | None = None
    safety_identifier: Annotated[StrictStr, Field(max_length=64)] | None = None
    prompt_cache_key: StrictStr | None = None
    prompt_cache_retention: StrictStr | None = None
    context_management: Annotated[list[dict[str, Any]], Field(min_length=1)] | None = None
    user: StrictStr | None = None


# What goes to a provider as it was given; the rest is ours.
PROVIDER_OPTIONS = (
    "tool_choice parallel_tool_calls max_output_tokens temperature top_p top_logprobs reasoning text truncation "
    "service_tier safety_identifier prompt_cache_key prompt_cache_retention metadata user include"
).split()


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A checked request. `input` is always a list of items; `shell` is None where no shell tool was given; it
    stands at `shell_index` of the tools."""

    body: CreateRequest
    input: list[Json]
    shell: ShellTool | None
    shell_index: int
    other_tools: tuple[Json, ...]

    @property
    def is_stored(self) -> bool:
        return self.body.store is not False

    @property
    def is_streamed(self) -> bool:
        return self.body.stream is True

    def options(self) -> Json:
        """The parameters that concern the provider, only those that were given."""
        given = self.body.model_dump(include=set(PROVIDER_OPTIONS), exclude_none=True)
        return given | {key: value for key, value in (self.body.model_extra or {}).items() if value is not None}


_SHELL: TypeAdapter[ShellTool] = TypeAdapter(ShellTool)
_FUNCTION: TypeAdapter[FunctionTool] = TypeAdapter(FunctionTool)
_BODY: TypeAdapter[CreateRequest] = TypeAdapter(CreateRequest)


def parse(body: object) -> Asked:
    """A request body as JSON gave it. Raises RequestInvalid with `param`, naming what would be right."""
    if not isinstance(body, dict):
        raise RequestInvalid('The body must be a JSON object such as {"model": "limpet/script", "input": "…"}.')
    request = checked(_BODY, body)
    for field, sentence in _NOT_BUILT.items():
        if getattr(request, field):
            raise RequestInvalid(sentence, param=field, code="unsupported_parameter")
    if request.input is None:
        raise RequestInvalid("`input` is missing: give a text or a list of items.", param="input")
    shell, others = _tools(request.tools or [])
    index = next((number for number, tool in enumerate(request.tools or []) if tool.get("type") == "shell"), 0)
    return Asked(body=request, input=_items(request.input), shell=shell, shell_index=index, other_tools=tuple(others))


def checked(adapter: TypeAdapter[T], value: object, *, at: str = "") -> T:
    """`value` as the adapter's type; the first problem raises RequestInvalid with its place as `param`."""
    try:
        return adapter.validate_python(value)
    except ValidationError as problem:
        first = problem.errors(include_url=False)[0]
        place = _place(first["loc"], at)
        got = first.get("input")
        shown = f" (got {got!r})" if isinstance(got, (str, int, float, bool)) and len(repr(got)) < 80 else ""
        raise RequestInvalid(f"{place}: {first['msg']}{shown}.", param=place, code=_code(first["type"])) from problem


def _code(kind: str) -> str:
    if kind == "missing":
        return "missing_required_parameter"
    return "invalid_type" if kind.endswith("_type") else "invalid_value"


def _place(path: tuple[int | str, ...], at: str) -> str:
    """`tools[0].environment.type`; the names of union branches, which pydantic puts in between, are left out."""
    place = at
    for part in path:
        if isinstance(part, int):
            place += f"[{part}]"
        elif part not in _BRANCHES and not part.startswith(("function-", "constrained-", "list[", "dict[")):
            place += f".{part}" if place else part
    return place or "body"


_BRANCHES = {"container_auto", "container_reference", "local", "str", "[key]"}


def _tools(tools: list[Json]) -> tuple[ShellTool | None, list[Json]]:
    shell: ShellTool | None = None
    others: list[Json] = []
    for position, tool in enumerate(tools):
        kind = tool.get("type")
        if not isinstance(kind, str):
            raise RequestInvalid(
                'Every tool needs a `type` such as "shell" or "function".', param=f"tools[{position}].type"
            )
        if kind == "shell":
            if shell is not None:
                raise RequestInvalid("Only one shell tool can be given.", param=f"tools[{position}]")
            shell = checked(_SHELL, tool, at=f"tools[{position}]")
            continue
        if kind == "function":
            checked(_FUNCTION, tool, at=f"tools[{position}]")
        others.append(tool)
    return shell, others


def _items(given: str | list[Json]) -> list[Json]:
    if isinstance(given, str):
        if len(given) > MAX_INPUT_CHARS:
            raise RequestInvalid(
                f"`input` has {len(given)} characters; the limit is {MAX_INPUT_CHARS}.",
                param="input",
                code="string_above_max_length",
            )
        return [{"type": "message", "role": "user", "content": given}]
    return [_item(item, f"input[{position}]") for position, item in enumerate(given)]


def _item(item: Json, place: str) -> Json:
    kind = item.get("type", "message" if "role" in item else None)
    if not isinstance(kind, str):
        raise RequestInvalid("Every input item needs a `type`, or a `role` and `content`.", param=f"{place}.type")
    if kind == "message":
        _message(item, place)
    elif kind in _NEEDED:
        for field, wanted in _NEEDED[kind].items():
            if not isinstance(item.get(field), wanted):
                name = " or ".join(t.__name__ for t in wanted)
                raise RequestInvalid(f"{place}.{field}: a {kind} needs it, as {name}.", param=f"{place}.{field}")
    return {**item, "type": kind}


_NEEDED: Mapping[str, Mapping[str, tuple[type, ...]]] = {
    "function_call": {"call_id": (str,), "name": (str,), "arguments": (str,)},
    "function_call_output": {"call_id": (str,), "output": (str, list)},
    "shell_call": {"call_id": (str,), "action": (dict,)},
    "shell_call_output": {"call_id": (str,), "output": (list,)},
    "item_reference": {"id": (str,)},
}


def _message(item: Json, place: str) -> None:
    if item.get("role") not in ("user", "assistant", "system", "developer"):
        raise RequestInvalid(
            f"{place}.role: must be user, assistant, system or developer (got {item.get('role')!r}).",
            param=f"{place}.role",
        )
    content = item.get("content")
    if isinstance(content, str):
        return
    if not isinstance(content, list):
        raise RequestInvalid(f"{place}.content: must be a text or a list of parts.", param=f"{place}.content")
    for position, part in enumerate(content):
        if not isinstance(part, dict) or not isinstance(part.get("type"), str):
            where = f"{place}.content[{position}]"
            raise RequestInvalid(f'{where}: must be an object with a `type` such as "input_text".', param=where)
