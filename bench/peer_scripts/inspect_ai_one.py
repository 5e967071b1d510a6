"""One `true` in inspect_ai's local sandbox for each line read; answers with the exit code. Runs under inspect_ai's own Python."""

import asyncio
import sys

# The public way to one needs a whole task.
from inspect_ai.util._sandbox.local import LocalSandboxEnvironment


async def main() -> None:
    sandbox = LocalSandboxEnvironment()
    for _ in iter(sys.stdin.readline, ""):
        print((await sandbox.exec(["bash", "-c", "true"])).returncode, flush=True)


asyncio.run(main())
