"""What a box used of its network adds up, and stays small whatever the box does; so does the log of its door."""

from collections import Counter

import pytest

from limpet.egress.record_throttle import BURST, MOST_SUMS, OTHERS, SUMMED_SECONDS, RecordThrottle
from limpet.egress.records import EgressRecord, Verdict
from limpet.egress.usage import MOST_HOSTS, HostUsage, NetworkLedger, NetworkUsage


def record(
    host: str, verdict: Verdict = "allowed", rule: str = "", *, sent: int = 0, received: int = 0
) -> EgressRecord:
    rule = rule or (host if verdict == "allowed" else "host_not_allowed")
    return EgressRecord(box="box", host=host, port=443, verdict=verdict, rule=rule, sent=sent, received=received)


def test_decisions_add_up_by_host_and_verdict_and_open_connections_count() -> None:
    ledger = NetworkLedger()
    ledger.add(record("a.example", sent=1, received=10))
    ledger.add(record("evil.example", "refused"))
    ledger.add(record("a.example", sent=2, received=20))
    expected = NetworkUsage(
        connections=3,
        refused=1,
        sent=7,
        received=70,
        hosts=(
            HostUsage(host="a.example", port=443, verdict="allowed", rule="a.example", connections=3, sent=7, received=70),
            HostUsage(host="evil.example", port=443, verdict="refused", rule="host_not_allowed", connections=1),
        ),
    )  # fmt: skip
    assert ledger.usage([record("a.example", sent=4, received=40)]) == expected
    assert ledger.usage().connections == 2


def test_the_usage_since_a_moment_has_what_came_after_it_alone() -> None:
    ledger = NetworkLedger()
    ledger.add(record("before.example", sent=5))
    before = ledger.usage([record("open.example", sent=3)])
    ledger.add(record("open.example", sent=10))
    ledger.add(record("new.example"))
    used = ledger.usage().since(before)
    assert (used.connections, used.sent) == (1, 7)
    assert [(row.host, row.connections, row.sent) for row in used.hosts] == [
        ("open.example", 0, 7),
        ("new.example", 1, 0),
    ]
    assert ledger.usage().since(ledger.usage()).is_none


def test_a_box_that_asks_for_very_many_names_has_few_rows_and_whole_sums() -> None:
    ledger = NetworkLedger()
    for number in range(5000):
        ledger.add(record(f"{number}.evil.example", "refused"))
        ledger.add(record(f"{number}.good.example", rule="*.good.example", sent=1))
    used = ledger.usage()
    assert Counter(row.verdict for row in used.hosts) == MOST_HOSTS
    assert (used.connections, used.refused, used.sent) == (5000, 5000, 5000)
    assert used.unlisted == 10_000 - sum(MOST_HOSTS.values())


@pytest.mark.parametrize("verdict", ["allowed", "refused"])
def test_a_flood_writes_few_lines_that_count_every_decision(verdict: Verdict) -> None:
    written: list[EgressRecord] = []
    now = 0.0
    throttle = RecordThrottle(written.append, clock=lambda: now)
    for number in range(60_000):
        now = number / 1000  # a minute
        throttle(record(f"{number}.example", verdict, rule="rule", sent=2))
    throttle.flush()
    assert sum(each.count for each in written) == 60_000
    assert sum(each.sent for each in written) == 120_000
    assert len(written) <= BURST + 60 + (60 / SUMMED_SECONDS + 1) * (MOST_SUMS + 1)
    assert written[0].fields().keys() == record("a").fields().keys()
    assert any(each.host == OTHERS and each.fields()["count"] == each.count > 1 for each in written)


def test_a_quiet_box_has_a_line_for_each_decision_at_once() -> None:
    written: list[EgressRecord] = []
    now = 0.0
    throttle = RecordThrottle(written.append, clock=lambda: now)
    for number in range(500):
        now = number * 1.0
        throttle(record("a.example"))
        assert len(written) == number + 1
