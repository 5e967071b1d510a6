"""All cases, and a way to run them without a test framework."""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from limpet.core.ports import Runtime
from limpet.testing.cases_commands import COMMANDS
from limpet.testing.cases_endings import ENDINGS
from limpet.testing.cases_files import FILES
from limpet.testing.cases_output import OUTPUT
from limpet.testing.cases_sandboxes import SANDBOXES
from limpet.testing.suite import Case, Gaps, Result, run_case

ALL_CASES: tuple[Case, ...] = tuple(
    case for cases in (OUTPUT, COMMANDS, ENDINGS, FILES, SANDBOXES) for case in cases.cases
)


async def run_suite(
    runtime: Runtime, *, directory: Path, gaps: Gaps | None = None, cases: Sequence[Case] = ALL_CASES
) -> AsyncIterator[tuple[Case, Result]]:
    """Ask an open runtime every promise, one after the other; `directory` is an existing host directory to work in,
    which the users of sandboxes may pass through (mode 0711 or wider).

    `gaps` are the runtime's known ones; `Failed` and `GapClosed` are what should not be.
    """
    for case in cases:
        room = directory / case.name
        room.mkdir()
        yield case, await run_case(case, runtime, directory=room, gaps=gaps)
