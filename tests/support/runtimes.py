"""The runtimes that the contract is asked of, each opened for one test; one that does not work here is a visible skip."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from limpet.core.ports import Probe, Runtime
from limpet.runtimes.local.runtime import LocalRuntime
from limpet.runtimes.memory import KNOWN_GAPS, MemoryRuntime

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
async def opened(name: str, home: Path) -> AsyncIterator[Runtime]:
    """An open runtime. Skips with the probe's own words where it cannot work; the probe is asked once."""
    async with make(name, home) as runtime:
        if name not in _probes:
            _probes[name] = await runtime.probe()
        if not _probes[name].works:
            pytest.skip(f"{name} does not work here: {_probes[name].detail}")
        yield runtime
