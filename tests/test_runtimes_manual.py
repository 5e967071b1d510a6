"""Holds docs/runtimes.md to the code: offers, known gaps, remedies, defaults, and the example."""

import os
import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path

import pytest

from limpet import wiring
from limpet.core.ports import Offer
from limpet.runtimes.agent.walls import version as landlock
from limpet.runtimes.bubblewrap.limits.groups import find_groups
from limpet.runtimes.bubblewrap.remedies import SETTINGS, Host, remedy
from limpet.runtimes.bubblewrap.settings import BubblewrapSettings
from limpet.runtimes.local.walls import LEAST as LANDLOCK_OF_LOCAL
from limpet.testing.run import ALL_CASES

MANUAL = (Path(__file__).parents[1] / "docs/runtimes.md").read_text("utf-8")


def table(header: str) -> list[list[str]]:
    """The cells of each row of the table with that header."""
    lines = MANUAL.partition(f"{header}\n")[2].splitlines()[1:]
    rows = []
    for line in lines:
        if not line.startswith("|"):
            break
        rows.append([cell.strip().strip("`") for cell in line.strip("|").split(" | ")])
    assert rows, header
    return rows


OFFERS = table("| offer | memory | local | bubblewrap | docker | what it means |")


def test_the_table_lists_every_offer_in_order() -> None:
    assert [row[0] for row in OFFERS] == [offer.value for offer in Offer]


@pytest.mark.anyio
@pytest.mark.parametrize("column, name", [(1, "memory"), (2, "local"), (3, "bubblewrap")])
async def test_the_table_says_what_each_runtime_offers(tmp_path: Path, column: int, name: str) -> None:
    said = {
        kind: {row[0] for row in OFFERS if row[column] == kind}
        for kind in ("yes", "no", "with cgroups", "with Landlock")
    }
    assert sum(map(len, said.values())) == len(Offer)

    async with wiring.load_runtime(name, home=tmp_path) as runtime:
        offered = {offer.value for offer in runtime.offers}

    if landlock() < LANDLOCK_OF_LOCAL:
        pytest.skip("this kernel has no Landlock, or an old one")
    assert offered == said["yes"] | said["with Landlock"] | (said["with cgroups"] if find_groups() else set())


def test_every_runtime_that_is_built_or_to_come_is_named() -> None:
    [*built] = (row[0] for row in table("| runtime | for | isolation | chosen by |"))
    assert sorted(built) == sorted(wiring.RUNTIMES)
    assert [name for name in wiring.RUNTIMES_TO_COME if f"`{name}`" not in MANUAL] == []


def test_the_known_gaps_are_those_of_the_code() -> None:
    listed = {(name, case, why) for name, case, why in table("| runtime | case | why |")}
    assert listed == {(name, case, why) for name in wiring.RUNTIMES for case, why in wiring.known_gaps(name).items()}
    assert {case for _, case, _ in listed} <= {case.name for case in ALL_CASES}


def test_the_remedies_are_those_that_the_probe_prints() -> None:
    plain = Host(engine="", filtered=False, profile="", settings=dict.fromkeys(SETTINGS, ""), bwrap="/usr/bin/bwrap")
    refusals = [
        ("bwrap: Operation not permitted", replace(plain, settings={**plain.settings, name: "0"})) for name in SETTINGS
    ]
    refusals += [
        ("bwrap: Operation not permitted", replace(plain, profile="mine")),
        ("unshare: no", replace(plain, engine="docker")),
    ]
    printed = "\n".join(remedy(complaint, host) for complaint, host in refusals)

    remedies = [row[1].rpartition("`")[2] for row in table("| where | remedy |")]
    assert len(remedies) == 7
    in_words = [remedy for remedy in remedies if remedy not in printed]
    assert [words[:10] for words in in_words] == ["the same p", "those flag"]


def test_the_default_limits_are_those_of_the_settings() -> None:
    limits = {
        row[0]: row[1]
        for row in table("| what | default | with cgroups (root; a user with delegated version 2) | without |")
    }
    defaults = {field.name: field.default for field in fields(BubblewrapSettings)}
    assert limits["memory"] == f"{defaults['memory_mb']} MiB"
    assert limits["processes"] == str(defaults["processes"])
    assert limits["disk"] == f"{defaults['disk_mb'] >> 10} GiB"
    assert limits["CPU"] == f"{defaults['cpus']:g} core"
    assert limits["open files"] == str(defaults["open_files"])


@pytest.mark.timeout(120)
def test_the_example_runs_and_finds_nothing_broken(tmp_path: Path) -> None:
    example = MANUAL.partition("```python\n")[2].partition("```")[0]
    program = tmp_path / "suite.py"
    program.write_text(example)

    done = subprocess.run(
        [sys.executable, program], capture_output=True, text=True, env={**os.environ, "TMPDIR": "/tmp"}, check=False
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert [line.partition(" ")[0] for line in done.stdout.splitlines()] == [case.name for case in ALL_CASES]
    assert [line for line in done.stdout.splitlines() if "Failed" in line or "GapClosed" in line] == []
