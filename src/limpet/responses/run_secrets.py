"""The secrets of one response: its own alone, from its first command to its end, whoever carries its run."""

from collections.abc import Sequence
from dataclasses import dataclass

from limpet.containers.manager import ContainerManager
from limpet.containers.requested_secrets import GrantedSecret
from limpet.store.responses import ResponseRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSecrets:
    """`given` came with the request, or were `unsealed` from the run's row."""

    containers: ContainerManager
    record: ResponseRecord
    given: Sequence[GrantedSecret] = ()

    def sealed(self) -> bytes | None:
        """For the run's row; None where there are none. HomeUnusable."""
        return self.containers.secrets.seal(self.record.id, self.given)

    def lend(self) -> None:
        """Its commands may use them from now on."""
        if self.record.container_id is not None:
            self.containers.secrets.lend(self.record.container_id, self.record.id, self.given)

    def take_back(self) -> None:
        """Nothing uses them any more, whatever of its commands still runs. Twice is quiet."""
        if self.record.container_id is not None:
            self.containers.doors.take_back(self.record.container_id, self.record.id)
