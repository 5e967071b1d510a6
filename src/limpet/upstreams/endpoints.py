"""Where a server that speaks the Responses API is reached, and as whom: OpenAI's own way, and Azure's.

Azure: learn.microsoft.com, "Azure OpenAI in Azure AI Foundry Models REST API" (the v1 API, and the dated ones with `api-version`);
the official client's `AsyncAzureOpenAI` sends the same, which `tests/upstreams/test_azure_openai.py` shows.
"""

from dataclasses import dataclass, field
from typing import Any, Protocol
from urllib.parse import quote

from anyio import to_thread

from limpet.core.errors import UpstreamRefused
from limpet.core.secret import Secret
from limpet.upstreams.refusals import header_value
from limpet.upstreams.routing import ProviderSettings

OPENAI = "https://api.openai.com/v1"
ENTRA_SCOPE = "https://cognitiveservices.azure.com/.default"


@dataclass(frozen=True, slots=True)
class Access:
    """What a request says of who asks; `secret` must be shown nowhere, None where there is none."""

    headers: dict[str, str] = field(default_factory=dict)
    secret: Secret | None = None


class Endpoint(Protocol):
    """The addresses of one provider."""

    @property
    def responses(self) -> str:
        """What turns are sent to."""
        ...

    @property
    def models(self) -> str:
        """What lists the models."""
        ...

    def model_name(self, model: str) -> str:
        """The name by which the provider itself knows a model."""
        ...

    async def access(self) -> Access:
        """Raises UpstreamRefused for a key that cannot be sent or credentials that cannot be had."""
        ...


class OpenAIEndpoint:
    """OpenAI and all who do as it does: a bearer key, where there is one."""

    def __init__(self, settings: ProviderSettings) -> None:
        base = (settings.base_url or OPENAI).rstrip("/")
        self.responses, self.models = f"{base}/responses", f"{base}/models"
        self._name, self._key = settings.name, settings.api_key

    def model_name(self, model: str) -> str:
        return model

    async def access(self) -> Access:
        if not self._key:
            return Access()
        return Access({"authorization": f"Bearer {header_value(self._name, self._key)}"}, self._key)


class AzureEndpoint:
    """A resource of Azure OpenAI. With a key that goes as `api-key`; without one a token of Microsoft Entra ID, from the usual chain of
    credentials (environment, workload identity, managed identity, Azure's command line …)."""

    def __init__(self, settings: ProviderSettings) -> None:
        given = (settings.base_url or "").rstrip("/")
        resource = given.removesuffix("/v1").removesuffix("/openai")
        version = settings.api_version
        base, query = f"{resource}/openai", f"?api-version={quote(version, safe='')}" if version else ""
        if version in (None, "v1", "preview", "latest"):
            base = f"{base}/v1"
        self.responses, self.models = f"{base}/responses{query}", f"{base}/models{query}"
        self._settings = settings
        self._credential: Any = None

    def model_name(self, model: str) -> str:
        """Azure knows deployments, by names that the operator gave them."""
        return self._settings.deployments.get(model, model)

    async def access(self) -> Access:
        key = self._settings.api_key
        if key:
            return Access({"api-key": header_value(self._settings.name, key)}, key)
        token = Secret(await to_thread.run_sync(self._token))
        return Access({"authorization": f"Bearer {header_value(self._settings.name, token)}"}, token)

    def _token(self) -> str:
        """Blocking. The library keeps a token until shortly before it expires."""
        from azure.core.exceptions import AzureError  # noqa: PLC0415 - half a second, which only this provider should cost
        from azure.identity import DefaultAzureCredential  # noqa: PLC0415

        if self._credential is None:
            self._credential = DefaultAzureCredential()
        try:
            return str(self._credential.get_token(self._settings.entra_scope or ENTRA_SCOPE).token)
        except (AzureError, ValueError) as error:
            said = str(error).strip().split("\n")[0]
            raise UpstreamRefused(
                self._settings.name,
                401,
                f"no token of Microsoft Entra ID could be had: {said} Set api_key, or give a credential.",
            ) from error


def endpoint_of(settings: ProviderSettings) -> Endpoint:
    """The endpoint that these settings name."""
    return AzureEndpoint(settings) if settings.type == "azure_openai" else OpenAIEndpoint(settings)
