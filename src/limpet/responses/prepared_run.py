"""A run that can begin: what its request was made into, before a model is asked."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from limpet.egress.usage import NetworkUsage
from limpet.responses.loop import Run
from limpet.responses.placement import ShellTarget
from limpet.responses.run_meter import RunMeter
from limpet.responses.run_secrets import RunSecrets
from limpet.responses.tool_selection import ToolSelection
from limpet.responses.writer import Writer
from limpet.store.executions import Execution
from limpet.store.responses import ResponseRecord
from limpet.upstreams.routing import ChosenRoute
from limpet.upstreams.usage import Usage

Json = dict[str, Any]


@dataclass(slots=True, kw_only=True)
class PreparedRun:
    """A run that can begin. `run` is made once, with the writer of its journal. `left_out` are the types of tools that the provider
    was not given; `made_container`: its container was made for it; `checkpoint` is where its run begins; `network` is what its
    container has used since; `secrets` are its commands'; `revision` is that of its conversation when its items were read."""

    record: ResponseRecord
    is_stored: bool
    left_out: tuple[str, ...] = ()
    make_run: Callable[[Writer], Run]
    meter: RunMeter
    made_container: bool = False
    checkpoint: bytes = b""
    network: Callable[[], NetworkUsage | None] = lambda: None
    secrets: RunSecrets
    revision: int | None = None
    _run: Run | None = field(default=None, init=False)
    _writer: Writer | None = field(default=None, init=False)

    @property
    def writer(self) -> Writer:
        assert self._writer is not None, "a run has a writer before it starts"
        return self._writer

    @writer.setter
    def writer(self, writer: Writer) -> None:
        self._writer = writer

    def run(self) -> Run:
        self._run = self._run or self.make_run(self.writer)
        return self._run

    def usage(self) -> Usage | None:
        return self._run.usage if self._run is not None else None

    def shown(self) -> Json:
        """What its response shows of the provider's own."""
        return self._run.progress.shown if self._run is not None else {}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunParts:
    """What a run is made of beside its request."""

    chosen: ChosenRoute
    selection: ToolSelection
    target: ShellTarget
    transcript: list[Json]
    record: ResponseRecord
    meter: RunMeter
    begun: Sequence[Execution] = ()
