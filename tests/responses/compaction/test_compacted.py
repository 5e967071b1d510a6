"""A sealed context opens for the tenant and with the key that it was made with, and for no other."""

from pathlib import Path
from typing import Any

import pytest

from limpet.core.secret import Secret
from limpet.responses.compaction.compacted import CompactedContext, ContextOpener, ContextSealer, digest
from limpet.store.sealing import Sealer

ITEMS: list[dict[str, Any]] = [{"type": "message", "role": "user", "content": "Go."}]
CONTEXT = CompactedContext(items=ITEMS, covered=["a"])
FIRST, SECOND = Secret("first key of at least 32 characters"), Secret("second key of at least 32 characters")


def test_it_opens_for_its_tenant_alone(tmp_path: Path) -> None:
    sealer = Sealer(tmp_path)
    text = ContextSealer(sealer, tenant="acme").seal(CONTEXT)
    assert ContextOpener(ContextSealer(sealer, tenant="acme")).open(text) == CONTEXT
    assert ContextOpener(ContextSealer(sealer, tenant="other")).open(text) is None


def test_it_opens_with_the_key_before_and_with_no_stranger(tmp_path: Path) -> None:
    text = ContextSealer(Sealer(tmp_path, key=FIRST), tenant="acme").seal(CONTEXT)
    assert (
        ContextOpener(ContextSealer(Sealer(tmp_path, key=SECOND, previous=FIRST), tenant="acme")).open(text) == CONTEXT
    )
    assert ContextOpener(ContextSealer(Sealer(tmp_path, key=SECOND), tenant="acme")).open(text) is None


@pytest.mark.parametrize(
    "text", [None, 7, "", "limpet.1.", "limpet.1.é", "limpet.1.%%%", "limpet.1." + "A" * 99, "gAAAA"]
)
def test_what_was_not_sealed_does_not_open(tmp_path: Path, text: object) -> None:
    assert ContextOpener(ContextSealer(Sealer(tmp_path), tenant="acme")).open(text) is None


def test_a_message_is_known_again_in_whatever_form_it_comes_back() -> None:
    forms: list[dict[str, Any]] = [
        {"type": "message", "role": "user", "content": "Go."},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Go."}], "id": "msg_1"},
        {"type": "message", "role": "user", "content": [{"type": "text", "text": "Go."}], "status": "completed"},
    ]
    assert len({digest(form) for form in forms}) == 1
    assert digest({**forms[0], "role": "assistant"}) != digest(forms[0])
