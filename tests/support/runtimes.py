"""The runtimes that the contract is asked of, each opened for one test; one that does not work here is a visible skip."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from limpet.core.ports import Offer, Probe, Runtime
from limpet.runtimes.local.runtime import LocalRuntime
from limpet.runtimes.memory import KNOWN_GAPS, MemoryRuntime
from limpet.workspace.opening import open_in
from limpet.workspace.workspace import Workspace

NAMES = ("memory", "local", "bubblewrap")
GAPS: Mapping[str, Mapping[str, str]] = {"memory": KNOWN_GAPS}
BUBBLEWRAP = "limpet.runtimes.bubblewrap.runtime"

_probes: dict[str, Probe] = {}


def make(name: str, home: Path) -> Runtime:
    match name:
        case "memory":
            return MemoryRuntime()
        case "local":
            return LocalRuntime()
        case _:
            module = pytest.importorskip(BUBBLEWRAP)
            settings = pytest.importorskip("limpet.runtimes.bubblewrap.settings")
            runtime: Runtime = module.BubblewrapRuntime(settings.BubblewrapSettings(home=home))
            return runtime


@asynccontextmanager
async def workspace_on(name: str, home: Path) -> AsyncIterator[Workspace]:
    """A workspace without rules, on a runtime of its own."""
    async with opened(name, home) as runtime, open_in(runtime) as workspace:
        yield workspace


@asynccontextmanager
async def boxes_with(offer: Offer, home: Path) -> AsyncIterator[Runtime]:
    """bubblewrap, where it offers this here; else a skip."""
    async with opened("bubblewrap", home) as runtime:
        if offer not in runtime.offers:
            pytest.skip(f"boxes do not offer {offer} here: it needs Landlock, and mounts of the user's own")
        yield runtime


@asynccontextmanager
async def opened(name: str, home: Path) -> AsyncIterator[Runtime]:
    """An open runtime. Skips with the probe's own words where it cannot work; the probe is asked once."""
    async with make(name, home) as runtime:
        if name not in _probes:
            _probes[name] = await runtime.probe()
        if not _probes[name].works:
            pytest.skip(f"{name} does not work here: {_probes[name].detail}")
        yield runtime
