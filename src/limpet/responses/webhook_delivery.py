"""Delivers events to the endpoints of tenants, signed as OpenAI signs them, again and again until they are taken or given up.

At least once: an event whose delivery was cut off by the end of the gateway is delivered again, under the same id.
"""

import base64
import hmac
from collections import Counter
from contextlib import AsyncExitStack
from typing import Self

import anyio
import msgspec
import structlog
from anyio.abc import TaskGroup

from limpet.core.clock import MICROSECONDS, Clock, seconds
from limpet.core.errors import FetchError, LimpetError, StoreError
from limpet.egress.settings import WebhookSettings
from limpet.egress.webhook_sender import WebhookSender
from limpet.responses.metrics import Metrics
from limpet.store.sealing import Sealer
from limpet.store.webhooks import WebhookDeliveryRecord, WebhookEndpointRecord, Webhooks

LOOK = 1.0  # seconds between two looks for what is due
AT_ONCE = 16  # deliveries under way
OF_ONE_ENDPOINT = 2  # of them: a slow one delays no other
OF_ONE_TENANT = 4  # of them: many slow ones of a tenant delay no other tenant's
CLAIM = 10  # seconds beyond the time limit, after which another process may deliver what this one was about to
log = structlog.get_logger()


def event_body(event_id: str, type: str, subject: str, created_at: int) -> bytes:
    """The body of an event; `created_at` in microseconds UTC."""
    shape = {
        "id": event_id,
        "object": "event",
        "created_at": seconds(created_at),
        "type": type,
        "data": {"id": subject},
    }
    return msgspec.json.encode(shape)


def signature(secret: str, event_id: str, timestamp: int, body: bytes) -> str:
    """As the Standard Webhooks specification has it, with a secret that begins with `whsec_`."""
    key = base64.b64decode(secret.removeprefix("whsec_"))
    signed = b"%b.%d.%b" % (event_id.encode(), timestamp, body)
    return "v1," + base64.b64encode(hmac.digest(key, signed, "sha256")).decode()


class WebhookDelivery:
    """Delivers while it is open."""

    def __init__(
        self,
        webhooks: Webhooks,
        sender: WebhookSender,
        *,
        settings: WebhookSettings,
        sealer: Sealer,
        clock: Clock,
        metrics: Metrics,
    ) -> None:
        self._webhooks = webhooks
        self._sender = sender
        self._settings = settings
        self._sealer = sealer
        self._clock = clock
        self._metrics = metrics
        self._under_way: Counter[str] = Counter()
        self._of_tenants: Counter[str] = Counter()
        self._tasks: TaskGroup | None = None
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        self._tasks = await self._stack.enter_async_context(anyio.create_task_group())
        self._tasks.start_soon(self._deliver_due, name="webhooks")
        return self

    async def __aexit__(self, *exc: object) -> None:
        if self._tasks is not None:
            self._tasks.cancel_scope.cancel()
        await self._stack.aclose()

    async def send(self, endpoint: WebhookEndpointRecord, event_id: str, body: bytes) -> int:
        """One attempt; the status that the endpoint answers with. Raises FetchError, SealBroken."""
        now = self._clock.now()
        secrets = [endpoint.secret]
        if endpoint.old_secret is not None and endpoint.old_until is not None and now < endpoint.old_until:
            secrets.append(endpoint.old_secret)
        opened = [self._sealer.unseal(secret, row=endpoint.id).decode() for secret in secrets]
        headers = {
            "webhook-id": event_id,
            "webhook-timestamp": str(seconds(now)),
            "webhook-signature": " ".join(signature(secret, event_id, seconds(now), body) for secret in opened),
        }
        return await self._sender.post(endpoint.url, body, headers)

    async def _deliver_due(self) -> None:
        while True:
            try:
                await self._begin_due()
            except StoreError as problem:
                log.warning("webhooks_not_read", reason=problem.message)
            await anyio.sleep(LOOK)

    async def _begin_due(self) -> None:
        assert self._tasks is not None, "the delivery is not open"
        while (room := AT_ONCE - self._under_way.total()) > 0:
            now = self._clock.now()
            busy = [id for id, count in self._under_way.items() if count >= OF_ONE_ENDPOINT]
            tenants = [name for name, count in self._of_tenants.items() if count >= OF_ONE_TENANT]
            if not await self._webhooks.any_due(now=now, busy=busy, busy_tenants=tenants):
                return
            until = now + int((self._settings.timeout_secs + CLAIM) * MICROSECONDS)
            most = min(room, OF_ONE_ENDPOINT)
            claimed = await self._webhooks.claim_due(now=now, until=until, limit=most, busy=busy, busy_tenants=tenants)
            for delivery in claimed:
                self._under_way[delivery.endpoint_id] += 1
                self._of_tenants[delivery.tenant] += 1
                self._tasks.start_soon(self._deliver, delivery, name=f"webhook {delivery.event_id}")

    async def _deliver(self, delivery: WebhookDeliveryRecord) -> None:
        try:
            await self._attempt(delivery)
        except StoreError as problem:  # it is due again when its claim is over
            log.warning("webhook_not_settled", event_id=delivery.event_id, reason=problem.message)
        except Exception:  # raised here it would end every delivery
            log.exception("webhook_broke", event_id=delivery.event_id)
        finally:
            self._under_way[delivery.endpoint_id] -= 1
            self._of_tenants[delivery.tenant] -= 1
            self._under_way += Counter()
            self._of_tenants += Counter()

    async def _attempt(self, delivery: WebhookDeliveryRecord) -> None:
        endpoint = await self._webhooks.get(delivery.tenant, delivery.endpoint_id)
        if endpoint is None:
            return
        body = event_body(delivery.event_id, delivery.type, delivery.subject, delivery.created_at)
        try:
            status = await self.send(endpoint, delivery.event_id, body)
            why = f"It answered with status {status}."
        except (FetchError, LimpetError) as problem:
            status, why = 0, problem.message
        is_taken = 200 <= status < 300
        is_over = is_taken or delivery.attempts >= self._settings.max_attempts
        self._metrics.webhooks.labels("delivered" if is_taken else "given_up" if is_over else "failed").inc()
        if not is_taken:
            log.warning(
                "webhook_failed",
                tenant=delivery.tenant,
                endpoint_id=endpoint.id,
                event_id=delivery.event_id,
                attempts=delivery.attempts,
                is_given_up=is_over,
                reason=why,
            )
        if is_over:
            await self._webhooks.settle(delivery.id)
            return
        pause = int(self._settings.pause(delivery.attempts) * MICROSECONDS)
        await self._webhooks.put_off(delivery.id, until=self._clock.now() + pause)
