"""Provider type `vertex`: Google Cloud's Vertex AI, with Gemini and Claude.

Gemini goes by google-genai, Claude by Anthropic's own client for Vertex; both send through the gateway's HTTP client, with its time
limits and retries, and share one set of credentials.
"""

import os
from dataclasses import dataclass
from typing import Any

import google.auth
import google.auth.credentials
from anthropic import AsyncAnthropicVertex
from google.auth import exceptions
from pydantic_ai.models import Model
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.google import GoogleModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.google_cloud import GoogleCloudProvider
from pydantic_ai.settings import ModelSettings

from limpet.core.clock import Clock
from limpet.core.errors import UpstreamRefused
from limpet.core.secret import Secret
from limpet.upstreams.client import ProviderClient
from limpet.upstreams.models import ModelsUpstream, Wire
from limpet.upstreams.retries import RetryBudget
from limpet.upstreams.routing import ProviderSettings
from limpet.upstreams.upstream import Turn

SCOPE = "https://www.googleapis.com/auth/cloud-platform"
LOCATION = "global"


@dataclass(frozen=True, slots=True)
class _Identity:
    """As whom to ask, and for which project."""

    credentials: Any
    project: str | None

    def token(self) -> Secret | None:
        token = getattr(self.credentials, "token", None)
        return Secret(token) if token else None


def upstream(
    given: ProviderSettings, *, retries: RetryBudget | None = None, clock: Clock | None = None
) -> ModelsUpstream:
    """The provider of these settings. `base_url` is what stands before `/v1` and `/v1beta1`; without one the location's own. With a key
    it is Vertex in express mode, which has Gemini only; without one the application's default credentials are used."""
    return ModelsUpstream(given, connect=_connect, retries=retries, clock=clock)


def _connect(given: ProviderSettings, client: ProviderClient, key: str) -> Wire:
    location = given.region or os.environ.get("GOOGLE_CLOUD_LOCATION") or LOCATION
    if given.api_key:
        express = GoogleCloudProvider(api_key=key, http_client=client, base_url=given.base_url)
        return Wire(
            model=lambda name: GoogleModel(name, provider=express), settings=_settings, listing=None, plain_ids=True
        )
    identity = _identity(given)
    gemini = GoogleCloudProvider(
        credentials=identity.credentials,
        project=identity.project,
        location=location,
        http_client=client,
        base_url=given.base_url,
    )
    claude = AnthropicProvider(
        anthropic_client=AsyncAnthropicVertex(
            region=location,
            project_id=identity.project or "",
            credentials=identity.credentials,
            base_url=f"{given.base_url.rstrip('/')}/v1" if given.base_url else None,
            http_client=client,
            max_retries=0,  # they are the client's
        )
    )

    def model(name: str) -> Model[Any]:
        return (
            AnthropicModel(name, provider=claude) if name.startswith("claude") else GoogleModel(name, provider=gemini)
        )

    return Wire(
        model=model,
        settings=_settings,
        listing=None,
        plain_ids=True,
        token=identity.token,
        unauthorized=(exceptions.GoogleAuthError,),
    )


def _identity(given: ProviderSettings) -> _Identity:
    """Blocking: where the credentials are those of a machine, its metadata server is asked. Raises UpstreamRefused."""
    try:
        if given.credentials_file is not None:
            load: Any = google.auth.load_credentials_from_file
            credentials, project = load(str(given.credentials_file), scopes=[SCOPE])
        else:
            credentials, project = google.auth.default(scopes=[SCOPE])
    except exceptions.GoogleAuthError as error:
        said = str(error).strip().split("\n")[0]
        raise UpstreamRefused(
            given.name,
            401,
            f"no credentials of Google Cloud could be had: {said} Give credentials_file, or an api_key.",
        ) from error
    project = given.project or os.environ.get("GOOGLE_CLOUD_PROJECT") or project
    if project is None:
        raise UpstreamRefused(given.name, 401, "the credentials name no project of Google Cloud. Set project.")
    return _Identity(credentials, project)


def _settings(turn: Turn, settings: ModelSettings) -> ModelSettings:
    """With the prompt cache for Claude, which leaves it to the caller."""
    return {**settings, "cache": True} if turn.model.startswith("claude") else settings
