"""Compactions in an input are opened within bounds: of bytes, of their count, and of what is read of the items before them."""

import zlib
from pathlib import Path
from typing import Any

import msgspec
import pytest

from limpet.core.errors import RequestInvalid
from limpet.responses.compaction.compacted import (
    MOST_PLAIN,
    CompactedContext,
    CompactionTooLarge,
    ContextSealer,
    digest,
)
from limpet.responses.compaction.expansion import MOST_COMPACTIONS, behind_newest, expanded_input
from limpet.store.sealing import Sealer

Json = dict[str, Any]


class CountedMessage(dict[str, Any]):
    """A message that counts how often its content is read."""

    def __init__(self, text: str) -> None:
        super().__init__(type="message", role="user", content=text)
        self.reads = 0

    def get(self, key: str, default: Any = None) -> Any:
        self.reads += key == "content"
        return super().get(key, default)


@pytest.fixture
def sealer(tmp_path: Path) -> ContextSealer:
    return ContextSealer(Sealer(tmp_path), tenant="acme")


def compaction(sealer: ContextSealer, text: str = "Go.", *, covered: tuple[str, ...] = ()) -> Json:
    items: list[Json] = [{"type": "message", "role": "user", "content": text}]
    return {
        "type": "compaction",
        "encrypted_content": sealer.seal(CompactedContext(items=items, covered=list(covered))),
    }


def test_what_opens_into_too_much_is_refused_without_being_opened_whole(sealer: ContextSealer) -> None:
    quarter = compaction(sealer, "a" * (MOST_PLAIN // 4))
    assert len(expanded_input([quarter] * 3, sealer, earlier=(), takes_sealed=False).opened) == 3
    with pytest.raises(RequestInvalid) as refused:
        expanded_input([quarter] * 50, sealer, earlier=(), takes_sealed=False)
    assert (refused.value.param, refused.value.code) == ("input[3].encrypted_content", "context_length_exceeded")


def test_no_more_is_sealed_than_opens(sealer: ContextSealer) -> None:
    with pytest.raises(CompactionTooLarge):
        compaction(sealer, "a" * MOST_PLAIN)


def test_a_stored_compaction_that_is_too_large_stands_for_nothing(tmp_path: Path, sealer: ContextSealer) -> None:
    plain = msgspec.json.encode(CompactedContext(items=[{"content": "a" * MOST_PLAIN}], covered=[]))
    large: Json = {"type": "compaction", "encrypted_content": sealer.sealed(zlib.compress(plain))}
    assert behind_newest([large] * 3, sealer) == [large] * 3


def test_an_input_has_no_more_than_so_many(sealer: ContextSealer) -> None:
    one = compaction(sealer)
    items = [one] * MOST_COMPACTIONS
    assert len(expanded_input(items, sealer, earlier=(), takes_sealed=False).opened) == MOST_COMPACTIONS
    with pytest.raises(RequestInvalid) as refused:
        expanded_input([*items, one], sealer, earlier=(), takes_sealed=False)
    assert refused.value.param == f"input[{MOST_COMPACTIONS}]"


def test_each_item_is_read_once_however_many_compactions_follow(sealer: ContextSealer) -> None:
    messages = [CountedMessage(f"Message {number}.") for number in range(20)]
    known = digest({"type": "message", "role": "user", "content": "Message 7."})
    one = compaction(sealer, covered=(known,))
    told = expanded_input([*messages[10:], one, one, one], sealer, earlier=messages[:10], takes_sealed=False)
    assert [message.reads for message in messages] == [1] * 20
    assert [item["content"] for item in told.items[:20]] == [
        *(f"Message {number}." for number in range(20) if number != 7),
        "Go.",
    ]
