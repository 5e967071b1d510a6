"""Commands and inputs as large as the system takes: whole, and in a time that grows with them and no faster."""

from collections.abc import AsyncIterator

import anyio
import pytest

from limpet.core.errors import BadCommand
from limpet.workspace.opening import open_in
from limpet.workspace.workspace import Workspace
from tests.support.homes import home_apart
from tests.support.runtimes import opened

pytestmark = pytest.mark.anyio
MIB = 1 << 20


@pytest.fixture(params=["local", "bubblewrap"])
async def box(request: pytest.FixtureRequest) -> AsyncIterator[Workspace]:
    with home_apart() as home:
        async with opened(request.param, home) as runtime, open_in(runtime) as box:
            yield box


async def test_fifty_megabytes_of_input_arrive_within_seconds(box: Workspace) -> None:
    with anyio.fail_after(5):
        result = await box.run(["wc", "-c"], stdin=b"a" * (50 * MIB))

    assert result.stdout == b"%d\n" % (50 * MIB)


async def test_arguments_of_nearly_two_megabytes_arrive(box: Workspace) -> None:
    result = await box.run(["printf", "%s", *["x" * 65_000] * 31])

    assert (result.exit_code, len(result.stdout)) == (0, 31 * 65_000)


async def test_many_short_arguments_that_no_program_can_receive_are_refused(box: Workspace) -> None:
    with pytest.raises(BadCommand, match="too long"):
        await box.run(["true", *["x"] * 210_000])
