"""The tool `Bash` (docs/bash-tool.md): a shell for a model, with background tasks and a working directory that stays."""

from limpet.tools.bash.config import BashConfig, ShellConfig, shell_config_from
from limpet.tools.bash.tool import BashTool

__all__ = ["BashConfig", "BashTool", "ShellConfig", "shell_config_from"]
