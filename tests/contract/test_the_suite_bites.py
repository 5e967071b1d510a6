"""The conformance suite finds each deliberate fault, and finds it by the cases that ask for it: no more, no fewer."""

from pathlib import Path

import anyio
import pytest

from limpet.core.ports import Offer
from limpet.runtimes.memory import MemoryRuntime
from limpet.testing.cases_commands import COMMANDS
from limpet.testing.cases_endings import ENDINGS
from limpet.testing.cases_output import OUTPUT
from limpet.testing.lab import Lab, expect
from limpet.testing.run import ALL_CASES
from limpet.testing.suite import (
    Case,
    Cases,
    Failed,
    GapClosed,
    KnownGap,
    Passed,
    Result,
    Skipped,
    run_case,
    unknown_gaps,
)
from tests.support.bad_runtimes import Chatty, Deaf, Faulty, Forgetful, Greedy, Leaky, Merging

AT_ONCE = 4
BOUND = 6.0
# Each fault is one of a command's process; files and sandboxes behind it are those of `Faulty`, which is asked everything.
ABOUT_COMMANDS = (*OUTPUT.cases, *COMMANDS.cases, *ENDINGS.cases)

CAUGHT: dict[type[Faulty], set[str]] = {
    Faulty: set(),
    Leaky: {
        "a_timeout_kills_the_children_too",
        "a_timeout_kills_the_grandchildren_too",
        "a_timeout_kills_what_called_setsid",
        "a_timeout_kills_an_orphan_with_a_session_and_an_environment_of_its_own",
        "an_abort_kills_the_children_too",
        "an_abort_kills_what_called_setsid",
        "an_abort_kills_an_orphan_with_a_session_and_an_environment_of_its_own",
    },
    Merging: {
        "a_program_that_does_not_exist_is_a_result_with_127",
        "a_syntax_error_is_a_result_with_2",
        "a_timeout_ends_it_and_keeps_what_it_printed",
        "all_256_byte_values_arrive_as_they_are",
        "output_can_be_read_again_from_any_byte",
        "output_is_kept_while_nobody_reads",
        "stdout_and_stderr_stay_apart",
        "ten_megabytes_on_both_streams_at_once_arrive_whole",
        "the_offsets_of_a_stream_have_no_gaps",
    },
    Deaf: {
        "aborting_twice_is_quiet",
        "an_abort_at_once_ends_it",
        "an_abort_ends_it_and_keeps_what_it_printed",
        "an_abort_kills_an_orphan_with_a_session_and_an_environment_of_its_own",
        "an_abort_kills_the_children_too",
        "an_abort_kills_what_called_setsid",
        "an_abort_works_while_a_reader_lags",
    },
    Forgetful: {
        "a_reader_that_does_not_ask_slows_the_command",
        "given_input_arrives_byte_for_byte_and_ends",
        "output_is_kept_while_nobody_reads",
        "ten_megabytes_on_both_streams_at_once_arrive_whole",
    },
    Greedy: {"a_reader_that_does_not_ask_slows_the_command"},
    Chatty: {"a_timeout_ends_it_and_keeps_what_it_printed"},
}


@pytest.mark.anyio
@pytest.mark.parametrize("bad", CAUGHT, ids=lambda bad: bad.__name__)
async def test_a_bad_runtime_is_caught_by_exactly_these_cases(bad: type[Faulty], tmp_path: Path) -> None:
    failed: dict[str, str] = {}
    limiter = anyio.CapacityLimiter(AT_ONCE)

    async def ask(one: Case) -> None:
        async with limiter:
            (tmp_path / one.name).mkdir()
            result = await run_case(one, runtime, directory=tmp_path / one.name, bound=BOUND)
            if isinstance(result, Failed):
                failed[one.name] = result.why

    async with bad() as runtime, anyio.create_task_group() as tasks:
        for case in ALL_CASES if bad is Faulty else ABOUT_COMMANDS:
            tasks.start_soon(ask, case)

    assert set(failed) == CAUGHT[bad], failed


OWN = Cases()


@OWN.case()
async def it_holds(lab: Lab) -> None:
    await lab.run("true")


@OWN.case()
async def it_is_broken(lab: Lab) -> None:
    expect(False, "nothing is so")


@OWN.case(Offer.PTY)
async def it_rests_on_a_terminal(lab: Lab) -> None:
    expect(False, "this must not run")


@OWN.case()
async def it_never_ends(lab: Lab) -> None:
    await anyio.sleep_forever()


@pytest.mark.anyio
@pytest.mark.parametrize(
    "name, gap, wanted",
    [
        ("it_holds", None, Passed()),
        ("it_holds", "so far", GapClosed("so far")),
        ("it_is_broken", None, Failed("PromiseBroken: nothing is so")),
        ("it_is_broken", "so far", KnownGap("so far")),
        ("it_rests_on_a_terminal", None, Skipped("the runtime memory does not offer pty")),
        ("it_never_ends", None, Failed("it took longer than 0.1 s")),
    ],
)
async def test_a_case_has_one_of_five_results(name: str, gap: str | None, wanted: Result, tmp_path: Path) -> None:
    [case] = [one for one in OWN.cases if one.name == name]

    async with MemoryRuntime() as runtime:
        gaps = {} if gap is None else {name: gap}
        assert await run_case(case, runtime, directory=tmp_path, gaps=gaps, bound=0.1) == wanted


def test_a_gap_that_names_no_case_is_found() -> None:
    assert unknown_gaps({"it_holds": "so far", "it_held": "so far"}, OWN.cases) == ["it_held"]
