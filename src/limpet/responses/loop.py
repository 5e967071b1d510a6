"""The agent loop: ask the model, carry out its shell calls, ask again, until it has answered or a client must act.

It yields nothing and knows no HTTP: everything that happens goes to the run's writer, in order.
"""

from collections import deque
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from limpet.core import events as ev
from limpet.responses.budgets import BudgetStop
from limpet.responses.checkpoint import Checkpoint, EndedTurn, packed, packed_calls, unpacked, unpacked_calls
from limpet.responses.compaction.compactor import Compactor, has_compacted
from limpet.responses.compaction.provided import ProvidedCompaction, provided
from limpet.responses.earlier_attempt import EarlierAttempt, RepeatedItem
from limpet.responses.history import as_input
from limpet.responses.hosted_calls import HostedCalls
from limpet.responses.made_calls import CLIENTS_CALLS, PATCH_CALL, HostedCall, PatchMade
from limpet.responses.provider_shell import ProviderShell
from limpet.responses.run_meter import RunMeter
from limpet.responses.steering import Steering
from limpet.responses.turn_boundary import TurnBoundary
from limpet.responses.turn_forwarder import TurnForwarder
from limpet.responses.writer import Writer
from limpet.upstreams.endings import IncompleteReason, ResponseError
from limpet.upstreams.patch_function import is_patch_tool
from limpet.upstreams.provider_fields import shown_fields
from limpet.upstreams.upstream import (
    CallBegun,
    CallMade,
    CommandText,
    Emit,
    ShellOffer,
    Turn,
    TurnEnded,
    TurnEvent,
    Upstream,
)
from limpet.upstreams.usage import Usage

Json = dict[str, Any]
NO_REASON = ResponseError(code="server_error", message="The provider gave no reason.")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopBounds:
    """How far a run may go. `turns` are model turns; in the last one no shell is offered, so that the model answers. `calls` are
    shell calls in all (`max_tool_calls`; None: no bound). `model_characters` is what the model gets back of a command's output."""

    turns: int
    calls: int | None
    model_characters: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How a run ended by itself. `reason` stands with incomplete, with `budget` where that was reached; `error` with failed."""

    status: str
    reason: IncompleteReason | None = None
    error: ResponseError | None = None
    budget: BudgetStop | None = None


@dataclass(slots=True, kw_only=True)
class Run:
    """One response on its way. `calls` is None where the client carries the shell calls out itself, or the provider its own, or there is
    no shell; `provider_shell` is None where no provider runs shells;
    `streams_shell` lets the shell's deltas out; a run that `is_prewarm` asks no model."""

    upstream: Upstream
    model: str
    instructions: str | None
    transcript: list[Json]
    tools: Sequence[Json]
    options: Json
    shell: ShellOffer | None
    provider_shell: ProviderShell | None
    environment: Json
    calls: HostedCalls | None
    bounds: LoopBounds
    writer: Writer
    response_id: str
    streams_shell: bool = True
    is_prewarm: bool = False
    progress: Checkpoint = field(default_factory=Checkpoint)
    earlier: EarlierAttempt | None = None
    compactor: Compactor | None = None
    calls_made: int = 0
    steering: Steering = field(default_factory=Steering)
    meter: RunMeter = field(default_factory=RunMeter)

    @property
    def usage(self) -> Usage | None:
        return self.progress.usage

    @property
    def hosts_patches(self) -> bool:
        """Whether calls of `apply_patch` are carried out here."""
        return self.calls is not None and self.calls.patches is not None

    @property
    def clients_calls(self) -> frozenset[str]:
        """The types of calls that only the client can answer."""
        return CLIENTS_CALLS - {PATCH_CALL} if self.hosts_patches else CLIENTS_CALLS


async def converse(run: Run) -> Ending:
    """Carry a run to its end, from where its `progress` says. Raises UpstreamError where a provider failed; everything told until then is
    in the writer."""
    if run.is_prewarm:
        return Ending(status="completed")
    run.meter.begin(run.progress)
    ending = Ending(status="completed")
    with run.meter.time_limit() as reached:
        ending = await _take_turns(run)
    return _stopped(reached[0]) if reached else ending


def _stopped(stop: BudgetStop) -> Ending:
    return Ending(status="incomplete", reason="budget_reached", budget=stop)


async def _take_turns(run: Run) -> Ending:
    while run.progress.turns < run.bounds.turns:
        if run.progress.turn is None:
            if (stop := run.meter.exhausted()) is not None:
                return _stopped(stop)
            run.progress.stop = run.meter.last_turn()
        if await _is_only_compacted(run):
            break
        turn = await _take_turn(run)
        if turn.ended.status == "failed":
            return Ending(status="failed", error=turn.ended.error or NO_REASON)
        if turn.ended.status == "incomplete":
            if turn.ended.incomplete_reason == "max_output_tokens" and turn.bound is not None:
                return _stopped(turn.bound)
            return Ending(status="incomplete", reason=turn.ended.incomplete_reason)
        if turn.is_cut:
            return Ending(status="incomplete", reason="steered")
        if not turn.calls and run.progress.stop is not None and run.progress.turns > 1:
            return _stopped(run.progress.stop)  # the model was cut short, and was told so
        if not turn.calls or _client_must_act(run, turn.items):
            break
        if run.steering.is_wanted:
            return Ending(status="incomplete", reason="steered")
        if run.options.get("tool_choice") not in (None, "auto", "none"):
            # A forced choice was followed; forcing it again would never let the model answer.
            run.options = {**run.options, "tool_choice": "auto"}
    return Ending(status="completed")


async def _is_only_compacted(run: Run) -> bool:
    """Compact the conversation where its time has come: between two turns, when each call has its output. True where no more was asked."""
    if run.compactor is None or run.progress.turn is not None:
        return False
    if not run.compactor.order.is_triggered:
        run.transcript = await run.compactor.fit(run.transcript, run.progress, run.writer)
        return False
    if not has_compacted(run.writer):
        provided_one = ProvidedCompaction()
        if run.upstream.compaction is not None:
            provided_one = await provided(run.upstream, _turn(run, run.options, offers_shell=_offers_shell(run, 0)))
        await run.compactor.make(run.transcript, run.progress, run.writer, provided_one)
    return True


def _client_must_act(run: Run, items: Sequence[Json]) -> bool:
    """A call that only the client can carry out ends the turn and goes to it."""
    return run.calls is None or any(item.get("type") in run.clients_calls for item in items)


def _offers_shell(run: Run, number: int) -> bool:
    """Not in the last turn that is left, nor when the calls are used up: the model must answer with what it has."""
    if run.shell is None or run.calls is None:
        return run.shell is not None
    if run.progress.stop is not None:
        return False
    return number < run.bounds.turns - 1 and _may_call(run)


def _may_call(run: Run) -> bool:
    return run.bounds.calls is None or run.calls_made < run.bounds.calls


@dataclass(slots=True, kw_only=True)
class _TurnResult:
    """One model turn: what was passed on of it, its calls, and how it ended. `admitted`: for each call, by its index in the turn,
    whether it was within the bounds when it began. One that `is_cut` was left between two items, for the client's steering. `bound` is
    the budget by which its output was bounded."""

    passing: TurnForwarder
    offers_shell: bool
    admitted: dict[int, bool] = field(default_factory=dict)
    calls: list[HostedCall] = field(default_factory=list)
    waiting: deque[TurnEvent] = field(default_factory=deque)
    ended: TurnEnded = field(default_factory=lambda: TurnEnded(status="failed"))
    is_cut: bool = False
    bound: BudgetStop | None = None

    @property
    def items(self) -> list[Json]:
        return self.passing.items

    def ended_turn(self, writer: Writer) -> EndedTurn:
        """What is known of it now, at its end, for another carrier of the run."""
        return EndedTurn(
            seq=writer.next_seq,
            step=writer.step,
            offers_shell=self.offers_shell,
            admitted=self.admitted,
            calls=packed_calls(self.calls),
            waiting=packed(self.waiting),
            held=packed(self.passing.held),
            places=self.passing.places,
            status=self.ended.status,
            incomplete_reason=self.ended.incomplete_reason,
            error=self.ended.error,
            bound=self.bound,
        )


async def _take_turn(run: Run) -> _TurnResult:
    """One model turn and the shell calls made in it.

    The turn is read to its end before a call is carried out: what comes after a call waits, so that items are told in order.
    """
    taken = await _asked(run) if run.progress.turn is None else _ended_before(run, run.progress.turn)
    kept = await _answer_calls(run, taken) if taken.ended.status == "completed" else 0
    while taken.waiting:
        await _pass(run, taken, taken.waiting.popleft())
    if not taken.calls and run.calls is not None:
        await run.calls.settle()
    cited = run.calls.files.values() if run.calls is not None and not taken.calls else ()
    await taken.passing.release(cited)
    run.transcript.extend(taken.items[kept:])
    run.writer.step += 1
    run.progress.turns += 1
    run.progress.next, run.progress.turn = run.writer.snapshot.next_index, None
    run.progress.step, run.progress.calls_made = run.writer.step, run.calls_made
    if taken.calls:
        run.meter.write_down()
        await run.writer.keep(run.progress.encoded())
    return taken


async def _asked(run: Run) -> _TurnResult:
    """A turn of the provider, read to its end, and a checkpoint there."""
    offers_shell = _offers_shell(run, run.progress.turns)
    passing = TurnForwarder(run.writer, run.environment, provider=run.upstream.name, streams_commands=run.streams_shell)
    options, bound = run.meter.bounded(run.options)
    taken = _TurnResult(passing=passing, offers_shell=offers_shell, bound=bound)
    boundary = TurnBoundary(run.clients_calls, has_own_shell=run.calls is not None)
    async with aclosing(run.upstream.stream(_turn(run, options, offers_shell=offers_shell))) as events:
        async for event in events:
            if boundary.is_before(event) and run.steering.is_wanted:
                taken.is_cut, taken.ended = True, TurnEnded(status="completed")
                break
            for news in run.earlier.take(event) if run.earlier is not None else (event,):
                await _receive(run, taken, news)
    if run.earlier is not None:
        run.progress.skipped += run.earlier.given_up
        run.earlier = None
    run.progress.context.measure(taken.ended.usage, len(run.transcript))
    if (usage := taken.ended.usage) is not None:
        run.progress.newest = usage
        run.progress.usage = usage if run.progress.usage is None else run.progress.usage + usage
    run.progress.shown = shown_fields(run.progress.shown, taken.ended.response)
    run.progress.calls_made = run.calls_made
    if taken.is_cut and not taken.calls:
        return taken  # the run ends with it; a process that takes it up before that knows no steering, and asks again
    run.progress.turn = taken.ended_turn(run.writer)
    run.meter.write_down()
    await run.writer.keep(run.progress.encoded())
    return taken


async def _receive(run: Run, taken: _TurnResult, event: TurnEvent | RepeatedItem) -> None:
    if isinstance(event, TurnEnded):
        taken.ended = event
    elif isinstance(event, RepeatedItem):
        taken.passing.adopt(event.index, event.place, event.item)
        call = event.call or (PatchMade(event.index, event.item) if _is_own_patch(run, event.item) else None)
        if call is not None and _admits(run, taken, event.index):
            taken.calls.append(call)
    elif taken.calls and run.calls is not None:
        taken.waiting.append(event)
    else:
        await _pass(run, taken, event)


def _ended_before(run: Run, turn: EndedTurn) -> _TurnResult:
    """A turn that an earlier carrier of the run has read to its end."""
    passing = TurnForwarder(
        run.writer,
        run.environment,
        provider=run.upstream.name,
        streams_commands=run.streams_shell,
        places=turn.places,
        held=[event for event in unpacked(turn.held) if isinstance(event, Emit)],
    )
    for place in sorted(turn.places.values()):
        if place not in run.writer.snapshot.unfinished():
            passing.items.append(as_input(run.writer.snapshot.item(place), run.bounds.model_characters))
    return _TurnResult(
        passing=passing,
        offers_shell=turn.offers_shell,
        admitted=dict(turn.admitted),
        calls=unpacked_calls(turn.calls),
        waiting=deque(unpacked(turn.waiting)),
        ended=TurnEnded(status=turn.status, incomplete_reason=turn.incomplete_reason, error=turn.error),
        bound=turn.bound,
    )


def _turn(run: Run, options: Json, *, offers_shell: bool) -> Turn:
    return Turn(
        model=run.model,
        input=list(run.transcript),
        instructions=_instructions(run, offers_shell),
        tools=run.tools if offers_shell or not run.hosts_patches else [t for t in run.tools if not is_patch_tool(t)],
        shell=run.shell if offers_shell else None,
        provider_shell=None if run.provider_shell is None else run.provider_shell.tool,
        options=options,
        attempt_id=f"{run.response_id}.{run.writer.step}",
    )


def _instructions(run: Run, offers_shell: bool) -> str | None:
    """A model's own shell tool has no place for a description of ours: its instructions end with it. The client's shell is not ours."""
    said = [run.instructions] if run.instructions is not None else []
    if run.shell is not None and run.calls is not None and offers_shell and run.upstream.has_native_shell:
        said.append(f"About the shell tool: {run.shell.description}")
    if run.progress.stop is not None:
        said.append(f"Note: {run.progress.stop.note}")
    return "\n\n".join(said) if said else None


async def _answer_calls(run: Run, taken: _TurnResult) -> int:
    """Carry out each call in order; between two calls pass on what came between them. Returns how many items are in the transcript."""
    kept = answered = 0
    while run.calls is not None and answered < len(taken.calls):
        run.transcript.extend(taken.items[kept:])
        kept = len(taken.items)
        run.writer.step += 1
        item = await run.calls.answer(taken.calls[answered])
        run.transcript.append(as_input(item, run.bounds.model_characters))
        answered += 1
        while taken.waiting and answered == len(taken.calls):
            await _pass(run, taken, taken.waiting.popleft())
    return kept


async def _pass(run: Run, taken: _TurnResult, event: TurnEvent) -> None:
    """Pass an event on, unless it belongs to a call beyond the bounds: such calls are neither run nor shown."""
    if isinstance(event, (CallBegun, CommandText, CallMade)) and not _admits(run, taken, event.index):
        return
    if isinstance(event, CallMade):
        taken.calls.append(event)
    if isinstance(event, Emit) and run.hosts_patches and not _admits_patch(run, taken, event):
        return
    if run.provider_shell is not None and isinstance(event, Emit) and event.type == ev.ITEM_DONE:
        await run.provider_shell.note(event.data.get("item"))
    await taken.passing.take(event)


def _admits_patch(run: Run, taken: _TurnResult, event: Emit) -> bool:
    """The same for an event of any item: those of `apply_patch` calls are calls; one that is done is carried out."""
    item, index = event.data.get("item"), event.data.get("output_index")
    if not isinstance(index, int) or not (_is_own_patch(run, item) or index in taken.admitted):
        return True
    is_admitted = _admits(run, taken, index)
    is_made = event.type == ev.ITEM_DONE and isinstance(item, dict) and item.get("status") == "completed"
    if is_admitted and is_made:
        taken.calls.append(PatchMade(index, event.data["item"]))
    return is_admitted


def _is_own_patch(run: Run, item: Any) -> bool:
    return run.hosts_patches and isinstance(item, dict) and item.get("type") == PATCH_CALL


def _admits(run: Run, taken: _TurnResult, index: int) -> bool:
    """Whether the call at that place of the turn is within the bounds; decided once, when it begins."""
    if index not in taken.admitted:
        taken.admitted[index] = taken.offers_shell and _may_call(run)
        run.calls_made += taken.admitted[index]
    return taken.admitted[index]
