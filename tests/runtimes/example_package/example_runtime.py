"""A runtime of a third party, whose sandboxes are those of `memory`. Its author reads `limpet.core.ports`, and nothing else of Limpet."""

from pathlib import Path

from limpet.core.box_settings import BoxSettings
from limpet.core.ports import Probe
from limpet.runtimes.memory import MemoryRuntime


class ExampleRuntime(MemoryRuntime):
    """core.ports.Runtime."""

    def __init__(self, home: Path, settings: BoxSettings) -> None:
        super().__init__()
        self._said = f"An example in {home.name}, of {settings.memory_mb} MiB."

    @property
    def name(self) -> str:
        return "example"

    async def probe(self) -> Probe:
        return Probe(works=True, detail=self._said)


def example_runtime(*, home: Path, settings: BoxSettings) -> ExampleRuntime:
    """What the entry point names."""
    return ExampleRuntime(home, settings)
