"""How a turn that was not completed ended, in the Responses API's words. Strict clients refuse every other: both sets are closed there."""

from collections.abc import Mapping
from typing import Any, Literal, Self, TypeGuard, get_args

from msgspec import UNSET, UnsetType

from limpet.core.resources import WireObject

# The last is this gateway's own.
IncompleteReason = Literal["max_output_tokens", "content_filter", "steered", "budget_reached"]
ErrorCode = Literal[
    "server_error",
    "rate_limit_exceeded",
    "invalid_prompt",
    "data_residency_mismatch",
    "bio_policy",
    "misalignment_policy_violation",
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
    """Why a response failed. `type`, `param` and `misalignment` are a provider's, where it says them."""

    code: ErrorCode
    message: str
    type: str | UnsetType = UNSET
    param: str | UnsetType = UNSET
    misalignment: dict[str, Any] | UnsetType = UNSET

    @classmethod
    def of_provider(cls, code: object, message: str, *, more: Mapping[str, Any] | None = None) -> Self:
        """A provider's error, with what `more` of its error object the API has. A code that the API does not have becomes
        `server_error`, and is named in the message."""
        known: ErrorCode = code if is_error_code(code) else "server_error"
        if code and not is_error_code(code):
            message = f"{message} (The provider's code is {str(code)[:_QUOTED]}.)"
        given = more or {}
        texts = {name: given[name] for name in ("type", "param") if isinstance(given.get(name), str)}
        misalignment = given.get("misalignment")
        return cls(
            code=known,
            message=message,
            misalignment=dict(misalignment) if isinstance(misalignment, Mapping) else UNSET,
            **texts,
        )

    @classmethod
    def read(cls, stored: Mapping[str, Any]) -> Self:
        """One that was written down."""
        return cls.of_provider(stored["code"], stored["message"], more=stored)


def is_error_code(code: object) -> TypeGuard[ErrorCode]:
    """Whether the API has it."""
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
