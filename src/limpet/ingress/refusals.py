"""What all connections of a server share, and why one is refused."""

from collections.abc import Callable
from dataclasses import dataclass, field

from limpet.ingress.connections import ConnectionTable
from limpet.ingress.memory import MemoryBudget
from limpet.ingress.notices import RateLimitedLog
from limpet.ingress.pacing import LoopPacer


@dataclass(frozen=True, slots=True)
class Refusal:
    """The HTTP status, a word for programs and a sentence for people."""

    status: int
    code: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ingress:
    """`unread` counts bytes of answers that their clients do not read, `render` gives a refusal's body as JSON, `notice` logs, `pacer`
    begins and ends requests."""

    table: ConnectionTable
    unread: MemoryBudget
    render: Callable[[Refusal], bytes]
    notice: RateLimitedLog
    pacer: LoopPacer = field(default_factory=LoopPacer)
