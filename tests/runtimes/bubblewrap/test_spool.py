"""The agent's store of output: exact at every offset, in memory and in the file, and back to nothing when all is forgotten."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from limpet.runtimes.agent.spool import BLOCK, Spool, SpooledOutput


@pytest.fixture
def descriptor(tmp_path: Path) -> Iterator[int]:
    opened = os.open(tmp_path / "spool", os.O_RDWR | os.O_CREAT)
    yield opened
    os.close(opened)


def _read(stored: SpooledOutput, offset: int, step: int) -> bytes:
    pieces = []
    while offset < stored.end:
        pieces.append(stored.read(offset, step))
        offset += len(pieces[-1])
    return b"".join(pieces)


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(st.integers(1, 3 * BLOCK), min_size=1, max_size=6), st.integers(1000, 2 * BLOCK), st.data())
def test_what_was_appended_is_read_from_any_offset(
    descriptor: int, sizes: list[int], step: int, data: st.DataObject
) -> None:
    offset = data.draw(st.integers(0, sum(sizes)))  # before anything is written: a draw may end the example
    spool = Spool(descriptor)
    first, second = SpooledOutput(spool), SpooledOutput(spool)
    written = [os.urandom(size) for size in sizes]
    for piece in written:
        first.append(piece)
        second.append(piece[::-1])
    whole = b"".join(written)

    assert _read(first, offset, step) == whole[offset:]
    assert _read(second, 0, step) == b"".join(piece[::-1] for piece in written)

    first.clear()
    second.clear()
    assert os.fstat(descriptor).st_size == 0


def test_freed_blocks_are_used_again_before_the_file_grows(descriptor: int) -> None:
    spool = Spool(descriptor)
    old, kept = SpooledOutput(spool), SpooledOutput(spool)
    old.append(b"a" * 4 * BLOCK)
    kept.append(b"b" * BLOCK)
    size = os.fstat(descriptor).st_size

    old.clear()
    new = SpooledOutput(spool)
    new.append(b"c" * 4 * BLOCK)

    assert os.fstat(descriptor).st_size == size
    assert _read(kept, 0, BLOCK) == b"b" * BLOCK


def test_the_oldest_block_can_go_and_the_offsets_stay(descriptor: int) -> None:
    stored = SpooledOutput(Spool(descriptor))
    stored.append(b"a" * BLOCK + b"b" * BLOCK + b"c")

    stored.drop_oldest()

    assert (stored.start, stored.end) == (BLOCK, 2 * BLOCK + 1)
    assert _read(stored, BLOCK, BLOCK) == b"b" * BLOCK + b"c"


def test_a_full_disk_keeps_output_in_memory_until_there_is_room(tmp_path: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("this host has no /dev/full")
    full = os.open("/dev/full", os.O_RDWR)
    room = os.open(tmp_path / "spool", os.O_RDWR | os.O_CREAT)
    stored = SpooledOutput(Spool(full))
    written = os.urandom(3 * BLOCK + 7)

    stored.append(written)
    while_full = (stored.settle(), _read(stored, 5, BLOCK))
    os.dup2(room, full)
    afterwards = (stored.settle(), _read(stored, 5, BLOCK))

    assert while_full == (False, written[5:])
    assert afterwards == (True, written[5:])
    assert os.fstat(room).st_size == 3 * BLOCK
    os.close(full)
    os.close(room)


def test_what_lies_together_in_the_file_is_read_at_once_also_in_blocks_that_are_used_again(descriptor: int) -> None:
    spool = Spool(descriptor)
    old, kept, new = SpooledOutput(spool), SpooledOutput(spool), SpooledOutput(spool)
    old.append(b"a" * 4 * BLOCK)
    kept.append(b"b" * BLOCK)
    assert old.read(BLOCK - 1, 3 * BLOCK) == b"a" * 3 * BLOCK
    old.clear()

    new.append(b"c" * 5 * BLOCK)

    assert new.read(1, 8 * BLOCK) == b"c" * (4 * BLOCK - 1)
    assert _read(new, 0, 8 * BLOCK) == b"c" * 5 * BLOCK
