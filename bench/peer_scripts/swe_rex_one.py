"""One `true` in SWE-ReX's session for each line read; answers with the exit code. Runs under SWE-ReX's own Python."""

import asyncio
import sys

from swerex.runtime.abstract import BashAction, CreateBashSessionRequest  # type: ignore[import-not-found]  # installed beside, never here
from swerex.runtime.local import LocalRuntime  # type: ignore[import-not-found]  # likewise


async def main() -> None:
    runtime = LocalRuntime()
    await runtime.create_session(CreateBashSessionRequest())
    for _ in iter(sys.stdin.readline, ""):
        print((await runtime.run_in_session(BashAction(command="true"))).exit_code, flush=True)
    await runtime.close()


asyncio.run(main())
