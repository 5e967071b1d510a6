"""The secrets of one response: its own alone, from its first command to its end, whichever process carries its run."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from limpet.containers.manager import ContainerManager
from limpet.containers.requested_secrets import GrantedSecret
from limpet.responses.tool_credentials import with_credentials
from limpet.store.responses import ResponseRecord

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSecrets:
    """`given` came with the request, or were `unsealed` from the run's row; so did `tools`, what its hosted tools sign in with
    (`tool_credentials.credentials_of`)."""

    containers: ContainerManager
    record: ResponseRecord
    given: Sequence[GrantedSecret] = ()
    tools: Mapping[str, Json] = field(default_factory=dict)

    @classmethod
    def unsealed(cls, record: ResponseRecord, sealed: bytes | None, *, containers: ContainerManager) -> Self:
        """Those that `sealed` made; none where they cannot be opened."""
        given, tools = containers.secrets.unseal(record.id, sealed)
        return cls(containers=containers, record=record, given=given, tools=json.loads(tools) if tools else {})

    def request(self) -> Json:
        """The stored request with what its tools sign in with."""
        request = self.record.request
        return {**request, "tools": with_credentials(request.get("tools") or [], self.tools)}

    def sealed(self) -> bytes | None:
        """For the run's row; None where there are none. HomeUnusable."""
        tools = json.dumps(self.tools) if self.tools else None
        return self.containers.secrets.seal(self.record.id, self.given, tools=tools)

    def lend(self) -> None:
        """Its commands may use them from now on."""
        if self.record.container_id is not None:
            self.containers.secrets.lend(self.record.container_id, self.record.id, self.given)

    def take_back(self) -> None:
        """Nothing uses them any more, whatever of its commands still runs. Twice is quiet."""
        if self.record.container_id is not None:
            self.containers.doors.take_back(self.record.container_id, self.record.id)
