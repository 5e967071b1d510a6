"""The shell without rules: what it gives of a command is the sandbox's own, and nothing is judged, redacted or recorded."""

import logging
from collections.abc import AsyncIterator

import anyio
import pytest

from limpet.core.command import Aborted, Command, Exited, Script
from limpet.core.ports import Sandbox, SandboxSpec, WhileOwned
from limpet.runtimes.local.runtime import LocalRuntime
from limpet.testing.lab import eventually
from limpet.workspace.audit import AUDIT_LOG
from limpet.workspace.shell import SandboxShell

pytestmark = pytest.mark.anyio

TOKEN = "ghp_" + "a1B2" * 9


@pytest.fixture
async def sandbox() -> AsyncIterator[Sandbox]:
    async with LocalRuntime() as runtime:
        made = await runtime.create(SandboxSpec(name="shell", lifetime=WhileOwned()))
        yield made
        await made.destroy()


async def test_commands_and_files_are_the_sandboxes_own(sandbox: Sandbox, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, AUDIT_LOG)
    shell = SandboxShell(sandbox)

    result = await shell.run(f"echo {TOKEN}; echo err >&2; echo kept > file; exit 3")
    started = await shell.start(Command(what=Script(f"echo {TOKEN}")), "exec_mine")
    printed = b"".join([chunk.data async for chunk in started.output()])
    found = await shell.find("exec_mine")

    assert (result.stdout, result.stderr, result.exit_code) == (f"{TOKEN}\n".encode(), b"err\n", 3)
    assert printed == f"{TOKEN}\n".encode()
    assert found is not None
    assert await found.wait() == Exited(0)
    assert await shell.files.read("file") == b"kept\n"
    assert (shell.ref, shell.boot_id) == (sandbox.ref, sandbox.boot_id)
    assert not caplog.messages


async def test_nothing_is_left_of_a_command_that_is_aborted_or_whose_caller_is_cancelled(sandbox: Sandbox) -> None:
    shell, abort = SandboxShell(sandbox), anyio.Event()
    script = 'echo $$ > "$NAME"; echo up; exec sleep 600'

    async def up(_: bytes) -> None:
        abort.set()

    aborted = await shell.run(script, env={"NAME": "aborted"}, on_stdout=up, abort=abort)
    async with anyio.create_task_group() as tasks:

        async def cancel(_: bytes) -> None:
            tasks.cancel_scope.cancel()

        await shell.run(script, env={"NAME": "cancelled"}, on_stdout=cancel)

    async def none_is_left() -> bool:
        # A killed process that was not reaped yet (state Z) is dead too.
        look = (
            "for name in aborted cancelled; do grep -sqv '^[0-9]* (.*) Z' /proc/$(cat $name)/stat && echo $name; done"
        )
        return not (await shell.run(look)).stdout

    assert aborted.outcome == Aborted()
    await eventually(none_is_left, "is gone")


async def test_of_edits_at_once_through_several_shells_none_is_lost(sandbox: Sandbox) -> None:
    shell = SandboxShell(sandbox)
    await shell.files.write("log", b"")
    async with anyio.create_task_group() as tasks:
        for number in range(8):
            tasks.start_soon(shell.files_within(()).append, "log", b"%d\n" % number)

    assert sorted((await shell.files.read("log")).split()) == [b"%d" % number for number in range(8)]
