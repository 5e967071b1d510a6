"""Boxes of one name that are asked for at once."""

import anyio
import pytest

from limpet.core.command import Exited
from limpet.core.errors import BootFailed
from limpet.core.ports import Sandbox, SandboxSpec
from limpet.runtimes.bubblewrap import BubblewrapRuntime
from tests.runtimes.bubblewrap.boxes import run

pytestmark = pytest.mark.anyio


async def test_of_two_at_once_one_lives_and_the_other_is_refused(runtime: BubblewrapRuntime) -> None:
    made: list[Sandbox] = []
    refused: list[str] = []

    async def create() -> None:
        try:
            made.append(await runtime.create(SandboxSpec(name="twice")))
        except BootFailed as error:
            refused.append(str(error))

    async with anyio.create_task_group() as group:
        group.start_soon(create)
        group.start_soon(create)

    assert (len(made), len(refused)) == (1, 1)
    assert "lives already" in refused[0]
    assert (await run(made[0], "echo still"))[:2] == (Exited(0), "still\n")
    await made[0].destroy()
