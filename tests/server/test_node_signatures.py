"""What one gateway signs for another lets in that one request, there, once, and soon."""

from pathlib import Path

import pytest

from limpet.core.secret import Secret
from limpet.server.node_signatures import HEADER, LONGEST, WINDOW, ForwardedCaller, ForwardRefused, NodeSigner
from limpet.store.sealing import Sealer

CALLER = ForwardedCaller(tenant="acme", scopes=("containers",), key_id="key_1", prefix="/v1/x/~y/", scheme="https")
TARGET = b"/v1/containers/cntr_1/files?limit=3"


class Nodes:
    """Two gateways with the same time, which the test turns; `keys` of each, the newest first."""

    def __init__(self, home: Path, *, one: tuple[str, ...] = ("shared",), other: tuple[str, ...] = ("shared",)) -> None:
        self.now = 1_000_000_000
        self.one, self.other = (self._signer(home, keys, name) for keys, name in ((one, "one"), (other, "other")))

    def _signer(self, home: Path, keys: tuple[str, ...], name: str) -> NodeSigner:
        newest, previous = (Secret(keys[0]), Secret(keys[1]) if len(keys) > 1 else None)
        return NodeSigner(Sealer(home, key=newest, previous=previous), home=name, now=lambda: self.now)

    def signed(self) -> str:
        return self.one.sign(CALLER, to="other", method="GET", target=TARGET)

    def check(self, value: str, *, method: str = "GET", target: bytes = TARGET) -> ForwardedCaller:
        return self.other.check(value, method=method, target=target)


def test_a_signed_request_is_let_in_once_with_its_caller(tmp_path: Path) -> None:
    nodes = Nodes(tmp_path)
    value = nodes.signed()
    assert nodes.check(value) == CALLER
    with pytest.raises(ForwardRefused, match="came before"):
        nodes.check(value)
    nodes.now += 2 * WINDOW * 1_000_000 + 1  # when it is forgotten, its moment refuses it
    with pytest.raises(ForwardRefused, match="ago"):
        nodes.check(value)
    assert nodes.check(nodes.signed()) == CALLER


@pytest.mark.parametrize("late", [WINDOW * 1_000_000 + 1, -WINDOW * 1_000_000 - 1])
def test_one_of_another_time_is_refused(tmp_path: Path, late: int) -> None:
    nodes = Nodes(tmp_path)
    value = nodes.signed()
    nodes.now += late
    with pytest.raises(ForwardRefused, match="ago"):
        nodes.check(value)


def test_it_is_worth_nothing_for_another_request_or_gateway(tmp_path: Path) -> None:
    nodes = Nodes(tmp_path)
    value = nodes.signed()
    for change in ({"method": "DELETE"}, {"target": TARGET + b"0"}, {"target": b"/v1/responses"}):
        with pytest.raises(ForwardRefused, match="not signed"):
            nodes.check(value, **change)  # type: ignore[arg-type]
    with pytest.raises(ForwardRefused, match="another gateway"):
        nodes.one.check(value, method="GET", target=TARGET)
    text, _, digest = value.partition(".")
    for forged in (
        f"{text}.",
        f"{text}",
        f".{digest}",
        f"A{text}.{digest}",
        f"{text}.{'0' if digest[0] != '0' else '1'}{digest[1:]}",
        "",
        "é",
        "x" * (LONGEST + 1),
    ):
        with pytest.raises(ForwardRefused, match="not signed") as refused:
            nodes.check(forged)
        assert digest not in str(refused.value)
        assert "acme" not in str(refused.value)
    assert nodes.check(value) == CALLER  # none of these used it up


def test_gateways_understand_each_other_while_their_key_is_changed(tmp_path: Path) -> None:
    rotated = Nodes(tmp_path, one=("old", "new"), other=("new", "old"))
    assert rotated.check(rotated.signed()) == CALLER
    strangers = Nodes(tmp_path, one=("mine",), other=("theirs",))
    with pytest.raises(ForwardRefused, match="not signed"):
        strangers.check(strangers.signed())
    assert HEADER.lower() == HEADER
