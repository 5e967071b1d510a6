"""`/v1/usage`: what the caller's tenant has used up, in the shape of OpenAI's organization usage of completions."""

from collections.abc import Sequence
from typing import Annotated, Literal

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from limpet.core.clock import MICROSECONDS, Clock, seconds
from limpet.core.resources import EXTENSION, Count, Moment, WireObject
from limpet.server.answers import json_answer
from limpet.server.bodies import one_of, whole_number
from limpet.server.callers import tenant_of
from limpet.store.model_usage import ModelUsage, UsageCounts, UsageRecord

HOUR, DAY = 3600, 86_400
WIDTHS = {"1h": HOUR, "1d": DAY}
MOST_BUCKETS = {"1h": 168, "1d": 31}
USUAL_BUCKETS = {"1h": 24, "1d": 7}
LATEST = 1 << 40  # seconds since 1970: beyond every clock


class UsageResult(WireObject, frozen=True, kw_only=True):
    """`model` is null unless the results are grouped by it; what OpenAI counts and this gateway does not is 0 or null."""

    object: Literal["organization.usage.completions.result"] = "organization.usage.completions.result"
    input_tokens: Count
    input_cached_tokens: Count
    output_tokens: Count
    input_audio_tokens: Count = 0
    output_audio_tokens: Count = 0
    num_model_requests: Count
    project_id: str | None = None
    user_id: str | None = None
    api_key_id: str | None = None
    model: str | None = None
    batch: bool | None = None
    service_tier: str | None = None
    num_responses: Annotated[Count, EXTENSION]
    wall_seconds: Annotated[float, EXTENSION]


class UsageBucket(WireObject, frozen=True, kw_only=True):
    object: Literal["bucket"] = "bucket"
    start_time: Moment
    end_time: Moment
    results: Sequence[UsageResult]


class UsagePage(WireObject, frozen=True, kw_only=True):
    """`next_page` is the `page` of the next ones."""

    object: Literal["page"] = "page"
    data: Sequence[UsageBucket]
    has_more: bool
    next_page: str | None


def routes(usage: ModelUsage, clock: Clock) -> list[Route]:
    async def read(request: Request) -> Response:
        width = one_of(request, "bucket_width", default="1d", allowed=tuple(WIDTHS))
        by_model = "model" in _groups(request)
        span, now = WIDTHS[width], seconds(clock.now())
        count = whole_number(request, "limit", default=USUAL_BUCKETS[width], least=1, most=MOST_BUCKETS[width])
        first = whole_number(request, "start_time", default=now - span * (count - 1), least=0, most=LATEST)
        first = whole_number(request, "page", default=first, least=0, most=LATEST)
        first -= first % span
        end = whole_number(request, "end_time", default=now + 1, least=0, most=LATEST)
        last = min(end, first + span * count)
        found = await usage.hours(tenant_of(request), since=first * MICROSECONDS, until=last * MICROSECONDS)
        buckets = [
            UsageBucket(
                start_time=start,
                end_time=start + span,
                results=_results([each for each in found if start <= seconds(each.at) < start + span], by_model),
            )
            for start in range(first, last, span)
        ]
        has_more = first + span * count < end
        following = str(first + span * count) if has_more else None
        return json_answer(UsagePage(data=buckets, has_more=has_more, next_page=following))

    return [Route("/v1/usage", read, methods=["GET"])]


def _groups(request: Request) -> list[str]:
    """Repeated, or with brackets, as the official client writes lists."""
    query = request.query_params
    for name in ("group_by", "group_by[]"):
        if name in query:
            one_of(request, name, default="model", allowed=("model",))
    return [*query.getlist("group_by"), *query.getlist("group_by[]")]


def _results(records: Sequence[UsageRecord], by_model: bool) -> list[UsageResult]:
    groups: dict[str | None, list[UsageRecord]] = {}
    for record in records:
        groups.setdefault(record.model if by_model else None, []).append(record)
    return [_result(model, [record.counts for record in group]) for model, group in groups.items()]


def _result(model: str | None, counts: Sequence[UsageCounts]) -> UsageResult:
    return UsageResult(
        input_tokens=sum(each.input_tokens for each in counts),
        input_cached_tokens=sum(each.cached_tokens for each in counts),
        output_tokens=sum(each.output_tokens for each in counts),
        num_model_requests=sum(each.turns for each in counts),
        model=model,
        num_responses=sum(each.responses for each in counts),
        wall_seconds=sum(each.wall_us for each in counts) / MICROSECONDS,
    )
