"""A runtime whose boxes boot when the test says so; all else is that of the runtime beneath."""

import threading
from typing import Any

from anyio import to_thread

from limpet.core.ports import Runtime, Sandbox, SandboxSpec


class SlowBoot:
    """`booted` counts the boxes that came up; `booting` is set when a caller waits for one."""

    def __init__(self, beneath: Runtime) -> None:
        self._beneath = beneath
        self._let = threading.Event()
        self.booting = threading.Event()
        self.booted = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._beneath, name)

    async def __aenter__(self) -> "SlowBoot":
        await self._beneath.__aenter__()
        return self

    async def __aexit__(self, *exc: Any) -> None:
        await self._beneath.__aexit__(*exc)

    def let_boot(self) -> None:
        self._let.set()

    async def create(self, spec: SandboxSpec) -> Sandbox:
        self.booting.set()
        await to_thread.run_sync(self._let.wait, 5.0, abandon_on_cancel=True)
        sandbox = await self._beneath.create(spec)
        self.booted += 1
        return sandbox
