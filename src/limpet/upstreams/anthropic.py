"""Provider type `anthropic`: the Messages API."""

from anthropic import AsyncAnthropic
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.settings import ModelSettings

from limpet.core.clock import Clock
from limpet.upstreams.client import ProviderClient
from limpet.upstreams.known_models import ModelListing
from limpet.upstreams.models import ModelsUpstream, Wire
from limpet.upstreams.retries import RetryBudget
from limpet.upstreams.routing import ProviderSettings
from limpet.upstreams.upstream import Turn

ANTHROPIC = "https://api.anthropic.com"
VERSION = "2023-06-01"  # of the API; the official client sends the same


def upstream(
    given: ProviderSettings, *, retries: RetryBudget | None = None, clock: Clock | None = None
) -> ModelsUpstream:
    """The provider of these settings. `base_url` is what stands before `/v1/messages`; with or without the `/v1`."""
    return ModelsUpstream(given, connect=_connect, retries=retries, clock=clock)


def _connect(given: ProviderSettings, client: ProviderClient, key: str) -> Wire:
    address = (given.base_url or ANTHROPIC).rstrip("/").removesuffix("/v1")
    # A key that is given keeps the client from looking for others in the environment. Retries are the client's.
    anthropic = AsyncAnthropic(base_url=address, api_key=key, http_client=client, max_retries=0)
    provider = AnthropicProvider(anthropic_client=anthropic)

    def model(name: str) -> AnthropicModel:
        return AnthropicModel(name, provider=provider)

    headers = {"x-api-key": key, "anthropic-version": VERSION}
    listing = ModelListing(f"{address}/v1/models?limit=1000", headers)
    return Wire(model=model, settings=_settings, listing=listing, plain_ids=True)


def _settings(turn: Turn, settings: ModelSettings) -> ModelSettings:
    """With the prompt cache, which this wire leaves to the caller: each turn of a loop sends the whole history again."""
    return {**settings, "cache": True}
