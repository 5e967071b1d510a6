"""`true` in other shells for models, by turns with ours: sandbox-runtime, SWE-ReX, inspect_ai's local sandbox.

None is a dependency: each that is there lies in a directory of its own below the user's cache, and one that is not is named with the
command that installs it. What they promise differs: sandbox-runtime starts a sandbox for each command; the other two run commands
without isolation on the host.
"""

import json
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from subprocess import DEVNULL, PIPE

import anyio
from anyio.abc import ByteReceiveStream, ByteSendStream

from bench import bare
from bench.table import Action, Line, NotMeasured, Scale, by_turns, compared
from limpet import open_workspace

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "limpet-bench"
APART = 0.005
PATIENCE = 60.0
SCRIPTS = Path(__file__).with_name("peer_scripts")


async def rows(scale: Scale) -> list[Line]:
    lines: list[Line] = []
    async with open_workspace("bench", runtime=scale.runtime, home=scale.home) as box, AsyncExitStack() as running:
        peers: dict[str, Action] = {}
        for name, opened, install in (
            ("sandbox-runtime, a sandbox each", _sandbox_runtime(), _npm("sandbox-runtime")),
            ("SWE-ReX, its session on the host", _helper("swe-rex"), _pip("swe-rex")),
            ("inspect_ai, its local sandbox", _helper("inspect_ai"), _pip("inspect_ai")),
        ):
            try:
                peers[name] = await running.enter_async_context(opened)
            except LookupError as error:
                reason = f"{error.args[0]} What installs it: {install}"
                lines.append(NotMeasured(name=name, reason=reason, is_optional=True))
        times = await by_turns(
            partial(box.run, "true"), *peers.values(), n=scale.of(30), pause=partial(anyio.sleep, APART)
        )
    ours = times[0]
    measured = [
        compared(f"exec true, {scale.runtime}", ours, name, peer) for name, peer in zip(peers, times[1:], strict=True)
    ]
    return [*measured, *lines]


def _pip(package: str) -> str:
    place = CACHE / package
    return f"python3 -m venv {place} && {place}/bin/pip install {package}"


def _npm(name: str) -> str:
    return f"npm install --prefix {CACHE / name} @anthropic-ai/{name}; it needs node, ripgrep and socat"


@asynccontextmanager
async def _sandbox_runtime() -> AsyncIterator[Action]:
    program = CACHE / "sandbox-runtime/node_modules/.bin/srt"
    if not program.exists():
        raise LookupError("It is not installed.")
    if missing := [name for name in ("node", "rg", "socat") if shutil.which(name) is None]:
        raise LookupError(f"It is there, and {', '.join(missing)} is not.")
    action = partial(bare.run, str(program), "true")
    try:
        await action()
    except RuntimeError as error:
        raise LookupError(f"It is there and does not run here: {error}") from error
    yield action


@asynccontextmanager
async def _helper(name: str) -> AsyncIterator[Action]:
    """A program under the peer's own Python that runs one command for each line that it reads."""
    python = CACHE / name / "bin/python"
    script = SCRIPTS / f"{name.replace('-', '_')}_one.py"
    if not python.exists():
        raise LookupError("It is not installed.")
    process = await anyio.open_process([str(python), str(script)], stdin=PIPE, stdout=PIPE, stderr=DEVNULL)
    try:
        if process.stdin is None or process.stdout is None:
            raise RuntimeError("There is no pipe.")
        action = partial(_ask, process.stdin, process.stdout)
        try:
            with anyio.fail_after(PATIENCE):
                await action()
        except (anyio.EndOfStream, anyio.BrokenResourceError, TimeoutError) as error:
            raise LookupError("It is there and does not run here.") from error
        yield action
    finally:
        with anyio.CancelScope(shield=True):
            if process.returncode is None:
                process.terminate()
            await process.aclose()


async def _ask(stdin: ByteSendStream, stdout: ByteReceiveStream) -> None:
    await stdin.send(b"\n")
    answer = b""
    while not answer.endswith(b"\n"):
        answer += await stdout.receive()
    if json.loads(answer) != 0:
        raise RuntimeError(f"The command ended with {answer!r}.")
