"""The items of a request's input, checked. Kinds that the gateway does not read pass as they are, and unknown fields always do."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictInt, StrictStr, TypeAdapter

from limpet.core.errors import RequestInvalid
from limpet.responses.validation import validated

Json = dict[str, Any]
MAX_SEALED_CHARACTERS = 20_971_520  # of a compaction
MAX_CHARACTERS = 10 * 1024 * 1024  # of an input text, and of each stream of a command's output

Id = Annotated[StrictStr, Field(min_length=1)]
CallId = Annotated[StrictStr, Field(min_length=1, max_length=64)]
Status = Literal["in_progress", "completed", "incomplete"]
Output = Annotated[StrictStr, Field(max_length=MAX_CHARACTERS)]


class _OpenModel(BaseModel):
    model_config = ConfigDict(extra="allow")


class _Local(_OpenModel):
    type: Literal["local"]


class _Container(_OpenModel):
    type: Literal["container_reference"]
    container_id: Id


class _Exit(_OpenModel):
    type: Literal["exit"]
    exit_code: StrictInt


class _Timeout(_OpenModel):
    type: Literal["timeout"]


class _Entry(_OpenModel):
    stdout: Output
    stderr: Output
    outcome: Annotated[_Exit | _Timeout, Field(discriminator="type")]


class _Action(_OpenModel):
    commands: list[StrictStr]
    timeout_ms: Annotated[StrictInt, Field(ge=1)] | None = None
    max_output_length: Annotated[StrictInt, Field(ge=0)] | None = None


class _Part(_OpenModel):
    """Of any type: a provider may know more of them than the gateway."""

    type: Id


class _TextPart(_OpenModel):
    text: StrictStr


class _FilePart(_OpenModel):
    file_id: Id | None = None
    file_url: StrictStr | None = None
    file_data: StrictStr | None = None
    filename: StrictStr | None = None


class _ImagePart(_OpenModel):
    file_id: Id | None = None
    image_url: StrictStr | None = None
    detail: Literal["low", "high", "auto", "original"] | None = None


class _AnyItem(_OpenModel):
    """What holds for items of every kind."""

    id: StrictStr | None = None
    call_id: CallId | None = None
    status: StrictStr | None = None


class _Known(_AnyItem):
    """What holds for the kinds that the gateway reads."""

    status: Status | None = None


class _FunctionCall(_Known):
    call_id: CallId
    name: Annotated[StrictStr, Field(min_length=1)]
    arguments: StrictStr
    namespace: StrictStr | None = None


class _FunctionOutput(_Known):
    call_id: CallId
    output: StrictStr | list[_Part]


class _CustomCallItem(_AnyItem):
    call_id: CallId
    name: Annotated[StrictStr, Field(min_length=1)]
    input: StrictStr
    namespace: StrictStr | None = None


class _CustomOutput(_AnyItem):
    call_id: CallId
    output: StrictStr | list[_Part]


class _ShellCall(_Known):
    call_id: CallId
    action: _Action
    environment: Annotated[_Local | _Container, Field(discriminator="type")] | None = None


class _ShellOutput(_Known):
    call_id: CallId
    output: list[_Entry]
    max_output_length: StrictInt | None = None


class _Patch(_OpenModel):
    """What an apply_patch call asks for; `delete_file` has no diff."""

    type: Literal["create_file", "update_file", "delete_file"]
    path: StrictStr
    diff: Output | None = None


class _PatchCall(_Known):
    call_id: CallId
    operation: _Patch


class _PatchOutput(_AnyItem):
    call_id: CallId
    status: Literal["completed", "failed"]
    output: Output | None = None


class _Reference(_Known):
    id: Id


class _Message(_Known):
    role: Literal["user", "assistant", "system", "developer"]
    content: StrictStr | list[_Part]


class _Compaction(_AnyItem):
    encrypted_content: Annotated[StrictStr, Field(max_length=MAX_SEALED_CHARACTERS)]


_ANY: TypeAdapter[_AnyItem] = TypeAdapter(_AnyItem)
# The kinds of items that the gateway reads.
KINDS: Mapping[str, type[BaseModel]] = {
    "message": _Message,
    "function_call": _FunctionCall,
    "function_call_output": _FunctionOutput,
    "custom_tool_call": _CustomCallItem,
    "custom_tool_call_output": _CustomOutput,
    "shell_call": _ShellCall,
    "shell_call_output": _ShellOutput,
    "apply_patch_call": _PatchCall,
    "apply_patch_call_output": _PatchOutput,
    "item_reference": _Reference,
    "compaction": _Compaction,
}
_ADAPTERS: Mapping[str, TypeAdapter[Any]] = {kind: TypeAdapter(model) for kind, model in KINDS.items()}
_TEXT: TypeAdapter[_TextPart] = TypeAdapter(_TextPart)
_FILE: TypeAdapter[_FilePart] = TypeAdapter(_FilePart)
_IMAGE: TypeAdapter[_ImagePart] = TypeAdapter(_ImagePart)
_SOURCES = ("file_id", "file_url", "file_data")
_TEXTS = frozenset({"input_text", "output_text"})


def input_items(given: str | list[Json], *, place: str = "input") -> list[Json]:
    """The input as a list of items, each with its `type`. Raises RequestInvalid with the place of the item in the field `place`."""
    if isinstance(given, str):
        if len(given) > MAX_CHARACTERS:
            raise RequestInvalid(
                f"`input` has {len(given)} characters; the limit is {MAX_CHARACTERS}.",
                param="input",
                code="string_above_max_length",
            )
        return [{"type": "message", "role": "user", "content": given}]
    return [_item(item, f"{place}[{position}]") for position, item in enumerate(given)]


def _item(item: Json, place: str) -> Json:
    kind = item.get("type")
    if kind is None:
        # Where only one kind can be meant, its name may be left out.
        kind = "message" if "role" in item else "item_reference" if item.keys() - {"type"} == {"id"} else None
    if not isinstance(kind, str) or not kind:
        raise RequestInvalid("Every input item needs a `type`, or a `role` and `content`.", param=f"{place}.type")
    validated(_ADAPTERS.get(kind, _ANY), item, at=place)
    if kind == "message":
        _parts(item["content"], f"{place}.content")
    if kind in ("function_call_output", "custom_tool_call_output"):
        _parts(item["output"], f"{place}.output")
    return {**item, "type": kind}


def _parts(content: str | list[Json], place: str) -> None:
    if isinstance(content, list):
        for position, part in enumerate(content):
            if part["type"] in _TEXTS:
                validated(_TEXT, part, at=f"{place}[{position}]")
            if part["type"] == "input_file":
                _file(part, f"{place}[{position}]")
            if part["type"] == "input_image":
                _image(part, f"{place}[{position}]")


def _file(part: Json, place: str) -> None:
    validated(_FILE, part, at=place)
    given = [source for source in _SOURCES if part.get(source) is not None]
    if len(given) != 1:
        raise RequestInvalid(
            f"{place} names {' and '.join(given) or 'no file'}: give one of {', '.join(_SOURCES)}.",
            param=place,
            code="invalid_input_file",
        )


def _image(part: Json, place: str) -> None:
    validated(_IMAGE, part, at=place)
    url = part.get("image_url")
    if (url is None) == (part.get("file_id") is None):
        raise RequestInvalid(
            f"{place} names {'no image' if url is None else 'two'}: give image_url or file_id.",
            param=place,
            code="invalid_image",
        )
    if url is not None and not url.lower().startswith(("https://", "http://", "data:image/")):
        raise RequestInvalid(
            f"{place}.image_url must be an http(s) URL or a data URL of an image.",
            param=f"{place}.image_url",
            code="invalid_image_url",
        )
