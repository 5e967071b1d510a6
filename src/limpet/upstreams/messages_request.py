"""A turn as the body of Anthropic's `POST /v1/messages`. Pure. Source: Anthropic's API reference, "Create a Message".

The prompt cache is asked for, which this wire leaves to the caller: each turn of a loop sends the whole history again.
"""

from collections.abc import Sequence
from typing import Any

from limpet.core.errors import UpstreamRefused
from limpet.upstreams.claude_models import AFTER_THINKING, BUDGETS, ClaudeModel, claude_model
from limpet.upstreams.claude_schema import binding_schema
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
    UserContents,
    conversation_of,
)
from limpet.upstreams.function_names import FunctionNames, arguments_object
from limpet.upstreams.turn_request import (
    AllowedFunctions,
    OfferedFunction,
    ToolChoice,
    allowed_among,
    answer_schema,
    effort_of,
    functions_of,
    instructions_of,
    service_tier_of,
    tool_choice_of,
)
from limpet.upstreams.upstream import Turn

Json = dict[str, Any]
MADE_BY = "anthropic"  # of reasoning that came over this wire, in its seal
REDACTED = frozenset(
    {"redacted_thinking", "redacted_content"}
)  # the ids of reasoning that is not shown; the latter is Bedrock's
CACHE = {"type": "ephemeral", "ttl": "5m"}
_TIERS = {"auto": "auto", "default": "standard_only"}  # the others have no word there
_ANCHOR = "."  # stands before a system message, which may follow no answer


def messages_body(turn: Turn, names: FunctionNames, *, provider: str) -> Json:
    """The body. Raises UpstreamRefused (400) for what has no translation."""
    model = claude_model(turn.model)
    conversation = conversation_of(
        turn.input, provider=provider, instructions=instructions_of(turn), functions=names, plain_ids=True
    )
    system, messages = claude_messages(conversation, inline_system=model.takes_inline_system)
    thinking, config = _thinking(turn, model, provider)
    body: Json = {
        "model": turn.model,
        "max_tokens": _length(turn, model, thinking),
        "messages": messages,
        "stream": True,
        "cache_control": CACHE,
    }
    if system:
        body["system"] = [{"type": "text", "text": system, "cache_control": CACHE}]
    body |= _tools(turn, names, model, thinking, provider=provider)
    if model.takes_sampling:
        body |= {name: turn.options[name] for name in ("temperature", "top_p") if turn.options.get(name) is not None}
    if (tier := _TIERS.get(service_tier_of(turn) or "")) is not None:
        body["service_tier"] = tier
    if thinking is not None:
        body["thinking"] = thinking
    config |= _form(turn, model, provider)
    return body | ({"output_config": config} if config else {})


def _length(turn: Turn, model: ClaudeModel, thinking: Json | None) -> int:
    """The wire must be told one. A budget of thinking counts toward it, and leaves room for the answer."""
    asked: int | None = turn.options.get("max_output_tokens")
    if asked is not None:
        return min(asked, model.most_tokens) if model.most_tokens else asked
    budget: int = (thinking or {}).get("budget_tokens", 0)
    return max(model.usual_tokens, budget + AFTER_THINKING)


def _thinking(turn: Turn, model: ClaudeModel, provider: str) -> tuple[Json | None, Json]:
    """How the model is to think, and with which effort."""
    effort = effort_of(turn, provider=provider)
    if effort is None:
        return None, {}
    if effort != "none":
        config = {"effort": model.effort(effort)} if model.knows_effort else {}
        if model.thinks_adaptively:
            return {"type": "adaptive"}, config
        return {"type": "enabled", "budget_tokens": BUDGETS[effort]}, config
    if model.always_thinks:  # then as little as it can
        return ({"type": "adaptive"}, {"effort": "low"}) if model.knows_effort else (None, {})
    if model.thinks_between_tools:
        return {"type": "between_tools"}, {}
    return ({"type": "disabled"} if model.thinks_by_default else None), {}


def _tools(turn: Turn, names: FunctionNames, model: ClaudeModel, thinking: Json | None, *, provider: str) -> Json:
    functions = functions_of(turn, names, provider=provider)
    asked = tool_choice_of(turn, names, provider=provider)
    allowed, choice = allowed_among(asked, functions, provider=provider)
    if not functions:
        return {}
    _check_forced(choice, model, thinking, provider)
    is_one = isinstance(choice, AllowedFunctions) and choice.required and len(choice.names) == 1
    tools = [_tool(each, model, provider) for each in (functions if is_one else allowed)]
    tools[-1]["cache_control"] = CACHE
    sent = _choice(choice)
    parallel = turn.options.get("parallel_tool_calls")
    if parallel is not None and sent["type"] != "none":
        sent["disable_parallel_tool_use"] = not parallel
    return {"tools": tools, "tool_choice": sent}


def _check_forced(choice: ToolChoice, model: ClaudeModel, thinking: Json | None, provider: str) -> None:
    is_forced = choice.required if isinstance(choice, AllowedFunctions) else choice == "required"
    is_budgeted = (thinking or {}).get("type") == "enabled"
    if not is_forced or (model.takes_forced_tools and not is_budgeted):
        return
    why = "while it thinks; set reasoning.effort to none," if model.takes_forced_tools else "at all;"
    raise UpstreamRefused(
        provider,
        400,
        f"the model {model.name} cannot be forced to call a tool {why} or use tool_choice auto.",
        code="unsupported_value",
        param="tool_choice",
    )


def _choice(choice: ToolChoice) -> Json:
    match choice:
        case AllowedFunctions(names=(name,), required=True):
            return {"type": "tool", "name": name}
        case AllowedFunctions(required=True) | "required":
            return {"type": "any"}
        case "none":
            return {"type": "none"}
        case _:
            return {"type": "auto"}


def _tool(function: OfferedFunction, model: ClaudeModel, provider: str) -> Json:
    described: Json = {"name": function.name, "description": function.about or "", "input_schema": function.parameters}
    if function.strict and model.takes_schemas:
        described |= {"input_schema": _bound(function.parameters, provider, "tools"), "strict": True}
    return described


def _form(turn: Turn, model: ClaudeModel, provider: str) -> Json:
    form = answer_schema(turn, provider=provider)
    if form is None:
        return {}
    if not model.takes_schemas:
        raise UpstreamRefused(
            provider,
            400,
            f"the model {model.name} cannot be bound to a schema. Use text, or another model.",
            code="unsupported_format",
            param="text.format",
        )
    return {"format": {"type": "json_schema", "schema": _bound(form.schema, provider, "text.format")}}


def _bound(schema: Any, provider: str, param: str) -> Json:
    try:
        return binding_schema(schema)
    except (AttributeError, TypeError, ValueError, RecursionError) as error:
        raise UpstreamRefused(provider, 400, f"the schema cannot be sent: {error}", param=param) from error


def claude_messages(messages: Sequence[Message], *, inline_system: bool) -> tuple[str, list[Json]]:
    """The system's text and the messages. What the system says later stands where it was said with `inline_system`, else in front."""
    standing: list[str] = []
    sent: list[Json] = []
    has_begun = False
    for message in messages:
        match message:
            case ModelMessage():
                _append(sent, "assistant", _answered(message))
            case PromptMessage(parts):
                blocks: list[Json] = []
                later: list[str] = []
                for part in parts:
                    if not isinstance(part, SystemText):
                        has_begun = True
                        blocks += _asked(part)
                    else:
                        (later if has_begun and inline_system else standing).append(part.text)
                has_begun = True
                _append(sent, "user", blocks)
                _append(sent, "system", [_text(text) for text in later])
    return "\n\n".join(standing), sent


def _append(sent: list[Json], role: str, blocks: list[Json]) -> None:
    """One side's blocks stand together. A system message stands behind a user's, and before the answer that it is about."""
    if not blocks:
        return
    roles = [message["role"] for message in sent]
    if roles and roles[-1] == role:
        sent[-1]["content"] += blocks
    elif role == "user" and roles[-2:] == ["user", "system"]:
        sent[-2]["content"] += blocks
    elif role == "system" and (not roles or roles[-1] == "assistant"):
        sent += [{"role": "user", "content": [_text(_ANCHOR)]}, {"role": role, "content": blocks}]
    else:
        sent.append({"role": role, "content": blocks})


def _asked(part: UserContents | CallResult) -> list[Json]:
    match part:
        case CallResult(_, text, call_id):
            content = [_text(text)]
            return [{"type": "tool_result", "tool_use_id": call_id, "content": content, "is_error": False}]
        case UserContents(parts):
            return [_content(each) for each in parts if each != ""]


def _answered(message: ModelMessage) -> list[Json]:
    blocks: list[Json] = []
    for part in message.parts:
        match part:
            case AnswerText(text) if text:
                blocks.append(_text(text))
            case Thought(text, seal) if seal.signature and seal.made_by == MADE_BY:
                blocks.append(
                    {"type": "redacted_thinking", "data": seal.signature}
                    if seal.id in REDACTED
                    else {"type": "thinking", "thinking": text, "signature": seal.signature}
                )
            case Thought(text) if text:
                blocks.append(_text(f"<thinking>\n{text}\n</thinking>"))
            case MadeCall(name, arguments, call_id):
                blocks.append({"type": "tool_use", "id": call_id, "name": name, "input": arguments_object(arguments)})
    return blocks


def _content(part: UserContent) -> Json:
    match part:
        case ImageAddress(url):
            return {"type": "image", "source": {"type": "url", "url": url}}
        case FileData():
            source = {"type": "base64", "media_type": part.media_type, "data": part.base64}
            return {"type": "image" if part.media_type.startswith("image/") else "document", "source": source}
        case text:
            return _text(text)


def _text(text: str) -> Json:
    return {"type": "text", "text": text}
