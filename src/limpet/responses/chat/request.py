"""The body of `POST /v1/chat/completions` as a body of `POST /v1/responses`. Pure. Source: OpenAI's CreateChatCompletionRequest.

What has no counterpart is refused by its name where the answer would be another one; sampling details that only some models know are left
out, and named in `left_out`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt, StrictStr, TypeAdapter

from limpet.core.errors import RequestInvalid
from limpet.responses.request import Metadata, ModelName
from limpet.responses.validation import validated

Json = dict[str, Any]
LEAST_OUTPUT = 16  # tokens: the Responses API takes no smaller bound

_NOT_SERVED = {
    "functions": "Use `tools`.",
    "function_call": "Use `tool_choice`.",
    "audio": "Audio is not served.",
    "web_search_options": "Searching the web is not served here.",
}
_LEFT_OUT = ("seed", "presence_penalty", "frequency_penalty", "logit_bias", "prediction")
_SAME = (
    "model temperature top_p parallel_tool_calls metadata service_tier safety_identifier prompt_cache_key "
    "prompt_cache_retention user top_logprobs"
).split()


StopText = Annotated[StrictStr, Field(min_length=1, max_length=512)]


class ChatMessage(BaseModel):
    model_config = ConfigDict(extra="allow")
    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: StrictStr | list[dict[str, Any]] | None = None
    refusal: StrictStr | None = None
    tool_calls: list[dict[str, Any]] | None = None
    tool_call_id: StrictStr | None = None


class StreamOptions(BaseModel):
    model_config = ConfigDict(extra="allow")
    include_usage: StrictBool | None = None


class ResponseFormat(BaseModel):
    model_config = ConfigDict(extra="allow")
    type: Literal["text", "json_object", "json_schema"]
    json_schema: dict[str, Any] | None = None


class ChatBody(BaseModel):
    """The fields that the gateway reads."""

    model_config = ConfigDict(extra="allow", protected_namespaces=())
    model: ModelName
    messages: Annotated[list[ChatMessage], Field(min_length=1)]
    stream: StrictBool | None = None
    stream_options: StreamOptions | None = None
    n: Annotated[StrictInt, Field(ge=1, le=1)] | None = None
    stop: StopText | Annotated[list[StopText], Field(max_length=4)] | None = None
    max_tokens: Annotated[StrictInt, Field(ge=1)] | None = None
    max_completion_tokens: Annotated[StrictInt, Field(ge=1)] | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Annotated[float, Field(ge=0, le=1)] | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: StrictStr | dict[str, Any] | None = None
    response_format: ResponseFormat | None = None
    reasoning_effort: StrictStr | None = None
    verbosity: StrictStr | None = None
    logprobs: StrictBool | None = None
    modalities: list[Literal["text"]] | None = None
    metadata: Metadata | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRequest:
    """`body` is one of the Responses API; `left_out` are parameters that have no counterpart there."""

    body: Json
    stop: tuple[str, ...]
    is_streamed: bool
    includes_usage: bool
    left_out: tuple[str, ...]


_BODY: TypeAdapter[ChatBody] = TypeAdapter(ChatBody)


def parse(given: object) -> ChatRequest:
    """A body as JSON gave it. Raises RequestInvalid with `param`, naming what would be right."""
    if not isinstance(given, dict):
        raise RequestInvalid('The body must be a JSON object such as {"model": "…", "messages": […]}.')
    for name, remedy in _NOT_SERVED.items():
        if given.get(name) is not None:
            raise RequestInvalid(f"`{name}` is not served. {remedy}", param=name, code="unsupported_parameter")
    chat = validated(_BODY, given)
    stop = (chat.stop,) if isinstance(chat.stop, str) else tuple(chat.stop or ())
    return ChatRequest(
        body=_body(chat, given),
        stop=stop,
        is_streamed=chat.stream is True,
        includes_usage=chat.stream_options is not None and chat.stream_options.include_usage is True,
        left_out=tuple(name for name in _LEFT_OUT if given.get(name)),
    )


def _body(chat: ChatBody, given: Json) -> Json:
    body: Json = {name: given[name] for name in _SAME if given.get(name) is not None}
    body |= {"input": _items(chat.messages), "store": False, "stream": chat.stream is True}
    if (most := chat.max_completion_tokens or chat.max_tokens) is not None:
        body["max_output_tokens"] = max(most, LEAST_OUTPUT)
    if chat.tools:
        body["tools"] = [_tool(tool, f"tools[{at}]") for at, tool in enumerate(chat.tools)]
    if chat.tool_choice is not None:
        body["tool_choice"] = _choice(chat.tool_choice)
    if chat.reasoning_effort is not None:
        body["reasoning"] = {"effort": chat.reasoning_effort}
    text = {"format": _format(chat.response_format), "verbosity": chat.verbosity}
    if known := {name: value for name, value in text.items() if value is not None}:
        body["text"] = known
    if chat.logprobs:
        body["include"] = ["message.output_text.logprobs"]
    return body


def _items(messages: list[ChatMessage]) -> list[Json]:
    items: list[Json] = []
    for at, message in enumerate(messages):
        place = f"messages[{at}]"
        match message.role:
            case "tool":
                if message.tool_call_id is None:
                    raise RequestInvalid(f"{place}.tool_call_id is missing.", param=f"{place}.tool_call_id")
                output = _text(message, place)
                items.append({"type": "function_call_output", "call_id": message.tool_call_id, "output": output})
            case "assistant":
                if said := _text(message, place) or message.refusal:
                    part = {"type": "output_text", "text": said, "annotations": []}
                    items.append({"type": "message", "role": "assistant", "content": [part]})
                items += [_call(call, f"{place}.tool_calls[{n}]") for n, call in enumerate(message.tool_calls or ())]
            case "user":
                content = message.content or ""
                parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
                shown = [_part(part, f"{place}.content[{n}]") for n, part in enumerate(parts)]
                items.append({"type": "message", "role": "user", "content": shown})
            case role:
                text = {"type": "input_text", "text": _text(message, place)}
                items.append({"type": "message", "role": role, "content": [text]})
    return items


def _text(message: ChatMessage, place: str) -> str:
    """Content that is text alone, as one."""
    if message.content is None or isinstance(message.content, str):
        return message.content or ""
    found: list[str] = []
    for at, part in enumerate(message.content):
        if part.get("type") not in ("text", "refusal"):
            where = f"{place}.content[{at}]"
            raise RequestInvalid(f"{where}: only text can stand here.", param=where)
        found.append(_word(part, part["type"], f"{place}.content[{at}]"))
    return "".join(found)


def _part(part: Json, place: str) -> Json:
    match part.get("type"):
        case "text":
            return {"type": "input_text", "text": _word(part, "text", place)}
        case "image_url":
            image = _object(part, "image_url", place)
            detail = image.get("detail") or "auto"
            return {"type": "input_image", "image_url": _word(image, "url", f"{place}.image_url"), "detail": detail}
        case "file":
            file = _object(part, "file", place)
            return {"type": "input_file"} | {k: file[k] for k in ("file_id", "file_data", "filename") if file.get(k)}
        case kind:
            raise RequestInvalid(
                f"{place}: content of type {kind!r} is not served. Use text, image_url or file.", param=f"{place}.type"
            )


def _call(call: Json, place: str) -> Json:
    call_id = _word(call, "id", place)
    if call.get("type") == "custom":
        custom = _object(call, "custom", place)
        name, given = _word(custom, "name", f"{place}.custom"), _word(custom, "input", f"{place}.custom")
        return {"type": "custom_tool_call", "call_id": call_id, "name": name, "input": given}
    function = _object(call, "function", place)
    name, given = _word(function, "name", f"{place}.function"), _word(function, "arguments", f"{place}.function")
    return {"type": "function_call", "call_id": call_id, "name": name, "arguments": given}


def _tool(tool: Json, place: str) -> Json:
    match tool.get("type"):
        case "function":
            function = _object(tool, "function", place)
            known = {
                name: function[name] for name in ("name", "description", "parameters", "strict") if name in function
            }
            return {"type": "function", "parameters": {"type": "object", "properties": {}}, "strict": False} | known
        case "custom":
            custom = dict(_object(tool, "custom", place))
            form = custom.get("format")
            if isinstance(form, Mapping) and isinstance(form.get("grammar"), Mapping):
                custom["format"] = {"type": "grammar", **form["grammar"]}
            return {"type": "custom", **custom}
        case kind:
            raise RequestInvalid(
                f"{place}: tools of type {kind!r} are not served here. Use functions; the hosted shell is a tool of POST /v1/responses.",
                param=f"{place}.type",
                code="unsupported_tool",
            )


def _choice(choice: str | Json) -> str | Json:
    if isinstance(choice, str):
        return choice
    kind = str(choice.get("type"))
    if kind == "allowed_tools":
        allowed = _object(choice, "allowed_tools", "tool_choice")
        tools = [_choice(tool) if isinstance(tool, dict) else tool for tool in allowed.get("tools") or ()]
        return {"type": "allowed_tools", "mode": allowed.get("mode", "auto"), "tools": tools}
    return {"type": kind, "name": _word(_object(choice, kind, "tool_choice"), "name", f"tool_choice.{kind}")}


def _format(given: ResponseFormat | None) -> Json | None:
    if given is None:
        return None
    if given.type != "json_schema":
        return {"type": given.type}
    if given.json_schema is None:
        raise RequestInvalid("response_format.json_schema is missing.", param="response_format.json_schema")
    return {"type": "json_schema", **given.json_schema}


def _object(given: Mapping[str, Any], name: str, place: str) -> Json:
    value = given.get(name)
    if not isinstance(value, dict):
        raise RequestInvalid(f"{place}.{name}: must be an object.", param=f"{place}.{name}", code="invalid_type")
    return value


def _word(given: Mapping[str, Any], name: str, place: str) -> str:
    value = given.get(name)
    if not isinstance(value, str):
        raise RequestInvalid(f"{place}.{name}: must be text.", param=f"{place}.{name}", code="invalid_type")
    return value
