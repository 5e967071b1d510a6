"""This gateway among those that share its database: seen by them, asked by them, and asking them."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import structlog
from starlette.middleware import Middleware
from starlette.routing import Route

from limpet.containers.manager import ContainerManager
from limpet.containers.nodes import NodeDirectory
from limpet.core.clock import Clock
from limpet.server.node_door import NodeDoor
from limpet.server.node_requests import NodeRequests
from limpet.server.node_signatures import NodeSigner
from limpet.server.preview_links import PreviewLinks
from limpet.store.database import Database
from limpet.store.nodes import Nodes
from limpet.store.sealing import Sealer

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayNode:
    """`signer` is None where no other gateway can have the database: then nothing is passed on, and nothing let in. `links` are those of
    all of them."""

    directory: NodeDirectory
    signer: NodeSigner | None = field(repr=False)
    links: PreviewLinks = field(repr=False)

    def requests(self, containers: ContainerManager) -> NodeRequests | None:
        """What asks the others."""
        return None if self.signer is None else NodeRequests(self.directory, containers, self.signer)

    def door(self, door: Middleware) -> Middleware:
        """That of clients, beside which the others are let in."""
        return door if self.signer is None else Middleware(NodeDoor, signer=self.signer, door=door)


def carried(routes: Sequence[Route], nodes: NodeRequests | None) -> list[Route]:
    """See `NodeRequests.carried`."""
    return list(routes) if nodes is None else nodes.carried(routes)


@asynccontextmanager
async def opened_node(
    database: Database, sealer: Sealer, clock: Clock, *, home: str, address: str | None, silence: float
) -> AsyncIterator[GatewayNode]:
    """For the time of the block the others see it. See `NodeDirectory`."""
    directory = NodeDirectory(Nodes(database), home=home, address=address, silence=silence, clock=clock)
    if not database.is_shared:
        yield GatewayNode(directory=directory, signer=None, links=PreviewLinks(clock))
        return
    if address is None:
        log.warning("node_not_reachable", remedy="other gateways pass nothing on to this one; set server.advertise")
    signer = NodeSigner(sealer, home=home, now=lambda: clock.now() + database.clock_offset)
    key = bytes.fromhex(sealer.digest(b"", row="preview links"))
    async with directory:
        yield GatewayNode(directory=directory, signer=signer, links=PreviewLinks(clock, key=key))
