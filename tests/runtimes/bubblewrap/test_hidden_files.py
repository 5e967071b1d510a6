"""What is concluded of files that no look finds, and whom nobody may blame for what others write."""

import os
from pathlib import Path

from limpet.runtimes.bubblewrap.limits.disk_usage import Usage
from limpet.runtimes.bubblewrap.limits.hidden_files import HiddenFiles, HiddenFilesLedger

_MIB = 1 << 20


def _looks(tmp_path: Path, *, writes: int, hidden: int = 1, others: int = 0, found: int = 0) -> list[int]:
    """Five looks; before each but the first the disk loses 1 MiB, this process writes so many bytes, and looks find so many more in
    the box and in others."""
    unseen, told = HiddenFiles(), []
    for at in range(5):
        if at:
            (tmp_path / "written").write_bytes(bytes(writes))
        usage = Usage(at * found, hidden)
        told.append(unseen.after(usage, free=(9 - at) * _MIB, others=at * others, processes=[os.getpid()]))
    return told


def test_what_the_disk_loses_counts_from_the_third_look_in_a_row_on(tmp_path: Path) -> None:
    assert _looks(tmp_path, writes=_MIB) == [0, 0, 2 * _MIB, 3 * _MIB, 4 * _MIB]


def test_nothing_counts_where_nothing_is_hidden(tmp_path: Path) -> None:
    assert _looks(tmp_path, writes=_MIB, hidden=0) == [0] * 5


def test_what_looks_have_found_in_this_box_or_in_others_counts_no_second_time(tmp_path: Path) -> None:
    assert _looks(tmp_path, writes=_MIB, found=_MIB) == [0] * 5
    assert _looks(tmp_path, writes=_MIB, others=_MIB) == [0] * 5


def test_who_writes_little_is_not_blamed_for_what_the_host_writes(tmp_path: Path) -> None:
    assert _looks(tmp_path, writes=100)[-1] < _MIB // 10


def test_all_is_forgotten_once_nothing_is_hidden_any_more(tmp_path: Path) -> None:
    unseen, told = HiddenFiles(), []
    for free, hidden in ((9, 1), (8, 1), (7, 1), (7, 0), (7, 1), (7, 1), (7, 1)):
        (tmp_path / "written").write_bytes(bytes(2 * _MIB))
        told.append(unseen.after(Usage(0, hidden), free=free * _MIB, others=0, processes=[os.getpid()]))

    assert told == [0, 0, 2 * _MIB, 0, 0, 0, 0]


def test_the_ledger_keeps_what_boxes_used_that_have_ended() -> None:
    ledger = HiddenFilesLedger()
    for name, used in (("a", 1), ("b", 20), ("c", 300), ("b", 40)):
        ledger.note(name, used)
    ledger.close("c")

    assert (ledger.others("a"), ledger.others("b"), ledger.others("new")) == (340, 301, 341)
