"""What a model sees of a workspace: tools, each a name, a description, a JSON schema and a call. Each is loaded on first use."""

from importlib import import_module  # noqa: TID251 - as in limpet/__init__: a name costs what is used of it
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from limpet.tools.bash import BashConfig as BashConfig
    from limpet.tools.bash import BashTool as BashTool
    from limpet.tools.bash import ShellConfig as ShellConfig
    from limpet.tools.bash import shell_config_from as shell_config_from
    from limpet.tools.events import ToolEvent as ToolEvent
    from limpet.tools.run import RunTool as RunTool
    from limpet.tools.shell_cmd.config import ShellCmdConfig as ShellCmdConfig
    from limpet.tools.shell_cmd.executions import Execution as Execution
    from limpet.tools.shell_cmd.executions import Executions as Executions
    from limpet.tools.shell_cmd.tool import ShellCmdTool as ShellCmdTool
    from limpet.tools.tool import Tool as Tool
    from limpet.tools.toolset import refuse_foreign as refuse_foreign
    from limpet.tools.toolset import tools_for as tools_for

_HOMES = {
    "limpet.tools.bash": ("BashConfig", "BashTool", "ShellConfig", "shell_config_from"),
    "limpet.tools.events": ("ToolEvent",),
    "limpet.tools.run": ("RunTool",),
    "limpet.tools.shell_cmd.config": ("ShellCmdConfig",),
    "limpet.tools.shell_cmd.executions": ("Execution", "Executions"),
    "limpet.tools.shell_cmd.tool": ("ShellCmdTool",),
    "limpet.tools.tool": ("Tool",),
    "limpet.tools.toolset": ("refuse_foreign", "tools_for"),
}
_MODULE_OF = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'limpet.tools' has no attribute {name!r}")
    return getattr(import_module(_MODULE_OF[name]), name)


def __dir__() -> list[str]:
    return sorted([*_MODULE_OF, *globals()])
