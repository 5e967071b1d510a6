"""What a shell call needs of the gateway."""

from collections.abc import Callable
from dataclasses import dataclass

from limpet.containers.manager import ContainerManager
from limpet.containers.settings import ShellLimits
from limpet.core.clock import Clock
from limpet.responses.metrics import Metrics
from limpet.store.executions import Executions


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellHost:
    """What a call needs of the gateway.

    `item_bytes` is what an item holds of one stream of one command. `keeps_commands` says that the gateway is closing: its boxes
    and their commands live on.
    """

    containers: ContainerManager
    executions: Executions
    clock: Clock
    limits: ShellLimits
    item_bytes: int
    metrics: Metrics
    streams_output: bool = True
    keeps_commands: Callable[[], bool] = lambda: False
