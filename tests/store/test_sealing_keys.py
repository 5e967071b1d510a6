"""What is sealed opens with its key, for its row, and with no other."""

import stat
from pathlib import Path

import pytest

from limpet.core.errors import HomeUnusable
from limpet.core.secret import Secret
from limpet.store.sealing import KEY_FILE, SealBroken, Sealer


def test_a_sealer_of_the_same_home_opens_what_another_sealed(tmp_path: Path) -> None:
    sealed = Sealer(tmp_path).seal(b"plain", row="compaction default")
    assert b"plain" not in sealed
    assert Sealer(tmp_path).unseal(sealed, row="compaction default") == b"plain"
    assert stat.S_IMODE((tmp_path / KEY_FILE).stat().st_mode) == 0o600


@pytest.mark.parametrize("place", [0, 1, 5, 14, -1])
def test_a_changed_byte_breaks_the_seal(tmp_path: Path, place: int) -> None:
    sealed = bytearray(Sealer(tmp_path).seal(b"plain", row="a"))
    sealed[place] ^= 1
    with pytest.raises(SealBroken):
        Sealer(tmp_path).unseal(bytes(sealed), row="a")


@pytest.mark.parametrize("sealed", [b"", b"\x01", b"\x01" + b"n" * 12, b"garbage of some length, of no version"])
def test_what_was_never_sealed_is_broken(tmp_path: Path, sealed: bytes) -> None:
    with pytest.raises(SealBroken):
        Sealer(tmp_path).unseal(sealed, row="a")


def test_it_opens_for_its_own_row_only(tmp_path: Path) -> None:
    sealed = Sealer(tmp_path).seal(b"plain", row="compaction acme")
    with pytest.raises(SealBroken):
        Sealer(tmp_path).unseal(sealed, row="compaction other")


def test_a_home_of_its_own_has_a_key_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    sealed = Sealer(tmp_path / "a").seal(b"plain", row="a")
    with pytest.raises(SealBroken):
        Sealer(tmp_path / "b").unseal(sealed, row="a")


def test_the_key_before_opens_and_no_longer_seals(tmp_path: Path) -> None:
    first, second = Secret("first key of at least 32 characters"), Secret("second key of at least 32 characters")
    before = Sealer(tmp_path, key=first).seal(b"plain", row="a")
    rotated = Sealer(tmp_path, key=second, previous=first)
    assert rotated.unseal(before, row="a") == b"plain"
    with pytest.raises(SealBroken):
        Sealer(tmp_path, key=first).unseal(rotated.seal(b"plain", row="a"), row="a")
    assert not (tmp_path / KEY_FILE).exists()


def test_a_file_without_a_key_is_refused(tmp_path: Path) -> None:
    (tmp_path / KEY_FILE).write_text("\n")
    with pytest.raises(HomeUnusable, match="holds no key"):
        Sealer(tmp_path).seal(b"plain", row="a")
