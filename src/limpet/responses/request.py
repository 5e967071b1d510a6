"""The body of `POST /v1/responses`, validated and parsed into values. A malformed request ends here with 400.

Unknown fields of tools and items are kept; unknown fields of the request itself are handed to providers that speak Responses.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal
from unicodedata import category

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StrictBool, StrictInt, StrictStr, TypeAdapter
from pydantic_core import PydanticCustomError

from limpet.core.errors import RequestInvalid
from limpet.responses.compaction_settings import LEAST_THRESHOLD, Strategy
from limpet.responses.items import input_items
from limpet.responses.request_tools import CustomTool, FunctionTool, NamespaceTool, ShellTool
from limpet.responses.run_queue import Rank
from limpet.responses.settings import BudgetLimits
from limpet.responses.validation import validated
from limpet.store.responses import ResponseRecord

Json = dict[str, Any]
MAX_PROMPT = 32_768  # characters of a prompt for summaries

_NOT_BUILT = {
    "multi_agent": "Several agents in one response, a beta, are not served here. Leave `multi_agent` out.",
}


def _without_control_characters(name: str) -> str:
    """It is written to logs, metrics and rows of usage, and databases keep no NUL."""
    if any(category(letter) in ("Cc", "Cs") for letter in name):
        raise PydanticCustomError("model_name", "Input should be a name without control characters")
    return name


ModelName = Annotated[StrictStr, Field(min_length=1, max_length=512), AfterValidator(_without_control_characters)]
Metadata = Annotated[
    dict[Annotated[str, Field(max_length=64)], Annotated[StrictStr, Field(max_length=512)]], Field(max_length=16)
]


class Reasoning(BaseModel):
    model_config = ConfigDict(extra="allow")
    effort: Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"] | None = None
    summary: Literal["auto", "concise", "detailed"] | None = None


class TextFormat(BaseModel):
    model_config = ConfigDict(extra="allow")
    type: Literal["text", "json_object", "json_schema"]


class JsonSchemaFormat(BaseModel):
    """A format of type json_schema. The schema itself is between the client and the provider."""

    model_config = ConfigDict(extra="allow")
    name: Annotated[StrictStr, Field(min_length=1, max_length=64, pattern=r"^[a-zA-Z0-9_-]+$")]
    json_schema: Annotated[dict[str, Any], Field(alias="schema")]
    strict: StrictBool | None = None
    description: StrictStr | None = None


class TextOptions(BaseModel):
    model_config = ConfigDict(extra="allow")
    format: TextFormat | None = None
    verbosity: Literal["low", "medium", "high"] | None = None


class ToolChoice(BaseModel):
    """A choice that names a tool; what more it says is between the client and the provider."""

    model_config = ConfigDict(extra="allow")
    type: Annotated[StrictStr, Field(min_length=1)]
    name: StrictStr | None = None


class StreamOptions(BaseModel):
    model_config = ConfigDict(extra="allow")
    include_obfuscation: StrictBool | None = None


class PromptCacheOptions(BaseModel):
    model_config = ConfigDict(extra="allow")
    prewarm: StrictBool | None = None


class ContextManagement(BaseModel):
    """`strategy` and `prompt` are extensions of the gateway's."""

    model_config = ConfigDict(extra="allow")
    type: Literal["compaction"]
    compact_threshold: Annotated[StrictInt, Field(ge=LEAST_THRESHOLD)] | None = None
    strategy: Strategy | None = None
    prompt: Annotated[StrictStr, Field(max_length=MAX_PROMPT)] | None = None


Included = Literal[
    "code_interpreter_call.outputs",
    "computer_call_output.output.image_url",
    "file_search_call.results",
    "message.input_image.image_url",
    "message.output_text.logprobs",
    "reasoning.encrypted_content",
    "web_search_call.action.sources",
    "web_search_call.results",
]


class ConversationReference(BaseModel):
    model_config = ConfigDict(extra="allow")
    id: Annotated[StrictStr, Field(min_length=1)]


class BackgroundOptions(BaseModel):
    """`completion_window` is how long the work may wait: what may wait for hours gets a place after all others. `continuation_id` is taken
    and has no effect."""

    model_config = ConfigDict(extra="allow")
    completion_window: Literal["soonest", "2h", "8h"] | None = None
    continuation_id: StrictStr | None = None


class BudgetRequest(BaseModel):
    """This gateway's extension: what may be used up; the operator's own limits hold beside it."""

    model_config = ConfigDict(extra="forbid")
    max_tokens: Annotated[StrictInt, Field(ge=1)] | None = None
    max_turns: Annotated[StrictInt, Field(ge=1)] | None = None
    max_wall_secs: Annotated[float, Field(gt=0, le=86_400)] | None = None

    def limits(self) -> BudgetLimits:
        return BudgetLimits(**self.model_dump(include=set(BudgetRequest.model_fields)))


class ResponseBudget(BudgetRequest):
    """Of this response, and of the conversation (the chain of responses) that it belongs to."""

    conversation: BudgetRequest | None = None


class CreateRequest(BaseModel):
    """The fields that the gateway itself reads, and the bounds of OpenAI's schema."""

    model_config = ConfigDict(extra="allow", protected_namespaces=())
    model: ModelName
    input: StrictStr | list[dict[str, Any]] | None = None
    instructions: StrictStr | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: Literal["none", "auto", "required"] | ToolChoice | None = None
    parallel_tool_calls: StrictBool | None = None
    max_tool_calls: Annotated[StrictInt, Field(ge=1)] | None = None
    max_output_tokens: Annotated[StrictInt, Field(ge=16)] | None = None
    previous_response_id: StrictStr | None = None
    store: StrictBool | None = None
    stream: StrictBool | None = None
    stream_options: StreamOptions | None = None
    background: StrictBool | None = None
    background_options: BackgroundOptions | None = None
    budget: ResponseBudget | None = None
    conversation: StrictStr | ConversationReference | None = None
    include: list[Included] | None = None
    metadata: Metadata | None = None
    temperature: Annotated[float, Field(ge=0, le=2, strict=True)] | None = None
    top_p: Annotated[float, Field(ge=0, le=1, strict=True)] | None = None
    top_logprobs: Annotated[StrictInt, Field(ge=0, le=20)] | None = None
    reasoning: Reasoning | None = None
    text: TextOptions | None = None
    truncation: Literal["auto", "disabled"] | None = None
    service_tier: Literal["auto", "default", "flex", "scale", "priority", "fast", "ultrafast"] | None = None
    safety_identifier: Annotated[StrictStr, Field(max_length=128)] | None = None
    prompt_cache_key: StrictStr | None = None
    prompt_cache_retention: StrictStr | None = None
    prompt_cache_options: PromptCacheOptions | None = None
    generate: StrictBool | None = None
    context_management: Annotated[list[ContextManagement], Field(min_length=1)] | None = None
    user: StrictStr | None = None


# What goes to a provider as it was given; the rest is ours.
PROVIDER_OPTIONS = (
    "tool_choice parallel_tool_calls max_output_tokens temperature top_p top_logprobs reasoning text truncation "
    "service_tier safety_identifier prompt_cache_key prompt_cache_retention prompt_cache_options context_management metadata user include"
).split()
COMPACTION_EXTENSIONS = ("strategy", "prompt")  # beside OpenAI's keys of `context_management`


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedRequest:
    """A checked request. `input` is always a list of items; `shell` is None where no shell tool was given; it
    stands at `shell_index` of the tools. `provider_shell` stands in its place where the provider itself runs it, as it is sent there.
    `kept` are responses that are not stored and may be chained to, by id."""

    body: CreateRequest
    input: list[Json]
    shell: ShellTool | None
    shell_index: int
    other_tools: tuple[Json, ...]
    provider_shell: Json | None = None
    kept: Mapping[str, ResponseRecord] = field(default_factory=dict)

    @property
    def is_stored(self) -> bool:
        return self.body.store is not False

    @property
    def is_streamed(self) -> bool:
        return self.body.stream is True

    @property
    def is_obfuscated(self) -> bool:
        options = self.body.stream_options
        return options is not None and options.include_obfuscation is True

    @property
    def is_background(self) -> bool:
        return self.body.background is True

    @property
    def rank(self) -> Rank:
        """How long it may wait for a place, beside others."""
        options = self.body.background_options
        if options is not None and options.completion_window in ("2h", "8h"):
            return Rank.PATIENT
        return Rank.BACKGROUND if self.is_background else Rank.FOREGROUND

    @property
    def conversation_id(self) -> str | None:
        named = self.body.conversation
        return named.id if isinstance(named, ConversationReference) else named

    @property
    def is_compaction(self) -> bool:
        """Whether the conversation is only to be compacted."""
        return bool(self.input) and self.input[-1]["type"] == "compaction_trigger"

    @property
    def is_prewarm(self) -> bool:
        """Whether it is only to be prepared: no model is asked and nothing runs."""
        cache = self.body.prompt_cache_options
        return self.body.generate is False or (cache is not None and cache.prewarm is True)

    def options(self) -> Json:
        """The parameters that concern the provider, only those that were given."""
        given = self.body.model_dump(include=set(PROVIDER_OPTIONS), exclude_none=True)
        for entry in given.get("context_management", ()):
            for extension in COMPACTION_EXTENSIONS:  # they are this gateway's: a provider would refuse them
                entry.pop(extension, None)
        return given | {key: value for key, value in (self.body.model_extra or {}).items() if value is not None}


_SHELL: TypeAdapter[ShellTool] = TypeAdapter(ShellTool)
_CHECKED: Mapping[str, TypeAdapter[Any]] = {
    "function": TypeAdapter(FunctionTool),
    "custom": TypeAdapter(CustomTool),
    "namespace": TypeAdapter(NamespaceTool),
}
_JSON_SCHEMA: TypeAdapter[JsonSchemaFormat] = TypeAdapter(JsonSchemaFormat)
_BODY: TypeAdapter[CreateRequest] = TypeAdapter(CreateRequest)


def parse(body: object) -> ParsedRequest:
    """A request body as JSON gave it. Raises RequestInvalid with `param`, naming what would be right."""
    if not isinstance(body, dict):
        raise RequestInvalid('The body must be a JSON object such as {"model": "limpet/script", "input": "…"}.')
    request = validated(_BODY, body)
    for name, sentence in _NOT_BUILT.items():
        if getattr(request, name, None):
            raise RequestInvalid(sentence, param=name, code="unsupported_parameter")
    if request.input is None and request.conversation is None:
        raise RequestInvalid("`input` is missing: give a text or a list of items.", param="input")
    _check_background(request)
    _check_conversation(request)
    if request.text is not None and request.text.format is not None and request.text.format.type == "json_schema":
        validated(_JSON_SCHEMA, request.text.format.model_extra, at="text.format")
    shell, others = _tools(request.tools or [])
    _check_choice(request, has_shell=shell is not None)
    index = next((number for number, tool in enumerate(request.tools or []) if tool.get("type") == "shell"), 0)
    return ParsedRequest(
        body=request, input=input_items(request.input or []), shell=shell, shell_index=index, other_tools=tuple(others)
    )


CONVERSATION_END = "conversation_end"  # the number of the last item of its conversation that a response was given
OURS = ("notes", "queued", CONVERSATION_END)  # what a stored request holds beside the client's


def restored(stored: Mapping[str, Any], items: list[Json]) -> ParsedRequest:
    """A request as it was stored: checked before, its tools with the shell's environment as it was resolved. `items` is its input."""
    request = _BODY.validate_python({key: value for key, value in stored.items() if key not in OURS})
    tools = request.tools or []
    shell, others = _tools(tools)
    index = next((number for number, tool in enumerate(tools) if tool.get("type") == "shell"), 0)
    return ParsedRequest(body=request, input=items, shell=shell, shell_index=index, other_tools=tuple(others))


def _tools(tools: list[Json]) -> tuple[ShellTool | None, list[Json]]:
    shell: ShellTool | None = None
    others: list[Json] = []
    for position, tool in enumerate(tools):
        kind = tool.get("type")
        if not isinstance(kind, str) or not kind:
            raise RequestInvalid(
                'Every tool needs a `type` such as "shell" or "function".', param=f"tools[{position}].type"
            )
        if kind == "shell":
            if shell is not None:
                raise RequestInvalid("Only one shell tool can be given.", param=f"tools[{position}]")
            shell = validated(_SHELL, tool, at=f"tools[{position}]")
            continue
        _check_tool(tool, f"tools[{position}]")
        others.append(tool)
    return shell, others


def _check_tool(tool: Json, place: str) -> None:
    if tool["type"] in _CHECKED:
        validated(_CHECKED[tool["type"]], tool, at=place)
    if tool["type"] == "namespace":
        for position, inner in enumerate(tool["tools"]):
            if inner["type"] in ("function", "custom"):
                validated(_CHECKED[inner["type"]], inner, at=f"{place}.tools[{position}]")


def _check_background(request: CreateRequest) -> None:
    """A response in the background is read later, so it must be stored."""
    if request.background and request.store is False:
        raise RequestInvalid(
            "`background` needs a stored response: leave `store` out, or set it to true.",
            param="background",
            code="invalid_value",
        )
    options = request.background_options
    if options is None or options.completion_window in (None, "soonest"):
        return
    if not request.background or request.stream:
        raise RequestInvalid(
            f"A `completion_window` of {options.completion_window} needs `background: true` without `stream`.",
            param="background_options.completion_window",
            code="invalid_value",
        )


def _check_conversation(request: CreateRequest) -> None:
    """What a response adds to its conversation is kept there, so it must be stored."""
    if request.conversation is None:
        return
    if request.previous_response_id is not None:
        raise RequestInvalid(
            "Mutually exclusive parameters. Ensure you are only providing one of: 'previous_response_id' or 'conversation'.",
            param="conversation",
            code="mutually_exclusive_parameters",
        )
    if request.store is False:
        raise RequestInvalid(
            "`conversation` needs a stored response: leave `store` out, or set it to true.",
            param="conversation",
            code="invalid_value",
        )


def _callable_tools(tools: list[Json]) -> list[Json]:
    """The tools, and those in namespaces."""
    inner = [each for tool in tools if tool.get("type") == "namespace" for each in tool["tools"]]
    return [*tools, *inner]


def _check_choice(request: CreateRequest, *, has_shell: bool) -> None:
    """A forced tool must be among the tools."""
    choice, tools = request.tool_choice, request.tools or []
    if choice == "required" and not tools:
        raise RequestInvalid("`tool_choice` is required, so `tools` needs at least one tool.", param="tool_choice")
    if not isinstance(choice, ToolChoice):
        return
    if choice.type in ("function", "custom") and not any(
        tool.get("type") == choice.type and tool.get("name") == choice.name for tool in _callable_tools(tools)
    ):
        kind = "function" if choice.type == "function" else "custom tool"
        raise RequestInvalid(
            f"tool_choice: there is no {kind} {choice.name!r} in `tools`; name one that is there.",
            param="tool_choice",
        )
    if choice.type == "apply_patch" and not any(tool.get("type") == "apply_patch" for tool in tools):
        raise RequestInvalid(
            'tool_choice: there is no apply_patch in `tools`; add {"type": "apply_patch"} to them.', param="tool_choice"
        )
    if choice.type == "shell" and not has_shell:
        raise RequestInvalid(
            'tool_choice: there is no shell in `tools`; add {"type": "shell"} to them.', param="tool_choice"
        )
