"""Provider type `openai_chat`: servers that speak chat completions (vLLM, Ollama, OpenRouter, LM Studio and OpenAI itself)."""

from typing import Any, cast

from openai import AsyncOpenAI
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIChatModelSettings
from pydantic_ai.profiles.openai import OpenAIModelProfile
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.settings import ModelSettings

from limpet.core.clock import Clock
from limpet.upstreams.client import ProviderClient
from limpet.upstreams.known_models import ModelListing
from limpet.upstreams.models import ModelsUpstream, Wire
from limpet.upstreams.retries import RetryBudget
from limpet.upstreams.routing import ProviderSettings
from limpet.upstreams.upstream import Turn

OPENAI = "https://api.openai.com/v1"


def upstream(
    given: ProviderSettings, *, retries: RetryBudget | None = None, clock: Clock | None = None
) -> ModelsUpstream:
    """The provider of these settings. `base_url` is what stands before `/chat/completions`; its usual value is OpenAI's."""
    return ModelsUpstream(given, connect=_connect, retries=retries, clock=clock)


def _connect(given: ProviderSettings, client: ProviderClient, key: str) -> Wire:
    address = given.base_url or OPENAI
    # Retries are the client's.
    openai = AsyncOpenAI(base_url=address, api_key=key, http_client=client, max_retries=0)
    provider = OpenAIProvider(openai_client=openai)
    profile = OpenAIModelProfile(
        # Without it an answer that was cut would look like one that ended.
        openai_chat_streaming_requires_finish_reason=True,
        # `max_tokens` is what all other servers know; OpenAI's newer models want its successor.
        openai_chat_supports_max_completion_tokens=address.startswith(OPENAI),
    )

    def model(name: str) -> OpenAIChatModel:
        return OpenAIChatModel(name, provider=provider, profile=profile)

    listing = ModelListing(f"{address.rstrip('/')}/models", {"authorization": f"Bearer {key}"})
    return Wire(model=model, settings=_settings, listing=listing)


def _settings(turn: Turn, settings: ModelSettings) -> ModelSettings:
    """The effort goes out as it was asked for: which of these servers' models reason is not for the library to guess."""
    added: dict[str, Any] = {name: value for name, value in settings.items() if name != "thinking"}
    if (effort := (turn.options.get("reasoning") or {}).get("effort")) is not None:
        added["openai_reasoning_effort"] = effort
    return cast(OpenAIChatModelSettings, added)
