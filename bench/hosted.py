"""A hosted command, as a response starts and reads it, without and with an operator's rules, beside the same on the bare sandbox."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Protocol

import anyio

from bench.table import Line, Scale, by_turns, compared
from limpet import wiring
from limpet.containers.lease import Lease
from limpet.containers.manager import ContainerManager
from limpet.containers.shell_rules import ShellRules
from limpet.core.command import Command, Script
from limpet.core.ids import new_id
from limpet.core.ports import Process
from limpet.guard.policy.policy import Policy
from limpet.guard.redaction.redactor import Redaction
from limpet.store.database import Database
from limpet.store.settings import DatabaseSettings

TENANT = "default"
APART = 0.005
FLOOR = "the same on the sandbox itself"
RULES = ShellRules(policy=Policy(), redaction=Redaction())
COMMAND = Command(what=Script("echo hosted"))


class _Starts(Protocol):
    async def start(self, command: Command, exec_id: str) -> Process: ...


async def rows(scale: Scale) -> list[Line]:
    return [
        await _row(scale, "no rules", ShellRules(), target="<= 1.05 ×"),
        await _row(scale, "policy and redaction", RULES),
    ]


async def _row(scale: Scale, name: str, rules: ShellRules, *, target: str = "") -> Line:
    async with _leased(scale, rules) as lease, wiring.load_runtime(scale.runtime, home=scale.home) as other:
        sandbox = await other.attach(lease.shell.ref)
        ours, floor = await by_turns(
            partial(_command, lease.shell),
            partial(_command, sandbox),
            n=scale.of(300),
            pause=partial(anyio.sleep, APART),
        )
    return compared(f"hosted command, {name}", ours, FLOOR, floor, target=target)


@asynccontextmanager
async def _leased(scale: Scale, rules: ShellRules) -> AsyncIterator[Lease]:
    async with (
        wiring.load_runtime(scale.runtime, home=scale.home) as runtime,
        Database(DatabaseSettings(), home=scale.home) as database,
        ContainerManager(runtime, database, home=scale.home, rules=rules, stop_boxes=True) as manager,
    ):
        container = (await manager.create(TENANT, name="bench", spec=manager.narrow({}))).id
        async with manager.lease(TENANT, container) as lease:
            yield lease


async def _command(shell: _Starts) -> None:
    process = await shell.start(COMMAND, new_id("exec"))
    async for _ in process.output():
        pass
    await process.wait()
    await process.forget()
