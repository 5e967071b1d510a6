"""The conversation so far: the items of a chain of responses, as input of the next model turn."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from limpet.core import exit_codes
from limpet.core.errors import NotFound, RequestInvalid
from limpet.responses.budgets import Spending
from limpet.responses.command_output import model_copy
from limpet.responses.compaction.compacted import is_sealed_here
from limpet.responses.conversation_items import ConversationItems
from limpet.responses.replay import replay
from limpet.store.conversations import MOST_CHARACTERS, ConversationItemRecord
from limpet.store.journal import Journal
from limpet.store.responses import ResponseRecord, Responses
from limpet.upstreams.usage import Usage

Json = dict[str, Any]
LONGEST_CHAIN = 1000
_LIVE = ("queued", "in_progress")

# An output's type, and the types of the calls that it may belong to.
_CALLS_OF = {
    "shell_call_output": ("shell call", frozenset({"shell_call"})),
    "apply_patch_call_output": ("apply patch call", frozenset({"apply_patch_call"})),
    "custom_tool_call_output": ("custom tool call", frozenset({"custom_tool_call"})),
    "function_call_output": ("function call", frozenset({"function_call", "shell_call"})),
}
_CALL_TYPES = frozenset({"shell_call", "apply_patch_call", "custom_tool_call", "function_call"})


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """The earlier items, oldest first, and the container that was used last. `known` are the ids of items that do not stand on the items
    themselves; `revision` and `end` are those of the conversation, where it is one; `spent` is what it has used up."""

    items: list[Json] = field(default_factory=list)
    container_id: str | None = None
    known: frozenset[str] = frozenset()
    revision: int | None = None
    end: int = 0
    spent: Spending = field(default_factory=Spending)


async def conversation_history(
    conversations: ConversationItems,
    *,
    tenant: str,
    conversation_id: str,
    provider: str,
    characters: int,
    end: int | None = None,
) -> History:
    """The items of a conversation, up to the number `end` where that is given. `provider` as in `history`. Raises NotFound."""
    opened = await conversations.opened(tenant, conversation_id, until=end)
    return History(
        items=_told(opened.items, provider, characters),
        container_id=opened.record.container_id,
        known=frozenset(row.id for row in opened.items),
        revision=opened.record.revision,
        end=opened.items[-1].number if opened.items else 0,
    )


def _told(rows: Sequence[ConversationItemRecord], provider: str, characters: int) -> list[Json]:
    """What responses said as in a chain; what clients put there as their input."""
    every = [row.item for row in rows if row.item is not None]
    given = iter(
        trimmed([row.item for row in rows if row.item and row.provider is None], earlier=every, characters=characters)
    )
    told: list[Json] = []
    for row in rows:
        if row.provider is None:
            told.append(next(given))
        elif row.item is not None and (row.provider == provider or not is_providers_alone(row.item)):
            told.append(as_input(row.item, characters))
    return told


async def history(
    responses: Responses,
    journal: Journal,
    conversations: ConversationItems,
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
    chain = await _chain(responses, kept, tenant, previous)
    items = _told(await conversations.before(chain[-1]), provider, characters)
    for record in reversed(chain):
        items += trimmed(record.input, earlier=items, characters=characters)
        said = (await replay(journal, record.id)).snapshot.items()
        is_own = record.provider == provider
        items += [as_input(item, characters) for item in said if is_own or not is_providers_alone(item)]
    spent = sum((spending_of(record.usage, record.spent) for record in chain), Spending())
    return History(items=items, container_id=chain[0].container_id, spent=spent)


async def _chain(
    responses: Responses, kept: Mapping[str, ResponseRecord], tenant: str, previous: str
) -> list[ResponseRecord]:
    """The responses of a chain, the newest first."""
    chain: list[ResponseRecord] = []
    wanted: str | None = previous
    characters = 0
    while wanted is not None:
        own = kept.get(wanted)
        found = (own, 0) if own is not None else await responses.get_with_length(tenant, wanted)
        if found is None:
            raise _not_found(wanted)
        record, length = found
        characters += length
        if record.status in _LIVE:
            raise RequestInvalid(
                f"The response {wanted} is still running. Wait for its end, then chain on it.",
                param="previous_response_id",
                code="previous_response_in_progress",
            )
        chain.append(record)
        if len(chain) > LONGEST_CHAIN:
            raise _too_long(f"The chain of responses is longer than {LONGEST_CHAIN}.")
        if characters > MOST_CHARACTERS:
            raise _too_long(f"The inputs of the chain of responses have more than {MOST_CHARACTERS} characters.")
        wanted = record.previous_response_id
    return chain


def spending_of(usage: Json | None, spent: Json | None) -> Spending:
    """What a response has used up, by its row."""
    counted = Usage.read(usage)
    own = msgspec.convert(spent or {}, Spending)
    return msgspec.structs.replace(own, tokens=0 if counted is None else counted.total_tokens)


def _too_long(problem: str) -> RequestInvalid:
    return RequestInvalid(
        f"{problem} Start a new one with the items that matter.",
        param="previous_response_id",
        code="conversation_too_long",
    )


def _not_found(response_id: str) -> NotFound:
    return NotFound(
        f"Previous response with id {response_id[:80]!r} not found. It was never stored (`store: false`), or was deleted.",
        param="previous_response_id",
        code="previous_response_not_found",
    )


def is_providers_alone(item: Json) -> bool:
    """Whether only the provider that made the item can read it."""
    return item["type"] == "reasoning" or (
        item["type"] == "compaction" and not is_sealed_here(item.get("encrypted_content"))
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
    """The items with an output for every shell call of ours, and every patch, that has none, because its run broke off. Every provider
    wants pairs."""
    answered = {item.get("call_id") for item in items if item["type"].endswith("_output")}
    whole: list[Json] = []
    for item in items:
        whole.append(item)
        if item["type"] == "apply_patch_call" and item["call_id"] not in answered:
            text = "The run broke off before the result was known. Look at the file."
            failed = {"type": "apply_patch_call_output", "call_id": item["call_id"], "status": "failed", "output": text}
            whole.append(failed)
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
    calls = {
        (item["call_id"], item["type"])
        for item in earlier
        if item["type"] in _CALL_TYPES and isinstance(item.get("call_id"), str)
    }
    for item in given:
        kind = item["type"]
        if kind in _CALLS_OF:
            name, kinds = _CALLS_OF[kind]
            if not any((item["call_id"], call) in calls for call in kinds):
                raise RequestInvalid(
                    f"No tool call found for {name} output with call_id {item['call_id']}.", param="input"
                )
        if kind in _CALL_TYPES:
            calls.add((item["call_id"], kind))
