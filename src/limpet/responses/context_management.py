"""Which providers are handed `context_management`."""

from limpet.core.errors import RequestInvalid
from limpet.responses.request import ParsedRequest
from limpet.upstreams.upstream import Upstream

MANAGES_CONTEXT = frozenset({"openai", "azure_openai"})  # types of providers that are handed `context_management`


def check_context_management(asked: ParsedRequest, upstream: Upstream) -> None:
    """A provider that speaks the Responses API does it, or refuses; for all others it would be dropped in silence. RequestInvalid."""
    if asked.body.context_management is not None and upstream.type not in MANAGES_CONTEXT:
        raise RequestInvalid(
            f"`context_management` is not available with the provider {upstream.name}. Leave it out, or send fewer items.",
            param="context_management",
            code="unsupported_parameter",
        )
