"""The conversation so far: the items of a chain of responses, as input of the next model turn."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from limpet.core import exit_codes
from limpet.core.errors import NotFound, RequestInvalid
from limpet.responses.budgets import Spending
from limpet.responses.command_output import model_copy
from limpet.responses.replay import replay
from limpet.store.journal import Journal
from limpet.store.responses import ResponseRecord, Responses
from limpet.upstreams.usage import Usage

Json = dict[str, Any]
LONGEST_CHAIN = 1000
_LIVE = ("queued", "in_progress")

# An output's type, and the types of the calls that it may belong to.
_CALLS_OF = {
    "shell_call_output": ("shell call", frozenset({"shell_call"})),
    "custom_tool_call_output": ("custom tool call", frozenset({"custom_tool_call"})),
    "function_call_output": ("function call", frozenset({"function_call", "shell_call"})),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """The earlier items, oldest first, the container that the chain has used last, and what it has used up."""

    items: list[Json] = field(default_factory=list)
    container_id: str | None = None
    spent: Spending = field(default_factory=Spending)


async def history(
    responses: Responses,
    journal: Journal,
    *,
    kept: Mapping[str, ResponseRecord],
    tenant: str,
    previous: str,
    provider: str,
    characters: int,
) -> History:
    """Follow `previous_response_id` to the root. `provider` is who will be told it: reasoning that another one sealed is left out.
    `kept` are responses that are not stored, by id.

    Raises NotFound (previous_response_not_found) and RequestInvalid.
    """
    chain: list[ResponseRecord] = []
    wanted: str | None = previous
    while wanted is not None:
        record = kept.get(wanted) or await responses.get(tenant, wanted)
        if record is None:
            raise _not_found(wanted)
        if record.status in _LIVE:
            raise RequestInvalid(
                f"The response {wanted} is still running. Wait for its end, then chain on it.",
                param="previous_response_id",
                code="previous_response_in_progress",
            )
        chain.append(record)
        if len(chain) > LONGEST_CHAIN:
            raise RequestInvalid(
                f"The chain of responses is longer than {LONGEST_CHAIN}. Start a new one with the items that matter.",
                param="previous_response_id",
                code="conversation_too_long",
            )
        wanted = record.previous_response_id
    items: list[Json] = []
    for record in reversed(chain):
        items += trimmed(record.input, earlier=items, characters=characters)
        said = (await replay(journal, record.id)).snapshot.items()
        is_own = record.provider == provider
        items += [as_input(item, characters) for item in said if is_own or item["type"] != "reasoning"]
    spent = sum((_spent(record) for record in chain), Spending())
    return History(items=items, container_id=chain[0].container_id, spent=spent)


def _spent(record: ResponseRecord) -> Spending:
    usage = Usage.read(record.usage)
    own = msgspec.convert(record.spent or {}, Spending)
    return msgspec.structs.replace(own, tokens=0 if usage is None else usage.total_tokens)


def _not_found(response_id: str) -> NotFound:
    return NotFound(
        f"Previous response with id {response_id[:80]!r} not found. It was never stored (`store: false`), or was deleted.",
        param="previous_response_id",
        code="previous_response_not_found",
    )


def trimmed(given: Sequence[Json], *, earlier: Sequence[Json], characters: int) -> list[Json]:
    """A client's items with the shell output that it sends back cut as ours is (`model_copy`). What a client's own shell printed
    stays as it is: there the client decides how much the model sees."""
    calls = [item for item in (*earlier, *given) if item["type"] == "shell_call"]
    local = {call.get("call_id") for call in calls if (call.get("environment") or {}).get("type") == "local"}
    return [
        model_copy(item, characters)
        if item["type"] == "shell_call_output" and item.get("call_id") not in local
        else item
        for item in given
    ]


def as_input(item: Json, characters: int) -> Json:
    """An output item as a model gets it back: outputs trimmed, our citations left out (they name files of ours)."""
    if item["type"] == "shell_call_output":
        return model_copy(item, characters)
    if item["type"] == "message":
        parts = [_uncited(part) for part in item.get("content", [])]
        return {**item, "content": parts}
    return item


def _uncited(part: Json) -> Json:
    kept = [note for note in part.get("annotations", []) if note.get("type") != "container_file_citation"]
    return {**part, "annotations": kept} if "annotations" in part else part


def completed(items: Sequence[Json]) -> list[Json]:
    """The items with an output for every shell call of ours that has none, because its run broke off. Every provider wants pairs."""
    answered = {item.get("call_id") for item in items if item["type"].endswith("_output")}
    whole: list[Json] = []
    for item in items:
        whole.append(item)
        if item["type"] != "shell_call" or item["call_id"] in answered:
            continue
        if (item.get("environment") or {}).get("type") == "container_reference":
            lost = {"stdout": "", "stderr": "limpet: the run broke off before the result was known.\n"}
            whole.append(
                {
                    "type": "shell_call_output",
                    "call_id": item["call_id"],
                    "output": [{**lost, "outcome": {"type": "exit", "exit_code": exit_codes.LOST}}],
                }
            )
    return whole


def check_outputs(earlier: Sequence[Json], given: Iterable[Json]) -> None:
    """Every output in the request must belong to a call before it; else RequestInvalid, in OpenAI's words."""
    calls = [item for item in earlier if "call_id" in item]
    for item in given:
        if item["type"] in _CALLS_OF:
            name, kinds = _CALLS_OF[item["type"]]
            if not any(call["call_id"] == item["call_id"] and call["type"] in kinds for call in calls):
                raise RequestInvalid(
                    f"No tool call found for {name} output with call_id {item['call_id']}.", param="input"
                )
        if "call_id" in item:
            calls.append(item)
