"""`/v1/webhook_endpoints`: where a tenant is told of its responses' ends; OpenAI's resource (its API reference, "Webhooks")."""

import base64
import secrets
from collections.abc import Sequence
from typing import Annotated, Literal

from msgspec import UNSET, UnsetType
from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictStr, TypeAdapter

from limpet.core import ids
from limpet.core.clock import MICROSECONDS, Clock, seconds
from limpet.core.errors import FetchError, FetchRefused, NotFound, RequestError, RequestInvalid
from limpet.core.resources import Moment, Resource, WireObject
from limpet.egress.settings import WebhookSettings
from limpet.egress.webhook_sender import WebhookSender
from limpet.responses.validation import validated
from limpet.responses.webhook_delivery import WebhookDelivery, event_body
from limpet.store.records import Page
from limpet.store.sealing import Sealer
from limpet.store.webhooks import WebhookEndpointRecord, Webhooks

EventType = Literal["response.completed", "response.failed", "response.cancelled", "response.incomplete"]
EVENT_TYPES: tuple[EventType, ...] = (
    "response.completed",
    "response.failed",
    "response.cancelled",
    "response.incomplete",
)
OVERLAP = 86_400  # seconds for which an old secret may sign too
Name = Annotated[StrictStr, Field(min_length=1, max_length=256)]
Url = Annotated[StrictStr, Field(min_length=1, max_length=2048)]
EventTypes = Annotated[list[EventType], Field(min_length=1)]


class CreateWebhookEndpoint(BaseModel):
    model_config = ConfigDict(extra="allow")
    name: Name
    url: Url
    event_types: EventTypes


class ChangeWebhookEndpoint(BaseModel):
    model_config = ConfigDict(extra="allow")
    name: Name | None = None
    url: Url | None = None
    event_types: EventTypes | None = None


class RotateWebhookSecret(BaseModel):
    model_config = ConfigDict(extra="allow")
    keep_old_secret_active_for_24_hours: StrictBool = False


class TestWebhookEndpoint(BaseModel):
    model_config = ConfigDict(extra="allow")
    event_type: EventType


class WebhookEndpoint(Resource, frozen=True, kw_only=True):
    """`signing_secret` is shown where it was made, and never again."""

    object: Literal["webhook_endpoint"] = "webhook_endpoint"
    created_at: Moment
    updated_at: Moment
    name: str
    url: str
    event_types: Sequence[str]
    signing_secret_hint: str
    signing_secret: str | UnsetType = UNSET


class WebhookTestResult(WireObject, frozen=True, kw_only=True):
    object: Literal["webhook_endpoint.test"] = "webhook_endpoint.test"
    webhook_endpoint_id: str
    event_type: str
    status_code: int
    success: Literal[True] = True


class WebhookEventTypes(WireObject, frozen=True, kw_only=True):
    object: Literal["list"] = "list"
    data: Sequence[str] = EVENT_TYPES


class WebhookUnreachable(RequestError):
    """A test could not be delivered."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"The endpoint was not reached. {reason}", param="url", code="webhook_unreachable")


_CREATE, _CHANGE = TypeAdapter(CreateWebhookEndpoint), TypeAdapter(ChangeWebhookEndpoint)
_ROTATE, _TEST = TypeAdapter(RotateWebhookSecret), TypeAdapter(TestWebhookEndpoint)


class WebhookEndpoints:
    """The resource. Bodies are as JSON gave them; RequestInvalid and NotFound where they say."""

    def __init__(
        self,
        webhooks: Webhooks,
        delivery: WebhookDelivery,
        sender: WebhookSender,
        *,
        settings: WebhookSettings,
        sealer: Sealer,
        clock: Clock,
    ) -> None:
        self._webhooks = webhooks
        self._delivery = delivery
        self._sender = sender
        self._most = settings.max_endpoints
        self._sealer = sealer
        self._clock = clock

    async def create(self, tenant: str, body: object) -> WebhookEndpoint:
        """With its secret. RequestInvalid."""
        asked = validated(_CREATE, body)
        url = self._checked(asked.url)
        if await self._webhooks.count(tenant) >= self._most:
            raise RequestInvalid(
                f"There are {self._most} webhook endpoints already. Delete one first.",
                code="too_many_webhook_endpoints",
            )
        now, id = self._clock.now(), ids.new_id(ids.WEBHOOK_ENDPOINT)
        secret, sealed = self._new_secret(id)
        record = WebhookEndpointRecord(
            id=id,
            tenant=tenant,
            name=asked.name,
            url=url,
            event_types=list(dict.fromkeys(asked.event_types)),
            secret=sealed,
            created_at=now,
            updated_at=now,
        )
        await self._webhooks.insert(record)
        return self._shown(record, secret=secret)

    async def get(self, tenant: str, id: str) -> WebhookEndpoint:
        """Raises NotFound."""
        return self._shown(await self._record(tenant, id))

    async def page(self, tenant: str, *, limit: int, after: str | None) -> Page[WebhookEndpoint]:
        """The newest first. RequestInvalid."""
        found = await self._webhooks.page(tenant, limit=limit, after=after)
        return Page([self._shown(record) for record in found.records], has_more=found.has_more)

    async def change(self, tenant: str, id: str, body: object) -> WebhookEndpoint:
        """Raises NotFound, RequestInvalid."""
        asked = validated(_CHANGE, body).model_dump(include=set(ChangeWebhookEndpoint.model_fields), exclude_none=True)
        record = await self._record(tenant, id)
        if "url" in asked:
            asked["url"] = self._checked(asked["url"])
        if any(getattr(record, key) != value for key, value in asked.items()):
            await self._webhooks.update(tenant, id, **asked, updated_at=self._clock.now())
        return await self.get(tenant, id)

    async def delete(self, tenant: str, id: str) -> None:
        """With what it is owed. Raises NotFound."""
        if not await self._webhooks.delete(tenant, id):
            raise _not_found(id)

    async def rotate(self, tenant: str, id: str, body: object) -> WebhookEndpoint:
        """With its new secret. Raises NotFound, RequestInvalid."""
        keeps_old = validated(_ROTATE, body).keep_old_secret_active_for_24_hours
        record, now = await self._record(tenant, id), self._clock.now()
        secret, sealed = self._new_secret(id)
        old = {"old_secret": record.secret, "old_until": now + OVERLAP * MICROSECONDS}
        kept = old if keeps_old else dict.fromkeys(old)
        await self._webhooks.update(tenant, id, secret=sealed, updated_at=now, **kept)
        return self._shown(await self._record(tenant, id), secret=secret)

    async def test(self, tenant: str, id: str, body: object) -> WebhookTestResult:
        """Deliver a sample once, now. Raises NotFound, RequestInvalid, WebhookUnreachable."""
        type = validated(_TEST, body).event_type
        record = await self._record(tenant, id)
        event_id = ids.new_id(ids.EVENT)
        sample = event_body(event_id, type, ids.new_id(ids.RESPONSE), self._clock.now())
        try:
            status = await self._delivery.send(record, event_id, sample)
        except FetchError as problem:
            raise WebhookUnreachable(problem.message) from problem
        return WebhookTestResult(webhook_endpoint_id=id, event_type=type, status_code=status)

    async def _record(self, tenant: str, id: str) -> WebhookEndpointRecord:
        record = await self._webhooks.get(tenant, id)
        if record is None:
            raise _not_found(id)
        return record

    def _checked(self, url: str) -> str:
        try:
            return self._sender.check(url)
        except FetchRefused as refused:
            raise RequestInvalid(refused.message, param="url") from refused

    def _new_secret(self, row: str) -> tuple[str, bytes]:
        secret = f"whsec_{base64.b64encode(secrets.token_bytes(32)).decode()}"
        return secret, self._sealer.seal(secret.encode(), row=row)

    def _shown(self, record: WebhookEndpointRecord, *, secret: str | None = None) -> WebhookEndpoint:
        whole = secret or self._sealer.unseal(record.secret, row=record.id).decode()
        return WebhookEndpoint(
            id=record.id,
            created_at=seconds(record.created_at),
            updated_at=seconds(record.updated_at),
            name=record.name,
            url=record.url,
            event_types=record.event_types,
            signing_secret_hint=f"whsec_…{whole[-4:]}",
            signing_secret=UNSET if secret is None else secret,
        )


def _not_found(id: str) -> NotFound:
    return NotFound(
        f"Webhook endpoint with id {id[:80]!r} not found.",
        param="webhook_endpoint_id",
        code="webhook_endpoint_not_found",
    )
