"""`POST /v1/responses/compact`: a conversation comes back as its user messages and one compaction that holds the rest.

Nothing is stored.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Literal

import anyio
from anyio import to_thread

from limpet.core import ids
from limpet.core.clock import Clock, seconds
from limpet.core.errors import RequestInvalid, UpstreamRefused
from limpet.core.resources import Moment, Resource
from limpet.responses.budgets import Spending
from limpet.responses.compaction.compacted import CompactedContext, CompactionTooLarge, digests
from limpet.responses.compaction.compactor import replaced
from limpet.responses.compaction.plan import is_user_message, planned
from limpet.responses.context_compaction import ContextCompaction
from limpet.responses.placement import traces_of
from limpet.responses.prepare import Preparer
from limpet.responses.request import ParsedRequest, parse
from limpet.responses.resource import OutputItem
from limpet.responses.run_queue import RunQueue
from limpet.store.responses import Responses
from limpet.upstreams.routing import ChosenRoute
from limpet.upstreams.upstream import Turn, Upstream
from limpet.upstreams.usage import Usage

Json = dict[str, Any]
NOTHING = Usage.counted(given=0, answered=0)
# What a provider answers with that does not know the address; the gateway compacts then.
UNKNOWN = frozenset({404, 405, 501})


class CompactedConversation(Resource, frozen=True, kw_only=True):
    """`output` is to be sent as the next request's input, before what is new. `usage` is that of the compaction itself."""

    object: Literal["response.compaction"] = "response.compaction"
    created_at: Moment
    output: list[OutputItem]
    usage: Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactEndpoint:
    """Knows how a request becomes a turn, and how conversations are compacted."""

    preparer: Preparer
    queue: RunQueue
    responses: Responses
    clock: Clock

    @property
    def _context(self) -> ContextCompaction:
        return self.preparer.context

    async def compact(self, tenant: str, body: object) -> CompactedConversation:
        """The conversation of the request: its input, with all that it goes on from. The provider compacts it where it can, else the
        gateway does. It waits its turn among the tenant's runs, and what it costs is counted in the tenant's usage, also where nothing
        comes of it. Raises RequestError, UpstreamRefused."""
        if not isinstance(body, dict):
            raise RequestInvalid('The body must be a JSON object such as {"model": "limpet/script", "input": "…"}.')
        asked = parse({**body, "input": body.get("input") or []})
        asked = replace(asked, input=[item for item in asked.input if item["type"] != "compaction_trigger"])
        ticket = self.queue.enter(tenant, asked.rank)
        try:
            await ticket.admitted.wait()
            return await self._of_request(tenant, asked)
        finally:
            self.queue.leave(ticket)

    async def _of_request(self, tenant: str, asked: ParsedRequest) -> CompactedConversation:
        upstream, turn = await self.preparer.first_turn(tenant, asked)
        if not turn.input:
            raise RequestInvalid(
                "There is nothing to compact: give `input` or `previous_response_id`.",
                param="input",
                code="invalid_value",
            )
        await self.preparer.spendings.look(tenant)
        self.preparer.spendings.budget(tenant, "", asked, conversation=Spending())
        return await self._compacted(tenant, asked, upstream, turn)

    async def _count(self, tenant: str, asked: ParsedRequest, usage: Usage | None) -> None:
        if usage is not None and usage.total_tokens:
            with anyio.CancelScope(shield=True):
                await self.preparer.spendings.count_turn(tenant, asked.body.model, usage)

    async def _compacted(
        self, tenant: str, asked: ParsedRequest, upstream: Upstream, turn: Turn
    ) -> CompactedConversation:
        container_id = await self._container(tenant, asked, turn)
        if upstream.compaction is not None:
            try:
                answer = await upstream.compaction.compact(turn)
            except UpstreamRefused as refused:
                if refused.status not in UNKNOWN:
                    raise
            else:
                await self._count(tenant, asked, Usage.read(answer.get("usage")))
                return self._by_provider(answer, container_id)
        return await self._by_gateway(tenant, asked, upstream, turn, container_id)

    def _by_provider(self, answer: Json, container_id: str | None) -> CompactedConversation:
        output = [
            {**item, "container_id": container_id} if item["type"] == "compaction" and container_id else item
            for item in answer["output"]
        ]
        return self._made(output, Usage.read(answer.get("usage")))

    async def _by_gateway(
        self, tenant: str, asked: ParsedRequest, upstream: Upstream, turn: Turn, container_id: str | None
    ) -> CompactedConversation:
        """The user's messages stay as they are, beside the compaction and not in it."""
        transcript = [dict(item) for item in turn.input]
        rest = [item for item in transcript if not is_user_message(item)]
        order = self._context.order(asked)
        plan = planned(rest, recent=order.recent, excess=None)
        items, usage = rest, None
        if plan is not None:
            gone = {id(item) for item in plan.of(rest)}
            made = await replaced(
                rest,
                plan,
                order=order,
                summariser=self._context.summariser(ChosenRoute(upstream, turn.model), asked),
                facts=await self._context.facts(tenant, container_id),
                attempt_id=ids.new_id(ids.COMPACTION),
                summarised=[item for item in transcript if id(item) in gone or is_user_message(item)],
            )
            items, usage = made.items, made.summary.usage
            await self._count(tenant, asked, usage)
        sealer = self._context.sealer_of(tenant)
        try:
            sealed = await to_thread.run_sync(lambda: sealer.seal(CompactedContext(items=items, covered=digests(rest))))
        except CompactionTooLarge as problem:
            raise RequestInvalid(problem.message, param="input", code="invalid_value") from problem
        compaction = {"id": ids.new_id(ids.COMPACTION), "type": "compaction", "encrypted_content": sealed}
        if container_id is not None:
            compaction["container_id"] = container_id
        return self._made([*map(_shown, filter(is_user_message, transcript)), compaction], usage)

    def _made(self, output: list[Json], usage: Usage | None) -> CompactedConversation:
        return CompactedConversation(
            id=ids.new_id(ids.RESPONSE),
            created_at=seconds(self.clock.now()),
            output=output,
            usage=usage or NOTHING,
        )

    async def _container(self, tenant: str, asked: ParsedRequest, turn: Turn) -> str | None:
        """The one that the conversation used last."""
        for trace in islice(traces_of([*map(dict, turn.input), *asked.input], {}), 1):
            return trace.container_id
        previous = asked.body.previous_response_id
        record = None if previous is None else await self.responses.get(tenant, previous)
        return None if record is None else record.container_id


def _shown(item: Json) -> Json:
    """A message of the user as an output item."""
    content = item["content"]
    parts: Sequence[Any] = [{"type": "input_text", "text": content}] if isinstance(content, str) else content
    return {"status": "completed", **item, "id": item.get("id") or ids.new_id(ids.MESSAGE), "content": parts}
