"""What a door notes of each decision. Values only; never a header, a path, a query or a body."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from limpet.egress.policy import Decision, Refused

Verdict = Literal["allowed", "refused"]


@dataclass(frozen=True, slots=True, kw_only=True)
class EgressRecord:
    """One decision on one connection (for HTTP that the door reads: on one request), written when it ends.

    `box` is the box's name, `rule` the pattern that admitted it or the reason of the refusal; `sent` and `received` are bytes from and
    to the box, `duration` in seconds; `secrets` are the names of those that were put in. `count` is above 1 where several were added up.
    """

    box: str
    host: str
    port: int
    verdict: Verdict
    rule: str
    sent: int = 0
    received: int = 0
    duration: float = 0.0
    secrets: tuple[str, ...] = ()
    count: int = 1

    def fields(self) -> dict[str, Any]:
        """As a log line or an event has them."""
        return {
            "box": self.box,
            "host": self.host,
            "port": self.port,
            "verdict": self.verdict,
            "rule": self.rule,
            "sent": self.sent,
            "received": self.received,
            "duration": round(self.duration, 3),
            **({"secrets": list(self.secrets)} if self.secrets else {}),
            **({"count": self.count} if self.count > 1 else {}),
        }

    def ended(self, *, sent: int, received: int, duration: float, secrets: tuple[str, ...] = ()) -> "EgressRecord":
        """The same, with how it went."""
        return EgressRecord(  # not `replace`, which takes ten times as long
            box=self.box, host=self.host, port=self.port, verdict=self.verdict, rule=self.rule,
            sent=sent, received=received, duration=duration, secrets=secrets,
        )  # fmt: skip


OnRecord = Callable[[EgressRecord], None]


def record_of(box: str, decision: Decision) -> EgressRecord:
    """The record of a decision, as it is before anything was carried."""
    if isinstance(decision, Refused):
        return EgressRecord(
            box=box, host=decision.host, port=decision.port, verdict="refused", rule=decision.reason.value
        )
    return EgressRecord(box=box, host=decision.host, port=decision.port, verdict="allowed", rule=decision.rule)
