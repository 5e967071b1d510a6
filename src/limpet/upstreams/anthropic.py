"""Provider type `anthropic`: the Messages API."""

from limpet.core.clock import Clock
from limpet.core.errors import UpstreamRefused
from limpet.upstreams.claude_models import claude_model
from limpet.upstreams.endpoints import Access
from limpet.upstreams.function_names import FunctionNames
from limpet.upstreams.item_writer import ItemWriter
from limpet.upstreams.messages_events import MessagesEventReader
from limpet.upstreams.messages_request import messages_body
from limpet.upstreams.refusals import header_value
from limpet.upstreams.retries import RetryBudget
from limpet.upstreams.routing import ProviderSettings
from limpet.upstreams.translated import TranslatedRequest, TranslatedUpstream
from limpet.upstreams.upstream import Turn

ANTHROPIC = "https://api.anthropic.com"
VERSION = "2026-10-21"  # of the API; the official client sends the same
# Models that bind their thinking to all that stood before it refuse a history in which that has changed, and are asked without it then.
STALE_THINKING = "The block is bound to a different conversation"
DROP_STALE = {"block_binding": {"prefix_mismatch_behavior": "drop_block"}}
DROP_STALE_BETA = "thinking-binding-controls-2026-08-01"

# What of a request counts: the address refuses the rest.
COUNTED = frozenset({"model", "messages", "system", "tools", "tool_choice", "thinking", "output_config"})


def upstream(
    given: ProviderSettings, *, retries: RetryBudget | None = None, clock: Clock | None = None
) -> TranslatedUpstream:
    """The provider of these settings. `base_url` is what stands before `/v1/messages`; with or without the `/v1`."""
    return TranslatedUpstream(given, AnthropicMessages(given), retries=retries, clock=clock)


class AnthropicMessages:
    """See `Translation`."""

    def __init__(self, settings: ProviderSettings) -> None:
        self._settings = settings
        self._base = (settings.base_url or ANTHROPIC).rstrip("/").removesuffix("/v1")
        self.models_url = f"{self._base}/v1/models?limit=1000"

    def request(self, turn: Turn, names: FunctionNames) -> TranslatedRequest:
        """See `Translation.request`."""
        return TranslatedRequest(f"{self._base}/v1/messages", messages_body(turn, names, provider=self._settings.name))

    def other_request(self, request: TranslatedRequest, refused: UpstreamRefused) -> TranslatedRequest | None:
        """See `Translation.other_request`."""
        thinking = request.body.get("thinking") or {"type": "adaptive"}
        is_stale = refused.status == 400 and STALE_THINKING in refused.detail
        if not is_stale or thinking["type"] != "adaptive" or not claude_model(request.body["model"]).binds_thinking:
            return None
        body = {**request.body, "thinking": {**thinking, **DROP_STALE}}
        return TranslatedRequest(request.url, body, {**request.headers, "anthropic-beta": DROP_STALE_BETA})

    def count_request(self, request: TranslatedRequest) -> TranslatedRequest:
        """See `Translation.count_request`."""
        body = {key: value for key, value in request.body.items() if key in COUNTED}
        return TranslatedRequest(f"{self._base}/v1/messages/count_tokens", body, request.headers)

    async def access(self) -> Access:
        """See `Translation.access`."""
        key = self._settings.api_key
        version = {"anthropic-version": VERSION}
        if not key:
            return Access(version)
        return Access({**version, "authorization": f"Bearer {header_value(self._settings.name, key)}"}, key)

    def reader(self, writer: ItemWriter) -> MessagesEventReader:
        """See `Translation.reader`."""
        return MessagesEventReader(writer)
