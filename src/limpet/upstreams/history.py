"""The input of a translated turn: Responses items as pydantic-ai's messages. Pure.

Nothing that matters is lost without a word: an item or part that has no translation is refused by its name.
"""

import base64
import binascii
import json
import mimetypes
import re
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
    UserContent,
    UserPromptPart,
)

from limpet.core.errors import UpstreamRefused
from limpet.upstreams import shell_function
from limpet.upstreams.function_names import FunctionNames, custom_arguments
from limpet.upstreams.sealing import opened

SHOWN_AS_DATA = ("image/", "application/pdf")
TEXT_TYPES = ("text/", "application/json", "application/xml", "application/x-yaml", "application/toml")

_NOT_PLAIN = re.compile(r"[^a-zA-Z0-9_-]")


class History:
    """Collects the items of a turn, oldest first; `messages` has what was said and asked, merged where one side speaks on.

    `provider` names who is told: in refusals, and as the only one whose sealed reasoning may go back to it. `instructions` stand in
    front. `functions` are what the client's tools are called there. With `plain_ids` the ids of calls, which another provider may
    have made, are put in letters, digits, `_` and `-`.
    """

    def __init__(
        self, *, provider: str, instructions: str | None, functions: FunctionNames, plain_ids: bool = False
    ) -> None:
        self._provider = provider
        self._functions = functions
        self._plain_ids = plain_ids
        self._names: dict[str, str] = {}
        self.messages: list[ModelMessage] = []
        if instructions is not None:
            self._asked(SystemPromptPart(content=instructions))

    def add(self, item: Mapping[str, Any]) -> None:
        """The next item. Raises UpstreamRefused (400), naming what has no translation."""
        match item.get("type", "message"):
            case "message":
                self._add_message(item)
            case "reasoning":
                if thought := _thinking(item, self._provider):
                    self._answered(thought)
            case "function_call":
                self._called(item, self._function_of(item), item.get("arguments") or "{}")
            case "custom_tool_call":
                self._called(item, self._function_of(item), custom_arguments(item["input"]))
            case "shell_call":
                arguments = json.dumps(shell_function.call_arguments(item), ensure_ascii=False)
                self._called(item, shell_function.NAME, arguments)
            case "function_call_output" | "custom_tool_call_output":
                self._add_output(item)
            case "shell_call_output":
                self._returned(item, shell_function.output_text(item))
            case kind:
                raise self._refused(f"items of type {kind!r}")

    def _add_message(self, item: Mapping[str, Any]) -> None:
        content = item.get("content") or ""
        parts: Sequence[Mapping[str, Any]] = (
            [{"type": "input_text", "text": content}] if isinstance(content, str) else content
        )
        match item.get("role"):
            case "assistant":
                for part in parts:
                    self._answered(TextPart(content=self._text(part)))
            case "system" | "developer":
                self._asked(SystemPromptPart(content="\n\n".join(map(self._text, parts))))
            case _:
                self._asked(UserPromptPart(content=[self._content(part) for part in parts]))

    def _add_output(self, item: Mapping[str, Any]) -> None:
        output = item.get("output") or ""
        if isinstance(output, str):
            self._returned(item, output)
            return
        # A tool's result is text on these wires; what else it gave follows as if the user had shown it.
        content = [self._content(part) for part in output]
        self._returned(item, "\n".join(each for each in content if isinstance(each, str)))
        shown = [each for each in content if not isinstance(each, str)]
        if shown:
            self._asked(UserPromptPart(content=shown))

    def _function_of(self, item: Mapping[str, Any]) -> str:
        return self._functions.function(item["name"], item.get("namespace"))

    def _called(self, item: Mapping[str, Any], name: str, arguments: str) -> None:
        self._names[item["call_id"]] = name
        self._answered(ToolCallPart(tool_name=name, args=arguments, tool_call_id=self._id_of(item)))

    def _returned(self, item: Mapping[str, Any], text: str) -> None:
        """The result of a call. What was said between the call and its result comes behind all results: the wires want these first."""
        name = self._names.get(item["call_id"], "unknown")
        part = ToolReturnPart(tool_name=name, content=text, tool_call_id=self._id_of(item))
        last = self.messages[-1] if len(self.messages) > 1 else None
        if not isinstance(last, ModelRequest):
            self._asked(part)
            return
        returned = [each for each in last.parts if isinstance(each, ToolReturnPart)]
        others = [each for each in last.parts if not isinstance(each, ToolReturnPart)]
        last.parts = [*returned, part, *others]

    def _id_of(self, item: Mapping[str, Any]) -> str:
        call_id = str(item["call_id"])
        return _NOT_PLAIN.sub("_", call_id) if self._plain_ids else call_id

    def _asked(self, part: ModelRequestPart) -> None:
        last = self.messages[-1] if self.messages else None
        if isinstance(last, ModelRequest):
            last.parts = [*last.parts, part]
        else:
            self.messages.append(ModelRequest(parts=[part]))

    def _answered(self, part: ModelResponsePart) -> None:
        last = self.messages[-1] if self.messages else None
        if isinstance(last, ModelResponse):
            last.parts = [*last.parts, part]
        else:
            self.messages.append(ModelResponse(parts=[part]))

    def _text(self, part: Mapping[str, Any]) -> str:
        match part.get("type"):
            case "input_text" | "output_text" | "text" | "summary_text":
                return str(part.get("text", ""))
            case "refusal":
                return str(part.get("refusal", ""))
            case kind:
                raise self._refused(f"content of type {kind!r} in this role")

    def _content(self, part: Mapping[str, Any]) -> UserContent:
        match part.get("type"):
            case "input_image":
                return self._image(part)
            case "input_file":
                return self._file(part)
            case _:
                return self._text(part)

    def _image(self, part: Mapping[str, Any]) -> UserContent:
        address = part.get("image_url")
        if not isinstance(address, str):
            raise self._refused("images by file_id; send image_url")
        if not address.startswith("data:"):
            return ImageUrl(url=address)
        kind, data = self._decoded(address, "image_url")
        return BinaryContent(data=data, media_type=kind or "image/png")

    def _file(self, part: Mapping[str, Any]) -> UserContent:
        given = part.get("file_data")
        if not isinstance(given, str):
            raise self._refused("files by file_id or file_url; send file_data")
        name = part.get("filename") or "upload"
        kind, data = self._decoded(given, "file_data")
        kind = kind or mimetypes.guess_type(name)[0] or "application/octet-stream"
        if kind.startswith(SHOWN_AS_DATA):
            return BinaryContent(data=data, media_type=kind)
        if kind.startswith(TEXT_TYPES):
            return f"<file name={json.dumps(name)}>\n{data.decode(errors='replace')}\n</file>"
        return f"(The file {json.dumps(name)}, {kind}, {len(data)} bytes, cannot be shown to this model.)"

    def _decoded(self, given: str, field: str) -> tuple[str, bytes]:
        """Type and bytes of a data URL, or of plain base64, whose type is empty."""
        head, comma, encoded = given.partition(",")
        kind = head.removeprefix("data:").partition(";")[0] if comma else ""
        try:
            return kind, base64.b64decode(encoded if comma else given, validate=True)
        except (binascii.Error, ValueError) as error:
            raise self._refused(f"{field} that is not base64 or a base64 data URL") from error

    def _refused(self, what: str) -> UpstreamRefused:
        return UpstreamRefused(
            self._provider,
            400,
            f"it cannot be given {what}. Leave it out, or use a provider that speaks the Responses API.",
            code="unsupported_input",
            param="input",
        )


def messages_of(
    items: Iterable[Mapping[str, Any]],
    *,
    provider: str,
    instructions: str | None,
    functions: FunctionNames,
    plain_ids: bool = False,
) -> Sequence[ModelMessage]:
    """The whole input as messages. Raises UpstreamRefused (400)."""
    history = History(provider=provider, instructions=instructions, functions=functions, plain_ids=plain_ids)
    for item in items:
        history.add(item)
    return history.messages


def _thinking(item: Mapping[str, Any], provider: str) -> ThinkingPart | None:
    """Reasoning that this very provider sealed; that of any other proves nothing to it and is left out."""
    seal = opened(item.get("encrypted_content"), provider=provider)
    if seal is None:
        return None
    content = "".join(part.get("text", "") for part in item.get("summary") or ())
    return ThinkingPart(content=content, id=seal.id, signature=seal.signature, provider_name=seal.made_by)
