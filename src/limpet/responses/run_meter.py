"""What a run has used up until now, held against its budget; and what all runs of a tenant have used up together."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import anyio

from limpet.core.clock import MICROSECONDS, Clock
from limpet.core.errors import RequestError
from limpet.responses.budgets import LIMITS, Budget, BudgetStop, ScopedBudget, Spending, narrowed
from limpet.responses.checkpoint import Checkpoint
from limpet.responses.request import ParsedRequest
from limpet.responses.settings import BudgetLimits, BudgetSettings
from limpet.store.model_usage import ModelUsage, UsageCounts, UsageRecord
from limpet.store.responses import ResponseRecord
from limpet.upstreams.usage import Usage


class BudgetExhausted(RequestError):
    """A conversation, or a tenant, has used up what it may; as OpenAI says it of an account without credit."""

    status = 429
    type = "insufficient_quota"

    def __init__(self, reason: str, remedy: str) -> None:
        super().__init__(f"{reason} That is used up. {remedy}", code="insufficient_quota")


class RunMeter:
    """Of one run, from `begin` on. What is asked before that counts no time. `is_counted` once it is in its tenant's usage."""

    def __init__(self, budget: Budget | None = None) -> None:
        self._budget = budget or Budget()
        self._progress = Checkpoint()
        self._began: float | None = None
        self._before = 0.0
        self.is_counted = False

    def begin(self, progress: Checkpoint) -> None:
        """It is carried from now on, behind `progress`, which goes on changing."""
        self._progress, self._before = progress, progress.wall_secs
        self._began = anyio.current_time()

    def own(self) -> Spending:
        elapsed = 0.0 if self._began is None else anyio.current_time() - self._began
        usage = self._progress.usage
        return Spending(
            tokens=0 if usage is None else usage.total_tokens,
            turns=self._progress.turns + (self._progress.turn is not None),
            wall_secs=self._before + elapsed,
        )

    def write_down(self) -> None:
        """The time until now, in the checkpoint."""
        self._progress.wall_secs = self.own().wall_secs

    def exhausted(self) -> BudgetStop | None:
        return self._budget.exhausted(self.own())

    def last_turn(self) -> BudgetStop | None:
        """The limit for which the next turn must be the last."""
        return self._budget.last_turn(self.own(), self._progress.newest)

    def bounded(self, options: dict[str, Any]) -> tuple[dict[str, Any], BudgetStop | None]:
        """A turn's options with as many output tokens as are left, and the limit that says so where it is stricter than the client."""
        most = self._budget.output_tokens(self.own(), self._progress.newest)
        if most is None or most[0] >= (options.get("max_output_tokens") or most[0] + 1):
            return options, None
        return {**options, "max_output_tokens": most[0]}, most[1]

    def command_seconds(self, asked: float) -> float:
        """The time limit of a command: what was asked, and no more than leaves the model a last word."""
        left = self._budget.command_seconds(self.own())
        return asked if left is None else min(asked, max(left, 0.001))

    @contextmanager
    def time_limit(self) -> Iterator[list[BudgetStop]]:
        """Ends the block where the time is over; the list has the limit then."""
        reached: list[BudgetStop] = []
        bounded = self._budget.seconds(self.own())
        if bounded is None:
            yield reached
            return
        with anyio.move_on_after(max(0.0, bounded[0])) as scope:
            yield reached
        if scope.cancelled_caught:
            reached.append(bounded[1])


class Spendings:
    """Who has used up what: the usage of tenants in the store, with the runs of this process that have not ended."""

    def __init__(self, usage: ModelUsage, *, budgets: BudgetSettings, clock: Clock) -> None:
        self._usage = usage
        self._budgets = budgets
        self._clock = clock
        self._ended: dict[str, Spending] = {}
        self._running: dict[str, dict[str, RunMeter]] = {}

    @property
    def _bounds_tenants(self) -> bool:
        return _is_bounded(self._budgets.tenant)

    async def look(self, tenant: str) -> None:
        """Read again what a tenant has used up in this period. StoreFailed."""
        if self._bounds_tenants:
            since = _period_began(self._clock.now(), self._budgets.tenant.period)
            self._ended[tenant] = _spending(await self._usage.total(tenant, since=since))

    def budget(self, tenant: str, response_id: str, asked: ParsedRequest, *, conversation: Spending) -> Budget:
        """What holds for one response, whose conversation has used up that much. Raises BudgetExhausted where nothing is left."""
        given = asked.body.budget
        own = given.limits() if given is not None else None
        chain = given.conversation.limits() if given is not None and given.conversation is not None else None
        scopes = [
            ScopedBudget(scope="response", limits=narrowed(self._budgets.response, own)),
            ScopedBudget(
                scope="conversation",
                limits=narrowed(self._budgets.conversation, chain),
                before=lambda: conversation,
            ),
            ScopedBudget(
                scope="tenant", limits=self._budgets.tenant, before=lambda: self._of_others(tenant, response_id)
            ),
        ]
        budget = Budget([each for each in scopes if _is_bounded(each.limits)])
        if (stop := budget.exhausted(Spending())) is not None:
            raise BudgetExhausted(stop.sentence, _remedy(stop))
        return budget

    def begin(self, record: ResponseRecord, meter: RunMeter) -> None:
        if self._bounds_tenants:
            self._running.setdefault(record.tenant, {})[record.id] = meter

    async def end(self, record: ResponseRecord) -> None:
        """It is in the store now, or is not to be counted. StoreFailed."""
        try:
            await self.look(record.tenant)
        finally:
            self.drop(record)  # not before: so it counts by its meter or by the store, without a gap

    def drop(self, record: ResponseRecord) -> None:
        """This process carries it no more, however that came; its clock counts no longer."""
        running = self._running.get(record.tenant, {})
        running.pop(record.id, None)
        if not running:
            self._running.pop(record.tenant, None)

    def record(self, record: ResponseRecord, own: Spending, usage: Usage | None) -> UsageRecord:
        """What a response adds to its tenant's usage at its end."""
        return UsageRecord(
            tenant=record.tenant,
            model=record.model,
            at=self._clock.now(),
            counts=UsageCounts(
                responses=1,
                turns=own.turns,
                input_tokens=0 if usage is None else usage.input_tokens,
                cached_tokens=0 if usage is None else usage.input_tokens_details.cached_tokens,
                output_tokens=0 if usage is None else usage.output_tokens,
                wall_us=int(own.wall_secs * MICROSECONDS),
            ),
        )

    async def count_unstored(self, record: ResponseRecord, own: Spending, usage: Usage | None) -> None:
        """A response that has no row, or is deleted while it runs. StoreFailed."""
        await self._usage.count(self.record(record, own, usage))

    async def count_turn(self, tenant: str, model: str, usage: Usage) -> None:
        """A model turn that belongs to no response. StoreFailed."""
        counts = UsageCounts(
            responses=0,
            turns=1,
            input_tokens=usage.input_tokens,
            cached_tokens=usage.input_tokens_details.cached_tokens,
            output_tokens=usage.output_tokens,
            wall_us=0,
        )
        await self._usage.count(UsageRecord(tenant=tenant, model=model, at=self._clock.now(), counts=counts))

    def _of_others(self, tenant: str, response_id: str) -> Spending:
        total = self._ended.get(tenant, Spending())
        for id, meter in self._running.get(tenant, {}).items():
            if id != response_id:
                total += meter.own()
        return total


def _is_bounded(limits: BudgetLimits) -> bool:
    return any(getattr(limits, limit) is not None for limit in LIMITS)


def _spending(counts: UsageCounts) -> Spending:
    return Spending(
        tokens=counts.input_tokens + counts.output_tokens,
        turns=counts.turns,
        wall_secs=counts.wall_us / MICROSECONDS,
    )


def _period_began(now: int, period: str) -> int:
    """The first microsecond of this day or month, UTC."""
    today = datetime.fromtimestamp(now / MICROSECONDS, UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    first = today if period == "day" else today.replace(day=1)
    return int(first.timestamp()) * MICROSECONDS


def _remedy(stop: BudgetStop) -> str:
    if stop.scope == "tenant":
        return "Wait for the next period, or ask the operator for more."
    return "Start a new conversation with the items that matter."
