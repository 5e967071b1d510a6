"""The input of a translated turn: Responses items as messages that alternate between the two sides, in terms that belong to no wire.
Pure.

Nothing that matters is lost without a word: an item or part that has no translation is refused by its name.
"""

import base64
import binascii
import json
import mimetypes
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from limpet.core.errors import UpstreamRefused
from limpet.upstreams import patch_function, shell_function
from limpet.upstreams.function_names import FunctionNames, custom_arguments
from limpet.upstreams.sealing import Seal, opened

SHOWN_AS_DATA = ("image/", "application/pdf")
TEXT_TYPES = ("text/", "application/json", "application/xml", "application/x-yaml", "application/toml")

_NOT_PLAIN = re.compile(r"[^a-zA-Z0-9_-]")


@dataclass(frozen=True, slots=True)
class SystemText:
    """Instructions of the operator or developer."""

    text: str


@dataclass(frozen=True, slots=True)
class ImageAddress:
    """An image that the provider fetches."""

    url: str


@dataclass(frozen=True, slots=True)
class FileData:
    """An image or document, with its bytes."""

    data: bytes
    media_type: str
    name: str = ""

    @property
    def base64(self) -> str:
        return base64.b64encode(self.data).decode()

    @property
    def data_url(self) -> str:
        return f"data:{self.media_type};base64,{self.base64}"


UserContent = str | ImageAddress | FileData


@dataclass(frozen=True, slots=True)
class UserContents:
    """What a user said and showed, in order."""

    parts: tuple[UserContent, ...]


@dataclass(frozen=True, slots=True)
class CallResult:
    """What a call gave back. `name` is its function's, "unknown" where the call is not in the input."""

    name: str
    text: str
    call_id: str


@dataclass(frozen=True, slots=True)
class AnswerText:
    """Text of the model."""

    text: str


@dataclass(frozen=True, slots=True)
class Thought:
    """Reasoning that the asked provider sealed itself."""

    text: str
    seal: Seal


@dataclass(frozen=True, slots=True)
class MadeCall:
    """A call of the model; `arguments` is the text that it wrote."""

    name: str
    arguments: str
    call_id: str


AskedPart = SystemText | UserContents | CallResult
AnsweredPart = AnswerText | Thought | MadeCall


@dataclass(slots=True)
class PromptMessage:
    """One message towards the model."""

    parts: list[AskedPart]


@dataclass(slots=True)
class ModelMessage:
    """One message of the model."""

    parts: list[AnsweredPart]


Message = PromptMessage | ModelMessage


class Conversation:
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
        self.messages: list[Message] = []
        if instructions is not None:
            self._asked(SystemText(instructions))

    def add(self, item: Mapping[str, Any]) -> None:
        """The next item. Raises UpstreamRefused (400), naming what has no translation."""
        match item.get("type", "message"):
            case "message":
                self._add_message(item)
            case "reasoning":
                if thought := _thought(item, self._provider):
                    self._answered(thought)
            case "function_call":
                self._called(item, self._function_of(item), item.get("arguments") or "{}")
            case "custom_tool_call":
                self._called(item, self._function_of(item), custom_arguments(item["input"]))
            case "shell_call":
                arguments = json.dumps(shell_function.call_arguments(item), ensure_ascii=False)
                self._called(item, shell_function.NAME, arguments)
            case "apply_patch_call":
                self._called(item, patch_function.NAME, patch_function.call_arguments(item))
            case "apply_patch_call_output":
                self._returned(item, patch_function.output_text(item))
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
                    self._answered(AnswerText(self._text(part)))
            case "system" | "developer":
                self._asked(SystemText("\n\n".join(map(self._text, parts))))
            case _:
                self._asked(UserContents(tuple(self._content(part) for part in parts)))

    def _add_output(self, item: Mapping[str, Any]) -> None:
        output = item.get("output") or ""
        if isinstance(output, str):
            self._returned(item, output)
            return
        # A tool's result is text on these wires; what else it gave follows as if the user had shown it.
        content = [self._content(part) for part in output]
        self._returned(item, "\n".join(each for each in content if isinstance(each, str)))
        shown = tuple(each for each in content if not isinstance(each, str))
        if shown:
            self._asked(UserContents(shown))

    def _function_of(self, item: Mapping[str, Any]) -> str:
        return self._functions.function(item["name"], item.get("namespace"))

    def _called(self, item: Mapping[str, Any], name: str, arguments: str) -> None:
        self._names[item["call_id"]] = name
        self._answered(MadeCall(name, arguments, self._id_of(item)))

    def _returned(self, item: Mapping[str, Any], text: str) -> None:
        """The result of a call. What was said between the call and its result comes behind all results: the wires want these first."""
        part = CallResult(self._names.get(item["call_id"], "unknown"), text, self._id_of(item))
        last = self.messages[-1] if len(self.messages) > 1 else None
        if not isinstance(last, PromptMessage):
            self._asked(part)
            return
        returned = [each for each in last.parts if isinstance(each, CallResult)]
        others = [each for each in last.parts if not isinstance(each, CallResult)]
        last.parts = [*returned, part, *others]

    def _id_of(self, item: Mapping[str, Any]) -> str:
        call_id = str(item["call_id"])
        return _NOT_PLAIN.sub("_", call_id) if self._plain_ids else call_id

    def _asked(self, part: AskedPart) -> None:
        last = self.messages[-1] if self.messages else None
        if isinstance(last, PromptMessage):
            last.parts.append(part)
        else:
            self.messages.append(PromptMessage([part]))

    def _answered(self, part: AnsweredPart) -> None:
        last = self.messages[-1] if self.messages else None
        if isinstance(last, ModelMessage):
            last.parts.append(part)
        else:
            self.messages.append(ModelMessage([part]))

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
            return ImageAddress(address)
        kind, data = self._decoded(address, "image_url")
        return FileData(data, kind or "image/png")

    def _file(self, part: Mapping[str, Any]) -> UserContent:
        given = part.get("file_data")
        if not isinstance(given, str):
            raise self._refused("files by file_id or file_url; send file_data")
        name = part.get("filename") or "upload"
        kind, data = self._decoded(given, "file_data")
        kind = kind or mimetypes.guess_type(name)[0] or "application/octet-stream"
        if kind.startswith(SHOWN_AS_DATA):
            return FileData(data, kind, name)
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


def conversation_of(
    items: Iterable[Mapping[str, Any]],
    *,
    provider: str,
    instructions: str | None,
    functions: FunctionNames,
    plain_ids: bool = False,
) -> list[Message]:
    """The whole input as messages. Raises UpstreamRefused (400)."""
    conversation = Conversation(provider=provider, instructions=instructions, functions=functions, plain_ids=plain_ids)
    for item in items:
        conversation.add(item)
    return conversation.messages


def _thought(item: Mapping[str, Any], provider: str) -> Thought | None:
    """Reasoning that this very provider sealed; that of any other proves nothing to it and is left out."""
    seal = opened(item.get("encrypted_content"), provider=provider)
    if seal is None:
        return None
    return Thought("".join(part.get("text", "") for part in item.get("summary") or ()), seal)
