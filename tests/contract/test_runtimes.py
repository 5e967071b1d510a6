"""Every runtime is asked every promise of the conformance suite, each in a fresh sandbox."""

from pathlib import Path

import pytest

from limpet.testing.run import ALL_CASES
from limpet.testing.suite import Case, Failed, GapClosed, KnownGap, Passed, Skipped, run_case, unknown_gaps
from tests.support.runtimes import GAPS, NAMES, opened


@pytest.mark.anyio
@pytest.mark.promise("hadrian-empty-egress-list-is-closed-on-every-runtime")
@pytest.mark.parametrize("case", ALL_CASES, ids=lambda case: case.name)
@pytest.mark.parametrize("name", NAMES)
async def test_promise(name: str, case: Case, room: Path, home: Path) -> None:
    async with opened(name, home) as runtime:
        result = await run_case(case, runtime, directory=room, gaps=GAPS.get(name))
    match result:
        case Passed():
            pass
        case Skipped(reason):
            pytest.skip(reason)
        case KnownGap(reason):
            pytest.xfail(reason)
        case Failed(why):
            pytest.fail(why)
        case GapClosed(reason):
            pytest.fail(f"It is listed as a known gap ({reason}), and it passes. Take it off the list.")


@pytest.mark.parametrize("name", GAPS)
def test_every_known_gap_names_a_case_and_a_reason(name: str) -> None:
    assert unknown_gaps(GAPS[name], ALL_CASES) == []
    assert all(reason for reason in GAPS[name].values())


def test_the_names_of_cases_are_unique() -> None:
    names = [case.name for case in ALL_CASES]
    assert sorted(set(names)) == sorted(names)
