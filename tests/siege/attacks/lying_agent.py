"""An agent that lies: frames changed, doubled, cut off and made up, ends of what runs, and notes and output without end

The agent of a box is Python in the attacker's hands once a command has found a way into it. Here each new box of the attacker gets one
that lies: between the gateway's socket for a box and the agent stands a proxy.
"""

import itertools
from collections.abc import Callable
from pathlib import Path

import anyio
from anyio import to_thread
from anyio.abc import TaskGroup

from limpet.runtimes.agent import wire
from tests.runtimes.bubblewrap.fuzz.mutations import Liar
from tests.runtimes.bubblewrap.fuzz.proxy import Lies, LyingProxy
from tests.siege.attack import Target

SECONDS = 10.0
SCRIPT = "for i in 1 2 3 4 5 6 7 8; do echo line; echo error >&2; sleep 0.05; done; head -c 300000 /dev/zero; exit 3"
TRUE = ".true"
ENDS_ALL = 40  # a seed after whose first lie the proxy sends what ended all boxes once


class Flood:
    """After each true frame ever more that nobody asked for: ends of commands with long notes, or output of every reading."""

    hangs_up = False
    has_lied = True

    def __init__(self, seed: int) -> None:
        self._number = itertools.count(seed)
        notes = wire.encode({"outcome": "exited", "code": 0, "notes": ["x" * 500] * 100})
        output = wire.CHUNK.pack(1, 0) + b"x" * 60_000
        self._kind, self._payload = ((wire.ENDED, notes), (wire.DATA, output))[seed % 2]
        self._seen = 0

    def instead(self, kind: int, number: int, payload: bytes) -> bytes:
        self._seen += 1
        if self._seen == 1:  # it greets as a true one does
            return wire.frame(kind, number, payload)
        lies = (wire.frame(self._kind, next(self._number) % 2**31, self._payload) for _ in range(200))
        return b"".join((wire.frame(kind, number, payload), *lies))


def attack(target: Target) -> None:
    anyio.run(_attack, target)


async def _attack(target: Target) -> None:
    for number in itertools.count():
        seed = ENDS_ALL if number % 3 == 0 else 1000 + number
        await _one(target, seed, Flood if number % 3 == 1 else Liar)


async def _one(target: Target, seed: int, lies: Callable[[int], Lies]) -> None:
    """A container whose box is entered through a liar, and its end."""
    status, created = await to_thread.run_sync(target.ask, "POST", "/v1/containers", {"name": "liar"})
    assert status == 200, created
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_stand_between, Path(target.home) / "run", seed, lies, tasks)
        run = lambda: target.run(SCRIPT, container=created["id"], timeout=5)  # noqa: E731 - for a thread
        try:
            await to_thread.run_sync(run)
        except OSError:
            pass  # no answer in time is a good answer to a liar
        tasks.cancel_scope.cancel()
    await to_thread.run_sync(target.ask, "DELETE", f"/v1/containers/{created['id']}")


async def _stand_between(run: Path, seed: int, lies: Callable[[int], Lies], tasks: TaskGroup) -> None:
    """Take the place of the next socket that the gateway makes here; its agent answers a while later."""
    known = {path.name for path in run.glob("*.sock")}
    while not (new := [path for path in run.glob("*.sock") if path.name not in known]):
        await anyio.sleep(0.002)
    listens, agent = new[0], new[0].with_suffix(TRUE)
    listens.rename(agent)
    proxy = LyingProxy(listens, agent, lies)
    proxy.seed = seed
    await proxy.serve(tasks)


def holds(target: Target) -> None:
    lied = len(list((Path(target.home) / "run").glob(f"*{TRUE}")))
    assert lied >= 3, f"only {lied} agents lied"
    status, answer = target.run("echo an honest agent")
    assert status == 200, answer
    assert answer["status"] == "completed", answer
    assert "an honest agent\n" in str(answer["output"]).replace("\\n", "\n"), answer["output"]
