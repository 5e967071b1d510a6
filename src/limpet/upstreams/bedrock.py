"""Provider type `bedrock`: Amazon Bedrock's Converse API, streamed. Amazon's own client signs, finds credentials and reads the stream."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, Self

import anyio
import boto3
import botocore.session
from anyio import to_thread
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ReadTimeoutError
from botocore.tokens import FrozenAuthToken
from pydantic_ai.models.bedrock import BedrockConverseModel
from pydantic_ai.providers.bedrock import BedrockProvider
from pydantic_ai.settings import ModelSettings

from limpet.core.clock import Clock, SystemClock
from limpet.core.errors import UpstreamRefused
from limpet.upstreams.client import ProviderClient
from limpet.upstreams.models import ModelsUpstream, Wire
from limpet.upstreams.retries import RetryBudget
from limpet.upstreams.routing import ProviderSettings
from limpet.upstreams.upstream import Turn, TurnEvent

STREAMS = (
    200  # at once: the library waits for each in a thread of anyio's own, of which there are 40 for everything else
)


class BedrockUpstream(ModelsUpstream):
    """Asks again by itself, as the gateway's HTTP client does for the others, which knows more of what failed than Amazon's client."""

    def __init__(self, given: ProviderSettings, *, retries: RetryBudget | None, clock: Clock | None) -> None:
        super().__init__(given, connect=_connect, retries=retries, clock=clock)
        self._budget = retries or RetryBudget(most=given.max_retries, budget=given.retry_budget_secs)
        self._time = clock or SystemClock()
        self._places = anyio.Semaphore(STREAMS)

    async def __aenter__(self) -> Self:
        to_thread.current_default_thread_limiter().total_tokens += STREAMS
        return await super().__aenter__()

    async def stream(self, turn: Turn) -> AsyncGenerator[TurnEvent, None]:
        """See `Upstream.stream`. With as many streams as there are places, a further one waits."""
        async with self._places, aclosing(self._tried(turn)) as events:
            async for event in events:
                yield event

    async def _tried(self, turn: Turn) -> AsyncGenerator[TurnEvent, None]:
        attempt, first_failure = 0, None
        while True:
            try:
                async with aclosing(super().stream(turn)) as events:
                    async for event in events:
                        yield event
                return
            except UpstreamRefused as refused:  # nothing was yielded by then
                now = self._time.monotonic()
                first_failure = now if first_failure is None else first_failure
                wait = self._wait(refused, attempt, now - first_failure)
                if wait is None:
                    raise
            await anyio.sleep(wait)
            attempt += 1

    def _wait(self, refused: UpstreamRefused, attempt: int, spent: float) -> float | None:
        if refused.status is None:
            return None if _was_silence(refused) else self._budget.wait_after_failure(attempt, spent=spent)
        headers = {} if refused.retry_after is None else {"retry-after": str(refused.retry_after)}
        return self._budget.wait_after_status(attempt, refused.status, headers, now=0.0, spent=spent)


def _was_silence(error: BaseException | None) -> bool:
    """Whether it was long work, perhaps, that was given up: that is not asked for again."""
    while error is not None:
        if isinstance(error, ReadTimeoutError):
            return True
        error = error.__cause__
    return False


def upstream(
    given: ProviderSettings, *, retries: RetryBudget | None = None, clock: Clock | None = None
) -> ModelsUpstream:
    """The provider of these settings. `base_url` is what stands before `/model`; without one the region's own. The key is one of
    Bedrock's API keys; without one Amazon's usual chain of credentials is followed, for `profile` where that is set."""
    return BedrockUpstream(given, retries=retries, clock=clock)


def _connect(given: ProviderSettings, client: ProviderClient, key: str) -> Wire:
    del client  # Amazon's client has one of its own, with the same limits
    config = Config(
        connect_timeout=given.connect_timeout_secs,
        read_timeout=max(given.first_byte_timeout_secs, given.idle_timeout_secs),
        retries={"total_max_attempts": 1},
        max_pool_connections=STREAMS,
    )
    try:
        provider = BedrockProvider(bedrock_client=_client(given, config, key if given.api_key else None))
    except (BotoCoreError, ValueError) as error:
        raise UpstreamRefused(
            given.name, 401, f"Amazon's client cannot be set up: {error} Check region and profile."
        ) from error
    return Wire(
        model=lambda name: BedrockConverseModel(name, provider=provider),
        settings=_settings,
        listing=None,
        plain_ids=True,
        unauthorized=(BotoCoreError,),
    )


def _client(given: ProviderSettings, config: Config, key: str | None) -> Any:
    if key is not None:
        config = config.merge(Config(signature_version="bearer"))
    beneath = botocore.session.Session() if key is None else _WithKey(key)
    session = boto3.Session(botocore_session=beneath, region_name=given.region, profile_name=given.profile)
    return session.client("bedrock-runtime", config=config, endpoint_url=given.base_url)


class _WithKey(botocore.session.Session):  # type: ignore[misc]  # it has no types
    """One of Bedrock's API keys, which goes as a bearer token; no other credentials are looked for."""

    def __init__(self, key: str) -> None:
        super().__init__()
        self._key = key

    def get_auth_token(self, **_: Any) -> FrozenAuthToken:
        return FrozenAuthToken(self._key)

    def get_credentials(self) -> None:
        return None


def _settings(turn: Turn, settings: ModelSettings) -> ModelSettings:
    """With the prompt cache, which this wire leaves to the caller: each turn of a loop sends the whole history again."""
    return {**settings, "cache": True}
