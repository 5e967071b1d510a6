import pytest

from bench.table import NotMeasured, Row, as_table, by_turns, compared


def test_a_table_aligns_its_columns_and_names_what_was_not_measured() -> None:
    row = Row(name="exec", ours=1.0, beside="bash", floor=4.0, unit="ms", n=3, target="≤ 0.3 ×")
    none = Row(name="memory grown", ours=2.5, beside="none", floor=0.0, unit="MiB", n=3)
    assert as_table([row, none, NotMeasured(name="turn", reason="No gateway.")]).splitlines() == [
        "benchmark     ours  floor  ratio  unit  n  target   floor is",
        "exec          1.00   4.00   0.25  ms    3  ≤ 0.3 ×  bash",
        "memory grown  2.50   0.00      -  MiB   3           none",
        "turn: not measured. No gateway.",
    ]


@pytest.mark.anyio
async def test_actions_take_turns_after_one_round_that_does_not_count() -> None:
    called: list[str] = []

    async def ours() -> None:
        called.append("ours")

    async def floor() -> None:
        called.append("floor")

    times = await by_turns(ours, floor, n=2)
    assert called == ["ours", "floor"] * 3
    assert [len(each) for each in times] == [2, 2]


def test_a_comparison_is_of_medians() -> None:
    row = compared("x", [1.0, 2.0, 90.0], "y", [4.0, 4.0, 4.0])
    assert (row.ours, row.floor, row.ratio, row.n) == (2.0, 4.0, "0.50", 3)
