"""Runs as the process that carries them knows them."""

from dataclasses import dataclass

import anyio

from limpet.core.errors import LimpetError, UpstreamError
from limpet.responses.prepared_run import Prepared
from limpet.store.runs import RunClaim


@dataclass(frozen=True, slots=True)
class ClaimedRun:
    """A run of another process that is being taken up; `is_open` once its journal can be followed."""

    run: RunClaim
    is_open: anyio.Event


@dataclass(slots=True)
class LiveRun:
    """A run of this process. `refusal` is the provider's error, where it came before anything of the model was told."""

    prepared: Prepared
    ended: anyio.Event
    refusal: UpstreamError | None = None
    failure: LimpetError | None = None
    is_cancelled: bool = False
