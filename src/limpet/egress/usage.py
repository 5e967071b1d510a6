"""What a box has used of its network, added up from the records of its door. Values and sums; bounded whatever a box asks for."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from limpet.egress.records import EgressRecord, Verdict

# Rows of one box: names that are refused cannot crowd out the others.
MOST_HOSTS: dict[Verdict, int] = {"allowed": 64, "refused": 32}

_Key = tuple[str, int, Verdict, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class HostUsage:
    """Connections (for HTTP that the door reads: requests) to one host and port that met with the same verdict by the same rule; bytes
    from and to the box."""

    host: str
    port: int
    verdict: Verdict
    rule: str
    connections: int = 0
    sent: int = 0
    received: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkUsage:
    """`connections` were allowed, `refused` were not; `hosts` have the rows, in the order of their first decision. `unlisted` decisions
    count in the sums and have no row."""

    connections: int = 0
    refused: int = 0
    sent: int = 0
    received: int = 0
    hosts: tuple[HostUsage, ...] = ()
    unlisted: int = 0

    @property
    def is_none(self) -> bool:
        return not (self.connections or self.refused or self.sent or self.received)

    def since(self, before: "NetworkUsage") -> "NetworkUsage":
        """What came since `before`, of the same box."""
        known = {_key(row): row for row in before.hosts}
        rows = (_less(row, known.get(_key(row))) for row in self.hosts)
        return NetworkUsage(
            connections=max(0, self.connections - before.connections),
            refused=max(0, self.refused - before.refused),
            sent=max(0, self.sent - before.sent),
            received=max(0, self.received - before.received),
            hosts=tuple(row for row in rows if row.connections or row.sent or row.received),
            unlisted=max(0, self.unlisted - before.unlisted),
        )


@dataclass(slots=True)
class NetworkLedger:
    """The usage of one box, while it grows."""

    _total: NetworkUsage = field(default_factory=NetworkUsage)
    _rows: dict[_Key, HostUsage] = field(default_factory=dict)

    def add(self, record: EgressRecord) -> None:
        """Count a decision, once it has ended."""
        self._total = _more(self._total, record)
        row = self._rows.get(_key(record))
        if row is None:
            if sum(each.verdict == record.verdict for each in self._rows.values()) >= MOST_HOSTS[record.verdict]:
                self._total = replace(self._total, unlisted=self._total.unlisted + record.count)
                return
            row = HostUsage(host=record.host, port=record.port, verdict=record.verdict, rule=record.rule)
        self._rows[_key(record)] = HostUsage(
            host=row.host,
            port=row.port,
            verdict=row.verdict,
            rule=row.rule,
            connections=row.connections + record.count,
            sent=row.sent + record.sent,
            received=row.received + record.received,
        )

    def usage(self, still_open: Iterable[EgressRecord] = ()) -> NetworkUsage:
        """The sums as they are now, with the connections that are open."""
        now = NetworkLedger(self._total, dict(self._rows))
        for record in still_open:
            now.add(record)
        return replace(now._total, hosts=tuple(now._rows.values()))


def _key(row: HostUsage | EgressRecord) -> _Key:
    return row.host, row.port, row.verdict, row.rule


def _more(total: NetworkUsage, record: EgressRecord) -> NetworkUsage:
    is_allowed = record.verdict == "allowed"
    return NetworkUsage(  # not `replace`, which takes ten times as long
        connections=total.connections + record.count * is_allowed,
        refused=total.refused + record.count * (not is_allowed),
        sent=total.sent + record.sent,
        received=total.received + record.received,
        hosts=total.hosts,
        unlisted=total.unlisted,
    )


def _less(row: HostUsage, before: HostUsage | None) -> HostUsage:
    if before is None:
        return row
    return replace(
        row,
        connections=row.connections - before.connections,
        sent=max(0, row.sent - before.sent),
        received=max(0, row.received - before.received),
    )
