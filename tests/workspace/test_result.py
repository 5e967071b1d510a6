"""What is kept of a command's output."""

import gc
import os
from pathlib import Path

import pytest

from limpet.core.command import Aborted, Exited, Lost, Outcome, TimedOut
from limpet.workspace.result import KEPT_IN_MEMORY, KeptOutput, RunResult


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_output_longer_than_memory_comes_back_whole_from_a_file_without_a_name() -> None:
    whole = os.urandom(KEPT_IN_MEMORY * 3 + 17)
    kept = KeptOutput()
    for start in range(0, len(whole), 70_001):
        kept.add(whole[start : start + 70_001])

    assert kept.read() == whole
    assert kept.size == len(whole)
    assert list(Path("/tmp").glob("limpet-output-*")) == []


def test_a_range_is_read_across_the_border_between_file_and_memory() -> None:
    whole = os.urandom(KEPT_IN_MEMORY + 1)
    kept = KeptOutput()
    kept.add(whole)
    kept.add(b"tail")

    border = len(whole)
    assert kept.read(border - 3, 5) == whole[-3:] + b"ta"
    assert kept.read(border + 1) == b"ail"
    assert kept.read(border + 99) == b""


def test_the_file_goes_with_the_result() -> None:
    gc.collect()
    before = descriptors()
    kept = KeptOutput()
    kept.add(bytes(KEPT_IN_MEMORY + 1))
    assert descriptors() == before + 1

    del kept
    gc.collect()

    assert descriptors() == before


def test_what_keeps_nothing_still_counts() -> None:
    kept = KeptOutput(keeps=False)
    kept.add(b"12345")

    assert (kept.read(), kept.size) == (b"", 5)


@pytest.mark.parametrize(
    "outcome, code, succeeded",
    [
        (Exited(0), 0, True),
        (Exited(7), 7, False),
        (TimedOut(), 124, False),
        (Aborted(), -1, False),
        (Lost("It is gone."), 125, False),
    ],
)
def test_a_result_says_its_outcome_as_a_number(outcome: Outcome, code: int, succeeded: bool) -> None:
    result = RunResult(outcome=outcome, duration=0.1, kept={"stdout": KeptOutput(), "stderr": KeptOutput()})

    assert (result.exit_code, result.run_succeeded) == (code, succeeded)


def test_a_callback_that_failed_makes_the_run_no_success_but_leaves_the_exit_code() -> None:
    result = RunResult(
        outcome=Exited(0),
        duration=0.1,
        kept={"stdout": KeptOutput(), "stderr": KeptOutput()},
        callback_errors=(ValueError("x"),),
    )

    assert (result.exit_code, result.run_succeeded) == (0, False)
