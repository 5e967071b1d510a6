"""How a turn that was not completed ended, in the Responses API's words. Strict clients refuse every other: both sets are closed there."""

from typing import Literal, Self, TypeGuard, get_args

from limpet.core.resources import WireObject

# The last is this gateway's own.
IncompleteReason = Literal["max_output_tokens", "content_filter", "steered", "budget_reached"]
ErrorCode = Literal[
    "server_error",
    "rate_limit_exceeded",
    "invalid_prompt",
    "data_residency_mismatch",
    "bio_policy",
    "vector_store_timeout",
    "invalid_image",
    "invalid_image_format",
    "invalid_base64_image",
    "invalid_image_url",
    "image_too_large",
    "image_too_small",
    "image_parse_error",
    "image_content_policy_violation",
    "invalid_image_mode",
    "image_file_too_large",
    "unsupported_image_media_type",
    "empty_image_file",
    "failed_to_download_image",
    "image_file_not_found",
]
_CODES = frozenset(get_args(ErrorCode))
_QUOTED = 80


class ResponseError(WireObject, frozen=True, kw_only=True):
    """Why a response failed."""

    code: ErrorCode
    message: str

    @classmethod
    def of_provider(cls, code: object, message: str) -> Self:
        """A provider's error. A code that the API does not have becomes `server_error`, and is named in the message."""
        if _is_known(code):
            return cls(code=code, message=message)
        if not code:
            return cls(code="server_error", message=message)
        return cls(code="server_error", message=f"{message} (The provider's code is {str(code)[:_QUOTED]}.)")


def _is_known(code: object) -> TypeGuard[ErrorCode]:
    return isinstance(code, str) and code in _CODES


def incomplete_reason(given: object) -> IncompleteReason | None:
    """A provider's reason; None for one that the API does not have. Without any it is taken for the usual one."""
    match given:
        case None | "" | "max_output_tokens":
            return "max_output_tokens"
        case "content_filter":
            return "content_filter"
        case _:
            return None
