"""The output items of `apply_patch` calls that the gateway carries out."""

from typing import Annotated, Literal

from msgspec import UNSET, UnsetType

from limpet.core.resources import EXTENSION, WireObject
from limpet.responses.shell_items import OutputFile


class PatchCallOutputItem(WireObject, frozen=True, kw_only=True):
    """`output` is a sentence; of a failed call it says why. The keys of files are on an item that is done, as on a shell's output."""

    id: str
    type: Literal["apply_patch_call_output"] = "apply_patch_call_output"
    call_id: str
    status: Literal["completed", "failed"]
    output: str
    output_files: Annotated[list[OutputFile] | UnsetType, EXTENSION] = UNSET
    output_files_omitted: Annotated[int | UnsetType, EXTENSION] = UNSET
