"""The response as clients see it: every key that the Responses API's `Response` schema and Open Responses require."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, get_args

from msgspec import UNSET, Meta, UnsetType, field

from limpet.containers.network_objects import NetworkSummary, network_summary
from limpet.core.clock import seconds
from limpet.core.events import ResponseStatus
from limpet.core.resources import EXTENSION, Count, Moment, Resource, WireObject, or_unset
from limpet.egress.usage import NetworkUsage
from limpet.responses.budgets import BudgetStop
from limpet.responses.tool_credentials import without_credentials
from limpet.store.responses import ResponseRecord
from limpet.upstreams.endings import IncompleteReason, ResponseError
from limpet.upstreams.usage import Usage

Json = dict[str, Any]
Status = Annotated[str, Meta(extra_json_schema={"enum": list(get_args(ResponseStatus))})]
TypedObject = Annotated[
    Json, Meta(extra_json_schema={"properties": {"type": {"type": "string"}}, "required": ["type"]})
]

_SHELL_ITEMS = {
    "shell_call": "ShellCallItem",
    "shell_call_output": "ShellCallOutputItem",
}  # `limpet.responses.shell_items`
OutputItem = Annotated[
    Json,
    Meta(
        extra_json_schema={
            "anyOf": [
                *({"$ref": f"#/components/schemas/{name}"} for name in _SHELL_ITEMS.values()),
                {"properties": {"type": {"type": "string", "not": {"enum": list(_SHELL_ITEMS)}}}, "required": ["type"]},
            ]
        }
    ),
]


class IncompleteDetails(WireObject, frozen=True, kw_only=True):
    """Without `reason` where a provider's own is none that the API has. `budget` stands with `budget_reached`: the limit, and of what."""

    reason: IncompleteReason | UnsetType = UNSET
    budget: Annotated[BudgetStop | UnsetType, EXTENSION] = UNSET


class ConversationLink(WireObject, frozen=True, kw_only=True):
    id: str


class Response(Resource, frozen=True, kw_only=True):
    object: Literal["response"] = "response"
    created_at: Moment
    completed_at: Moment | None
    status: Status
    background: bool = False
    error: ResponseError | None
    incomplete_details: IncompleteDetails | None
    model: str
    output: list[OutputItem]
    reasoning: Json
    store: bool
    text: Json
    tools: list[TypedObject]
    usage: Usage | None
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    # From here on to the metadata: as given in the request, with what stands there when nothing was given.
    instructions: Annotated[Any, Meta(extra_json_schema={"type": ["string", "array", "null"]})] = None
    max_output_tokens: int | None = None
    max_tool_calls: int | None = None
    parallel_tool_calls: bool = True
    previous_response_id: str | None = None
    prompt_cache_key: str | None = None
    safety_identifier: str | None = None
    service_tier: str = "default"
    temperature: float = 1.0
    top_p: float = 1.0
    top_logprobs: Count = 0
    truncation: str = "disabled"
    tool_choice: Annotated[Any, Meta(extra_json_schema={"type": ["string", "object"]})] = "auto"
    metadata: Json = field(default_factory=dict)
    conversation: ConversationLink | UnsetType = UNSET
    # From here on to `tool_usage`: as the provider's own response has them.
    access_programs: Json | UnsetType = UNSET
    image: Json | UnsetType = UNSET
    input_transformations: list[Json] | UnsetType = UNSET
    moderation: Json | UnsetType = UNSET
    prompt_cache_diagnostics: Json | UnsetType = UNSET
    prompt_cache_options: Json | UnsetType = UNSET
    prompt_cache_retention: str | UnsetType = UNSET
    tool_usage: Json | UnsetType = UNSET
    container_id: Annotated[str | UnsetType, EXTENSION] = UNSET
    notes: Annotated[list[str] | UnsetType, EXTENSION] = UNSET
    network: Annotated[NetworkSummary | UnsetType, EXTENSION] = UNSET


_FIELDS = Response.__struct_fields__
_ECHOED = _FIELDS[_FIELDS.index("instructions") : _FIELDS.index("metadata") + 1]


def response_object(
    record: ResponseRecord,
    *,
    status: str,
    completed_at: int | None,
    output: list[Json],
    usage: Usage | None,
    error: ResponseError | None,
    incomplete_reason: IncompleteReason | None,
    network: NetworkUsage | None = None,
    budget: BudgetStop | None = None,
    shown: Mapping[str, Any] | None = None,
) -> Response:
    """`record.request` holds the create parameters as given, with `tools` already resolved. Times come in microseconds and leave in
    seconds. `network` is what its container used meanwhile, shown where that is anything; `shown` are fields of the provider's own."""
    request = record.request
    given: Json = {key: request[key] for key in _ECHOED if request.get(key) is not None} | dict(shown or {})
    return Response(
        id=record.id,
        created_at=seconds(record.created_at),
        completed_at=None if completed_at is None or status != "completed" else seconds(completed_at),
        status=status,
        background=record.background,
        error=error,
        incomplete_details=(
            IncompleteDetails(reason=or_unset(incomplete_reason), budget=or_unset(budget))
            if status == "incomplete"
            else None
        ),
        model=request["model"],
        output=output,
        reasoning={"effort": None, "summary": None} | (request.get("reasoning") or {}),
        store=request.get("store") is not False,
        text={"format": {"type": "text"}} | (request.get("text") or {}),
        tools=[_tool(tool) for tool in without_credentials(request.get("tools") or [])],
        usage=usage,
        conversation=UNSET if record.conversation_id is None else ConversationLink(id=record.conversation_id),
        container_id=or_unset(record.container_id),
        notes=request.get("notes") or UNSET,
        network=UNSET if network is None or network.is_none else network_summary(network),
        **given,
    )


def stored_object(record: ResponseRecord, output: list[Json]) -> Response:
    """The response as its row has it."""
    error = record.error
    return response_object(
        record,
        status=record.status,
        completed_at=record.completed_at,
        output=output,
        usage=Usage.read(record.usage),
        error=None if error is None else ResponseError.read(error),
        incomplete_reason="max_output_tokens",  # the row does not say; its last event does
    )


def _tool(tool: Json) -> Json:
    if tool.get("type") == "function":
        return {"description": None, "parameters": None, "strict": True} | tool
    return tool


def resolved_tools(tools: Sequence[Json], environment: Json | None) -> list[Json]:
    """The request's tools with the shell's environment as it was resolved, which hides what was asked for in it (secrets too), and
    without what hosted ones sign in with."""
    return [
        _resolved(tool, environment) if tool.get("type") == "shell" and environment else tool
        for tool in without_credentials(tools)
    ]


def _resolved(tool: Json, environment: Json) -> Json:
    # A policy that stands beside the environment was put in the wrong place: its secrets are kept no more than in the right one.
    asked = {key: value for key, value in tool.items() if key not in ("network_policy", "domain_secrets")}
    return {**asked, "environment": environment}
