"""What a client adds to a response while it runs (`response.steer`): checked, queued, and what is still wanted of the client. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from limpet.core import ids
from limpet.core.errors import RequestError, RequestInvalid
from limpet.responses.items import input_items

Json = dict[str, Any]
MOST_STEERS = 16  # that wait for one response
MOST_CHARACTERS = 10 * 1024 * 1024  # of them together
STEER = "steer"  # the prefix of their ids
_KEYS = frozenset({"type", "previous_response_id", "input"})
_MESSAGE_KEYS = frozenset({"type", "role", "content"})
_PARTS = frozenset({"input_text", "input_image", "input_file"})
# A call that the client carries out, and the item that answers it, with the fields that name the call.
_ANSWERS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "function_call": ("function_call_output", ("call_id", "name")),
    "custom_tool_call": ("custom_tool_call_output", ("call_id",)),
    "computer_call": ("computer_call_output", ("call_id",)),
    "shell_call": ("shell_call_output", ("call_id",)),
    "local_shell_call": ("local_shell_call_output", ("call_id",)),
    "apply_patch_call": ("apply_patch_call_output", ("call_id",)),
    "tool_search_call": ("tool_search_output", ("call_id", "execution")),
}

SteerErrorCode = Literal[
    "response_not_found",
    "invalid_input",
    "steering_not_supported",
    "too_many_pending_steers",
    "response_already_completed",
    "response_not_active",
    "successor_creation_failed",
]


class SteerRefused(RequestError):
    """The input was not, or cannot be, applied."""

    def __init__(self, code: SteerErrorCode, message: str) -> None:
        super().__init__(message, code=code)


@dataclass(frozen=True, slots=True, kw_only=True)
class Steer:
    """Accepted input: `given` as it came, `items` as the successor is given it; `size` is its length as text."""

    id: str
    given: str | list[Json]
    items: list[Json]
    size: int


@dataclass(slots=True)
class Steering:
    """The accepted input of one run. The run ends at the next boundary between items once it has some."""

    steers: list[Steer] = field(default_factory=list)
    _is_open: bool = True

    @property
    def is_wanted(self) -> bool:
        return bool(self.steers)

    def add(self, given: str | list[Json], items: list[Json]) -> Steer:
        """Queue it. Raises SteerRefused."""
        if not self._is_open:
            raise SteerRefused("response_already_completed", "The response has ended. Chain a new one to it.")
        size = len(given) if isinstance(given, str) else len(str(given))
        if len(self.steers) >= MOST_STEERS or sum(steer.size for steer in self.steers) + size > MOST_CHARACTERS:
            raise SteerRefused(
                "too_many_pending_steers",
                f"At most {MOST_STEERS} pieces of input with {MOST_CHARACTERS} characters may wait for a response.",
            )
        self.steers.append(Steer(id=ids.new_id(STEER), given=given, items=items, size=size))
        return self.steers[-1]

    def close(self) -> list[Steer]:
        """Take no more; what has been accepted."""
        self._is_open = False
        return self.steers


def steering_items(event: Mapping[str, Any]) -> list[Json]:
    """The messages of a `response.steer`. Raises SteerRefused (invalid_input)."""
    extra = sorted(event.keys() - _KEYS)
    if extra:
        raise SteerRefused(
            "invalid_input", f"`response.steer` takes no {extra[0][:64]!r}; the response decides its lane."
        )
    given = event.get("input")
    if not given or not (
        isinstance(given, str) or (isinstance(given, list) and all(isinstance(each, dict) for each in given))
    ):
        raise SteerRefused("invalid_input", "`input` must be a text or a list of user messages, and not empty.")
    try:
        items = input_items(given)
    except RequestInvalid as problem:
        raise SteerRefused("invalid_input", problem.message) from problem
    for position, item in enumerate(items):
        if not _is_user_message(item):
            raise SteerRefused(
                "invalid_input",
                f"input[{position}] must be a message of the user with nothing but `type`, `role` and `content`, "
                f"whose parts are of the types {', '.join(sorted(_PARTS))}.",
            )
    return items


def _is_user_message(item: Json) -> bool:
    if item["type"] != "message" or item["role"] != "user" or item.keys() - _MESSAGE_KEYS:
        return False
    return isinstance(item["content"], str) or all(part["type"] in _PARTS for part in item["content"])


def refuse_unsteerable(body: Mapping[str, Any]) -> None:
    """Raises SteerRefused for a request whose response cannot be steered."""
    for parameter in ("conversation", "context_management"):
        if body.get(parameter):
            raise SteerRefused("steering_not_supported", f"A response with `{parameter}` cannot be steered.")


def required_input(output: Sequence[Json]) -> list[Json]:
    """Stubs of the items that a client must answer the calls of a response with."""
    answered = {item.get("call_id") for item in output if str(item.get("type")).endswith("_output")}
    stubs: list[Json] = []
    for item in output:
        kind = str(item.get("type"))
        if kind == "mcp_approval_request":
            stubs.append({"type": "mcp_approval_response", "approval_request_id": item["id"]})
        if kind not in _ANSWERS or item.get("call_id") in answered or not _is_clients(item):
            continue
        answer, fields = _ANSWERS[kind]
        stubs.append({"type": answer, **{name: item[name] for name in fields if name in item}})
    return stubs


def _is_clients(item: Json) -> bool:
    if item["type"] == "shell_call":
        return (item.get("environment") or {}).get("type") == "local"
    return item["type"] != "tool_search_call" or item.get("execution") == "client"
