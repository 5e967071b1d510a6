"""A turn as the body of `POST /chat/completions`. Pure. Source: OpenAI's API reference, "Create chat completion"; what other servers
differ in is said where it matters.
"""

import json
from collections.abc import Sequence
from typing import Any

from limpet.upstreams.conversation import (
    AnswerText,
    CallResult,
    FileData,
    ImageAddress,
    MadeCall,
    Message,
    ModelMessage,
    PromptMessage,
    SystemText,
    Thought,
    UserContent,
    conversation_of,
)
from limpet.upstreams.function_names import FunctionNames, arguments_object
from limpet.upstreams.turn_request import (
    AllowedFunctions,
    AnswerSchema,
    AnyJson,
    OfferedFunction,
    allowed_among,
    answer_form,
    effort_of,
    functions_of,
    service_tier_of,
    tool_choice_of,
    unknown_form,
)
from limpet.upstreams.upstream import Turn

Json = dict[str, Any]
MADE_BY = "openai"  # of reasoning that came over this wire, in its seal; the id there is the field that it came in
REASONING_FIELDS = ("reasoning", "reasoning_content")  # Ollama and OpenRouter; DeepSeek, vLLM and most others
TAGS = ("<think>", "</think>")  # around reasoning within the text, of servers that do not tell them apart
IN_TAGS = "content"  # the id of such reasoning
_UNNAMED_SCHEMA = "final_result"  # a schema must have a name there


def chat_body(turn: Turn, names: FunctionNames, *, provider: str, is_openai: bool) -> Json:
    """The body. `is_openai`: OpenAI itself is asked, whose newer models want parameters that other servers do not know. Raises
    UpstreamRefused (400) for what has no translation."""
    messages = conversation_of(
        turn.input, provider=provider, instructions=turn.instructions, functions=names, plain_ids=False
    )
    body: Json = {
        "model": turn.model,
        "messages": chat_messages(messages),
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    body |= _tools(turn, names, provider=provider, is_openai=is_openai)
    options = turn.options
    for name in ("temperature", "top_p"):
        if options.get(name) is not None:
            body[name] = options[name]
    if options.get("max_output_tokens") is not None:
        body["max_completion_tokens" if is_openai else "max_tokens"] = options["max_output_tokens"]
    # As it was asked for: which of these servers' models reason is not known here.
    if (effort := effort_of(turn, provider=provider)) is not None:
        body["reasoning_effort"] = effort
    if (tier := service_tier_of(turn)) is not None:
        body["service_tier"] = tier
    return body | _form(turn, provider)


def _tools(turn: Turn, names: FunctionNames, *, provider: str, is_openai: bool) -> Json:
    functions = functions_of(turn, names, provider=provider)
    asked = tool_choice_of(turn, names, provider=provider)
    allowed, choice = allowed_among(asked, functions, provider=provider)
    if not functions:
        return {}
    # OpenAI is told which functions are allowed, so that the list of all stays in its cache; other servers are given only these.
    given = functions if is_openai or (isinstance(choice, AllowedFunctions) and _is_forced(choice)) else allowed
    body: Json = {"tools": [_tool(each) for each in given], "tool_choice": _choice(choice, is_openai=is_openai)}
    if turn.options.get("parallel_tool_calls") is not None:
        body["parallel_tool_calls"] = turn.options["parallel_tool_calls"]
    return body


def _is_forced(choice: AllowedFunctions) -> bool:
    return choice.required and len(choice.names) == 1


def _choice(choice: str | AllowedFunctions | None, *, is_openai: bool) -> str | Json:
    if not isinstance(choice, AllowedFunctions):
        return choice or "auto"
    if _is_forced(choice):
        return {"type": "function", "function": {"name": choice.names[0]}}
    mode = "required" if choice.required else "auto"
    if not is_openai:
        return mode
    tools = [{"type": "function", "function": {"name": name}} for name in choice.names]
    return {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": tools}}


def _tool(function: OfferedFunction) -> Json:
    described: Json = {"name": function.name, "description": function.about or "", "parameters": function.parameters}
    return {"type": "function", "function": described | ({"strict": True} if function.strict else {})}


def _form(turn: Turn, provider: str) -> Json:
    match answer_form(turn):
        case None:
            return {}
        case AnyJson():
            return {"response_format": {"type": "json_object"}}
        case AnswerSchema() as form:
            schema: Json = {"name": form.name or _UNNAMED_SCHEMA, "schema": form.schema}
            schema |= {"description": form.description} if form.description else {}
            schema |= {"strict": form.strict} if form.strict is not None else {}
            return {"response_format": {"type": "json_schema", "json_schema": schema}}
        case kind:
            raise unknown_form(kind, provider=provider, known="json_schema, json_object or text")


def chat_messages(messages: Sequence[Message]) -> list[Json]:
    """The conversation as messages of the wire."""
    sent: list[Json] = []
    for message in messages:
        match message:
            case PromptMessage(parts):
                sent += [_asked(part) for part in parts]
            case ModelMessage():
                sent += _answered(message)
    _fill_reasoning(sent)
    return sent


def _asked(part: object) -> Json:
    match part:
        case SystemText(text):
            return {"role": "system", "content": text}
        case CallResult(_, text, call_id):
            return {"role": "tool", "tool_call_id": call_id, "content": text}
        case _:
            return {"role": "user", "content": _contents(getattr(part, "parts", ()))}


def _contents(parts: Sequence[UserContent]) -> str | list[Json]:
    """One text is sent as such: some servers know no lists."""
    if len(parts) == 1 and isinstance(parts[0], str):
        return parts[0]
    return [_content(part) for part in parts]


def _content(part: UserContent) -> Json:
    match part:
        case ImageAddress(url):
            return {"type": "image_url", "image_url": {"url": url}}
        case FileData() if part.media_type.startswith("image/"):
            return {"type": "image_url", "image_url": {"url": part.data_url}}
        case FileData():
            return {"type": "file", "file": {"file_data": part.data_url, "filename": part.name or "upload"}}
        case text:
            return {"type": "text", "text": text}


def _answered(message: ModelMessage) -> list[Json]:
    """One message, or none where there is nothing but reasoning: the wire has no message for that."""
    texts: list[str] = []
    thoughts: dict[str, list[str]] = {}
    calls: list[Json] = []
    for part in message.parts:
        match part:
            case AnswerText(text):
                texts.append(text)
            case Thought(text, seal) if seal.id in REASONING_FIELDS:
                thoughts.setdefault(seal.id, []).append(text)
            case Thought(text):
                texts.append("\n".join((TAGS[0], text, TAGS[1])))
            case MadeCall(name, arguments, call_id):
                function = {"name": name, "arguments": _valid(arguments)}
                calls.append({"id": call_id, "type": "function", "function": function})
    if not texts and not calls:
        return []
    sent: Json = {"role": "assistant", "content": "\n\n".join(texts) if texts else None}
    sent |= {field: "\n\n".join(pieces) for field, pieces in thoughts.items()}
    return [sent | ({"tool_calls": calls} if calls else {})]


def _valid(arguments: str) -> str:
    """Servers parse the arguments of earlier calls, and refuse the whole request where one cannot be parsed."""
    return json.dumps(arguments_object(arguments), ensure_ascii=False, separators=(",", ":"))


def _fill_reasoning(messages: Sequence[Json]) -> None:
    """DeepSeek refuses calls after the newest message of the user that lack reasoning where others have it."""
    fields = {field for message in messages for field in REASONING_FIELDS if field in message}
    if len(fields) != 1:
        return
    (field,) = fields
    newest = max((at for at, message in enumerate(messages) if message["role"] == "user"), default=-1)
    for message in messages[newest + 1 :]:
        if message.get("tool_calls"):
            message.setdefault(field, "")
