"""Parameters of a request that only some providers know. Hints are left out elsewhere; what would change the answer is refused. Pure."""

from limpet.core.errors import RequestInvalid
from limpet.responses.request import ParsedRequest
from limpet.upstreams.upstream import Upstream

# Without it the model would be asked something else than the client means.
ESSENTIAL = {
    "prompt": "The template of a prompt is the provider's. Send its text as `instructions` and `input`.",
    "moderation": "What it asks for would not be checked.",
}


def check_parameters(asked: ParsedRequest, upstream: Upstream) -> None:
    """Raises RequestInvalid (unsupported_parameter) for one that this provider cannot follow."""
    if upstream.tool_types is None:
        return  # it speaks the Responses API, and judges for itself
    for name, why in ESSENTIAL.items():
        if (asked.body.model_extra or {}).get(name) is not None:
            raise RequestInvalid(
                f"`{name}` is not available with the provider {upstream.name}. {why} Leave it out.",
                param=name,
                code="unsupported_parameter",
            )
