"""What goes on beside requests: old responses are deleted, endpoints are told of events."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.routing import Route

from limpet.core.clock import Clock
from limpet.egress.settings import WebhookSettings
from limpet.egress.webhook_sender import WebhookSender
from limpet.responses.metrics import Metrics
from limpet.responses.retention import RetentionSweep
from limpet.responses.settings import ResponseSettings
from limpet.server import usage, webhooks
from limpet.store.database import Database
from limpet.store.model_usage import ModelUsage
from limpet.store.responses import Responses
from limpet.store.sealing import Sealer
from limpet.store.webhooks import Webhooks


@asynccontextmanager
async def kept_up(
    database: Database,
    sender: WebhookSender,
    settings: ResponseSettings,
    asked: WebhookSettings,
    sealer: Sealer,
    clock: Clock,
    metrics: Metrics,
) -> AsyncIterator[list[Route]]:
    """For the time of the block; gives the routes of usage and webhooks. `asked` are the operator's settings of webhooks."""
    async with (
        RetentionSweep(Responses(database), days=settings.retention_days, clock=clock),
        webhooks.opened_endpoints(Webhooks(database), sender, asked, sealer, clock, metrics) as endpoints,
    ):
        yield [*usage.routes(ModelUsage(database), clock), *webhooks.routes(endpoints)]
