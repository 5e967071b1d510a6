"""What a shell call needs of the gateway."""

from collections.abc import Callable
from dataclasses import dataclass, field

from anyio import CapacityLimiter

from limpet.containers.manager import ContainerManager
from limpet.containers.settings import ShellLimits
from limpet.core.clock import Clock
from limpet.responses.metrics import Metrics
from limpet.responses.run_meter import RunMeter
from limpet.store.executions import Executions


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellHost:
    """What a call needs of the gateway.

    `item_bytes` is what an item holds of one stream of one command. `keeps_commands` says that the gateway is closing: its boxes
    and their commands live on. `meter` is the run's. `patch_threads` bounds the threads in which diffs are applied.
    """

    containers: ContainerManager
    executions: Executions
    clock: Clock
    limits: ShellLimits
    item_bytes: int
    metrics: Metrics
    patch_threads: CapacityLimiter
    streams_output: bool = True
    keeps_commands: Callable[[], bool] = lambda: False
    meter: RunMeter = field(default_factory=RunMeter)

    def command_seconds(self, asked_ms: int | None) -> float:
        """How long a command may run, of which its call says that many milliseconds, or nothing."""
        cap = float(self.limits.command_timeout_secs)
        asked = min(cap, asked_ms / 1000) if asked_ms is not None and asked_ms > 0 else cap
        return self.meter.command_seconds(asked)
