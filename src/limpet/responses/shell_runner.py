"""Who carries a response's shell calls out, as the operator's settings say. Values only: `shell_delegation` applies them to requests."""

from dataclasses import dataclass
from typing import Literal

ShellRunner = Literal["gateway", "client", "provider"]
BareTool = Literal["hosted", "local"]
ClientItem = Literal["shell_call", "function_call"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellDelegation:
    """What the operator says of it. `runner` carries out the calls of shells that are not the client's own; `bare_tool` says whose a shell
    tool without `environment` is; `client_item` is the form in which a call reaches a client whose model knows no shell tool;
    `apply_patch` says whether that tool is carried out beside a hosted shell, or left to the client."""

    runner: ShellRunner = "gateway"
    bare_tool: BareTool = "hosted"
    client_item: ClientItem = "shell_call"
    apply_patch: BareTool = "hosted"
