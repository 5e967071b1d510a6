"""The names under which a model sees a workspace's tools. The prefix is reserved for them."""

import re

from limpet.core.errors import ConfigInvalid

PREFIX = "workspace__"
_NAME = re.compile(r"[A-Za-z0-9_-]{1,48}")


def tool_name(workspace: str, operation: str) -> str:
    """The name of a workspace's tool, such as ``workspace__box__run`` (docs/library.md, "Tools for models")."""
    return f"{PREFIX}{workspace}__{operation}"


def refuse_reserved(name: str, *, where: str = "tools") -> None:
    """ConfigInvalid for the name of another tool that begins with the reserved prefix."""
    if name.startswith(PREFIX):
        raise ConfigInvalid(where, name, f"names that begin with {PREFIX} are those of workspaces; choose another.")


def refuse_unusable(name: str, *, where: str = "workspaces") -> None:
    """ConfigInvalid for what cannot name a workspace: tool names are made of it."""
    refuse_reserved(name, where=where)
    if _NAME.fullmatch(name) is None or "__" in name:
        raise ConfigInvalid(
            where, name, "use letters, digits, - and single _, 48 at most: the names of its tools are made of it."
        )
