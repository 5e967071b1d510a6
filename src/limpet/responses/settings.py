"""What an operator may choose about how far a response may go. Values only."""

from dataclasses import dataclass, field
from typing import Annotated, Literal

from limpet.containers.settings import ShellLimits
from limpet.core.settings import Between, LeftOut, Positive, Seconds
from limpet.responses.compaction_settings import CompactionSettings

WhenUnsupported = Literal["drop", "refuse"]
NO_DBOS = "its fence does not stand in the transaction of a run's events (docs/decisions/dbos.md)"


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    """`[engine]`: what executes responses (`core/engine.py`)."""

    type: Annotated[Literal["lease"], LeftOut("dbos", NO_DBOS)] = "lease"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerToolSettings:
    """`[features.server_tools]`. `max_iterations` bounds the model turns of one response; `unsupported` says what becomes of hosted
    tools that a provider cannot run."""

    max_iterations: Positive = 50
    unsupported: WhenUnsupported = "drop"
    shell_limits: ShellLimits = field(default_factory=ShellLimits)


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetLimits:
    """What may be used up; None is no limit. `max_tokens` counts the input and output of all model turns."""

    max_tokens: Positive | None = None
    max_turns: Positive | None = None
    max_wall_secs: Seconds | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantBudget(BudgetLimits):
    """Of all responses of a tenant within a calendar day or month, UTC."""

    period: Literal["day", "month"] = "month"


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetSettings:
    """`[features.responses.budgets]`: of each response, of each conversation (a chain of responses), of each tenant."""

    response: BudgetLimits = field(default_factory=BudgetLimits)
    conversation: BudgetLimits = field(default_factory=BudgetLimits)
    tenant: TenantBudget = field(default_factory=TenantBudget)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseSettings:
    """`[features.responses]`. `leave_grace_secs`: so long a stored foreground response goes on without a reader. `retention_days`: so long
    one is kept after its end. `max_running` bounds what one gateway carries at once, of all and of each tenant; others wait, so many of
    each tenant. `takeover_secs`: after such a silence of a gateway another one on the same database goes on with its responses."""

    leave_grace_secs: Annotated[float, Between(0, 86_400)] = 30.0
    takeover_secs: Annotated[float, Between(1, 3600)] = 12.0
    retention_days: Annotated[float, Between(0.01, 36_500)] | None = None
    max_running: Positive | None = None
    max_running_per_tenant: Positive | None = None
    max_queued_per_tenant: Positive = 1000
    budgets: BudgetSettings = field(default_factory=BudgetSettings)
    compaction: CompactionSettings = field(default_factory=CompactionSettings)
