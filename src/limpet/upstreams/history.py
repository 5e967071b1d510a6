"""The input of a translated turn as pydantic-ai's messages, for the wires that this library speaks. Pure; what has no translation is
refused as in `conversation`.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic_ai.messages import (
    BinaryContent,
    ImageUrl,
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    ModelResponsePart,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.messages import UserContent as PromptContent

from limpet.upstreams.conversation import (
    AnsweredPart,
    AnswerText,
    AskedPart,
    CallResult,
    FileData,
    ImageAddress,
    MadeCall,
    PromptMessage,
    SystemText,
    Thought,
    UserContent,
    UserContents,
    conversation_of,
)
from limpet.upstreams.function_names import FunctionNames


def messages_of(
    items: Iterable[Mapping[str, Any]],
    *,
    provider: str,
    instructions: str | None,
    functions: FunctionNames,
    plain_ids: bool = False,
) -> Sequence[ModelMessage]:
    """The whole input as messages. Raises UpstreamRefused (400)."""
    messages = conversation_of(
        items, provider=provider, instructions=instructions, functions=functions, plain_ids=plain_ids
    )
    return [
        ModelRequest(parts=[_asked(part) for part in message.parts])
        if isinstance(message, PromptMessage)
        else ModelResponse(parts=[_answered(part) for part in message.parts])
        for message in messages
    ]


def _asked(part: AskedPart) -> ModelRequestPart:
    match part:
        case SystemText(text):
            return SystemPromptPart(content=text)
        case UserContents(parts):
            return UserPromptPart(content=[_content(each) for each in parts])
        case CallResult(name, text, call_id):
            return ToolReturnPart(tool_name=name, content=text, tool_call_id=call_id)


def _answered(part: AnsweredPart) -> ModelResponsePart:
    match part:
        case AnswerText(text):
            return TextPart(content=text)
        case Thought(text, seal):
            return ThinkingPart(content=text, id=seal.id, signature=seal.signature, provider_name=seal.made_by)
        case MadeCall(name, arguments, call_id):
            return ToolCallPart(tool_name=name, args=arguments, tool_call_id=call_id)


def _content(part: UserContent) -> PromptContent:
    match part:
        case ImageAddress(url):
            return ImageUrl(url=url)
        case FileData():
            return BinaryContent(data=part.data, media_type=part.media_type)
        case text:
            return text
