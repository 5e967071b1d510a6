"""What a siege makes of its measurements; the siege itself is `./dev siege`."""

import math
from dataclasses import replace

import pytest

from tests.siege import judge
from tests.siege.attack import load, names, title

QUIET = judge.Window(
    commands=judge.Durations(seconds=(0.1,) * 99 + (3.0,)), livez=judge.Durations(seconds=(0.01,) * 100)
)
HELD = judge.Siege(
    attack="x",
    user="root",
    during=QUIET,
    memory_before=judge.MIB,
    memory_peak=9 * judge.MIB,
    memory_after=2 * judge.MIB,
)


@pytest.mark.parametrize("share, found", [(0.5, 50.0), (0.99, 99.0), (1.0, 100.0), (0.0, 1.0)])
def test_a_percentile_is_the_nearest_rank(share: float, found: float) -> None:
    assert judge.Durations(seconds=tuple(float(each) for each in range(100, 0, -1))).at(share) == found


def test_where_nothing_was_measured_nothing_was_in_time() -> None:
    assert judge.Durations(seconds=()).at(0.5) == math.inf


def test_one_slow_command_in_a_hundred_is_within_the_promise() -> None:
    assert judge.complaints(HELD) == []


@pytest.mark.parametrize(
    "change, word",
    [
        ({"ended": ("the gateway",)}, "the gateway ended"),
        ({"broken": ("a claim does not hold",)}, "a claim does not hold"),
        ({"during": replace(QUIET, failures=("503",))}, "the first: 503"),
        (
            {"during": replace(QUIET, commands=judge.Durations(seconds=(0.1, 1.01)))},
            "p99 of others' commands is 1010 ms",
        ),
        ({"during": replace(QUIET, commands=judge.Durations(seconds=()))}, "p99 of others' commands is never"),
        ({"during": replace(QUIET, livez=judge.Durations(seconds=(0.101,)))}, "p99 of /livez is 101 ms"),
        ({"late": ("a claim on time does not hold",)}, "a claim on time does not hold"),
        ({"memory_after": 2 * judge.MIB + judge.MEMORY_BOUND}, "did not come back"),
        ({"logged": judge.LOG_BOUND + 1}, "were logged"),
    ],
)
def test_whatever_is_beyond_the_promise_is_said(change: dict[str, object], word: str) -> None:
    (said,) = judge.complaints(replace(HELD, **change))  # type: ignore[arg-type]  # fields of judge.Siege
    assert word in said


SLOW = replace(HELD, during=replace(QUIET, livez=judge.Durations(seconds=(0.101,))))
ENDED = replace(HELD, ended=("the gateway",))


@pytest.mark.parametrize(
    "sieges, found",
    [
        ([HELD], set()),
        ([SLOW], {"x"}),
        ([SLOW, HELD], set()),
        ([SLOW, SLOW], {"x"}),
        ([SLOW, SLOW, HELD], set()),
        ([replace(SLOW, began_calm=False)] * 3, set()),
        ([replace(SLOW, began_calm=False), SLOW], {"x"}),
        ([replace(ENDED, began_calm=False)], {"x"}),
        ([SLOW, replace(HELD, attack="y")], {"x"}),
        ([ENDED, HELD], {"x"}),  # no noise of the machine ends a process
        ([replace(HELD, memory_after=judge.MIB + judge.MEMORY_BOUND + 1), HELD], {"x"}),
        ([replace(HELD, broken=("a claim does not hold",)), HELD], {"x"}),
        ([replace(HELD, during=replace(QUIET, failures=("503",))), HELD], {"x"}),
    ],
)
def test_a_fault_is_red_and_a_delay_where_it_comes_each_time(sieges: list[judge.Siege], found: set[str]) -> None:
    assert judge.red(sieges) == found


@pytest.mark.parametrize(
    "sieges, again",
    [
        ([], False),
        ([HELD], False),
        ([SLOW], True),
        ([SLOW, SLOW], True),
        ([SLOW, SLOW, SLOW], False),
        ([SLOW, HELD], False),
        ([ENDED], False),
        ([replace(SLOW, ended=("the gateway",))], False),
        ([SLOW, replace(HELD, attack="y"), SLOW], True),
    ],
)
def test_an_attack_is_tried_three_times_where_others_only_waited(sieges: list[judge.Siege], again: bool) -> None:
    assert judge.comes_again(sieges, "x") == again


def test_a_machine_is_calm_where_half_of_the_bounds_holds_without_an_attack() -> None:
    assert judge.is_calm(QUIET)
    assert not judge.is_calm(replace(QUIET, failures=("503",)))
    assert not judge.is_calm(replace(QUIET, livez=judge.Durations(seconds=(0.051,))))
    assert not judge.is_calm(replace(QUIET, commands=judge.Durations(seconds=(0.51,))))
    assert not judge.is_calm(replace(QUIET, commands=judge.Durations(seconds=())))


def test_the_table_shows_the_baseline_and_why_a_siege_is_red() -> None:
    lines = judge.table(QUIET, [HELD, replace(HELD, attack="y", ended=("the gateway",)), SLOW])
    assert [line.split()[0] for line in lines] == ["attack", "(quiet)", "x", "y", "the", "x", "p99"]
    assert [line.split()[-1] for line in (lines[2], lines[3], lines[5])] == ["holds", "RED", "slow"]


@pytest.mark.parametrize("name", names())
def test_an_attack_has_a_title_and_one_way_to_attack(name: str) -> None:
    module = load(name)
    assert "\n" not in title(name)
    assert hasattr(module, "COMMAND") != hasattr(module, "attack")
