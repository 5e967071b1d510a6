"""Provider type `openai_chat`: servers that speak chat completions (vLLM, Ollama, OpenRouter, LM Studio and OpenAI itself)."""

from limpet.core.clock import Clock
from limpet.core.errors import UpstreamRefused
from limpet.upstreams.chat_events import ChatEventReader
from limpet.upstreams.chat_request import chat_body
from limpet.upstreams.endpoints import OPENAI, Access
from limpet.upstreams.function_names import FunctionNames
from limpet.upstreams.item_writer import ItemWriter
from limpet.upstreams.refusals import header_value
from limpet.upstreams.retries import RetryBudget
from limpet.upstreams.routing import ProviderSettings
from limpet.upstreams.translated import TranslatedRequest, TranslatedUpstream
from limpet.upstreams.upstream import Turn


def upstream(
    given: ProviderSettings, *, retries: RetryBudget | None = None, clock: Clock | None = None
) -> TranslatedUpstream:
    """The provider of these settings. `base_url` is what stands before `/chat/completions`; its usual value is OpenAI's."""
    return TranslatedUpstream(given, ChatCompletions(given), retries=retries, clock=clock)


class ChatCompletions:
    """See `Translation`."""

    def __init__(self, settings: ProviderSettings) -> None:
        self._settings = settings
        self._base = (settings.base_url or OPENAI).rstrip("/")
        self.models_url = f"{self._base}/models"

    def request(self, turn: Turn, names: FunctionNames) -> TranslatedRequest:
        """See `Translation.request`."""
        body = chat_body(turn, names, provider=self._settings.name, is_openai=self._base.startswith(OPENAI))
        return TranslatedRequest(f"{self._base}/chat/completions", body)

    def other_request(self, request: TranslatedRequest, refused: UpstreamRefused) -> None:
        """See `Translation.other_request`. There is none."""

    def count_request(self, request: TranslatedRequest) -> None:
        """See `Translation.count_request`. This wire has no such count."""

    async def access(self) -> Access:
        """See `Translation.access`. Many of these servers want no key."""
        key = self._settings.api_key
        if not key:
            return Access()
        return Access({"authorization": f"Bearer {header_value(self._settings.name, key)}"}, key)

    def reader(self, writer: ItemWriter) -> ChatEventReader:
        """See `Translation.reader`."""
        return ChatEventReader(writer)
