"""Parts of OpenAI's beta API that are asked for by name and not served: refused by that name, never left out in silence."""

from starlette.requests import HTTPConnection

from limpet.core.errors import RequestInvalid

HEADER = "openai-beta"
_NOT_SERVED = frozenset({"responses_multi_agent"})


def refuse_betas(request: HTTPConnection) -> None:
    """Raises RequestInvalid (unsupported_beta) where the request's header asks for one. Those that change nothing here pass."""
    for header in request.headers.getlist(HEADER):
        for named in header.split(","):
            if (beta := named.partition("=")[0].strip()) in _NOT_SERVED:
                raise RequestInvalid(
                    f"The beta {beta!r} is not served here. Leave it out of OpenAI-Beta.",
                    param="OpenAI-Beta",
                    code="unsupported_beta",
                )
