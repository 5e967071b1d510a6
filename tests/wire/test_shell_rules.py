"""What an operator's rules for hosted shells do: refused commands are results, secrets are hidden, each command leaves a record."""

import json
import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import openai
import pytest

from tests.support.gateway import Gateway, lasting, running
from tests.support.host import stored_ref
from tests.wire.asking import SHELL, container_of, entries, printed, run, shell_blocks
from tests.wire.conftest import RUNTIME
from tests.wire.streams import events_of

SECRET = "correct-horse-battery-staple"
POLICY = '[features.shell.policy]\nblocked_commands = ["uname"]\nmax_duration = 20\n'
REDACTION = (
    '[features.shell.redaction]\npatterns = ["ticket-[0-9]+"]\n[features.shell.redaction.secrets]\nDB = "${DB}"\n'
)
SECTION = f'[features.shell]\ntype = "{RUNTIME}"\n'


def records(gateway: Gateway) -> list[dict[str, str]]:
    """The facts of each `shell_audit` line of the gateway's log."""
    lines = [line for line in gateway.log.read_text().splitlines() if "shell_audit" in line]
    return [dict(re.findall(r"(\w+)=(\S+)", line)) for line in lines]


@pytest.fixture(scope="module")
def ruled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    config = SECTION + POLICY + REDACTION
    with running(tmp_path_factory.mktemp("ruled"), runtime=RUNTIME, config=config, env={"DB": SECRET}) as gateway:
        yield gateway


@pytest.mark.promise("hosted-commands-pass-the-operators-policy")
def test_a_refused_command_is_a_result_with_126_and_the_reason_and_the_next_one_runs(ruled: Gateway) -> None:
    response = run(ruled.client(), "uname -a", "x=una; ${x}me", "echo after")

    refused, hidden, after = entries(response)
    assert refused.outcome.to_dict() == {"type": "exit", "exit_code": 126}
    assert refused.stdout == ""
    assert "uname" in refused.stderr
    assert "(rule: blocked_commands)" in refused.stderr
    assert hidden.outcome.exit_code != 0
    assert (after.stdout, after.outcome.exit_code) == ("after\n", 0)
    assert {item.status for item in response.output if item.type == "shell_call_output"} == {"completed"}
    assert response.status == "completed"


@pytest.mark.promise("hosted-commands-leave-an-audit-record")
def test_every_command_leaves_a_record_of_who_where_and_how_it_ended(ruled: Gateway) -> None:
    response = run(ruled.client(), "exit 7", "uname", f"echo {SECRET}")

    ours = [record for record in records(ruled) if record["response"] == response.id]
    assert [record["exit_code"] for record in ours] == ["7", "126", "0"]
    assert [record["verdict"] for record in ours] == ["allowed", "denied", "allowed"]
    assert ours[1]["rule"] == "blocked_commands"
    for number, record in enumerate(ours):
        assert record["tenant"] == "default"
        assert record["container"] == container_of(response)
        assert record["exec_id"].startswith(response.id)
        assert 0 <= float(record["duration"]) < 20
        assert len({one["exec_id"] for one in ours}) == 3, number
    assert SECRET not in ruled.log.read_text()


@pytest.mark.promise("hosted-commands-leave-an-audit-record")
def test_a_gateway_without_rules_writes_the_record_too(client: openai.OpenAI, gateway: Gateway) -> None:
    response = run(client, "exit 3")
    (ours,) = [record for record in records(gateway) if record["response"] == response.id]
    assert (ours["exit_code"], ours["verdict"], ours["outcome"]) == ("3", "allowed", "exited")


@pytest.mark.promise("hosted-output-is-redacted")
def test_a_secret_is_in_no_event_no_item_no_file_of_output_and_not_in_the_journal(ruled: Gateway) -> None:
    half = len(SECRET) // 2
    first, second = SECRET[:half], SECRET[half:]
    commands = (
        f"printf %s {first}; sleep 0.1; printf '%s\\n' {second}",
        f"printf %s%s {first} {second} | base64 >&2",
        f"echo ticket-4711; for i in $(seq 60000); do echo line $i {first}''{second}; done",
    )
    events = events_of(ruled, model="limpet/script", input=shell_blocks(*commands), tools=SHELL)
    assert not [event for event in events if SECRET in json.dumps(event)]
    response = ruled.client().responses.retrieve(events[-1]["response"]["id"])

    shown = entries(response)
    assert shown[0].stdout == "[REDACTED:DB]\n"
    assert "[REDACTED:DB]" in shown[1].stderr
    assert shown[2].stdout.startswith("[REDACTED:pattern]\nline 1 [REDACTED:DB]\n")
    kept = re.search(r"is in (/mnt/data/limpet-output/\S+)\]", shown[2].stdout)
    assert kept is not None
    whole = run(
        ruled.client(),
        f"grep -c REDACTED:DB {kept[1]}; grep -c {first}''{second} {kept[1]}",
        container=container_of(response),
    )
    assert entries(whole)[0].stdout == "60000\n0\n"
    with sqlite3.connect(f"file:{ruled.home / 'limpet.db'}?mode=ro", uri=True) as database:
        rows = database.execute("SELECT data FROM journal WHERE exec_id IS NOT NULL").fetchall()
    assert rows
    assert not [row for row in rows if SECRET.encode() in bytes(row[0])]


def test_a_policys_time_is_the_ceiling_of_every_command(tmp_path: Path) -> None:
    config = f"{SECTION}[features.shell.policy]\nmax_duration = 0.5\n"
    with running(tmp_path, runtime=RUNTIME, config=config) as gateway:
        (entry,) = entries(run(gateway.client(), "echo begun; sleep 600"))
        assert (entry.stdout, entry.outcome.type) == ("begun\n", "timeout")


@pytest.mark.skipif(RUNTIME != "bubblewrap", reason="only bubblewrap's boxes outlive the gateway and have walls")
def test_a_box_of_an_earlier_policy_is_not_used_under_another(tmp_path: Path) -> None:
    with lasting(tmp_path, runtime=RUNTIME) as gateway:
        first = run(gateway.client(), "echo kept > kept.txt; uname")
        container = container_of(first)
        before = stored_ref(gateway.home / "limpet.db", container)
        gateway.stop()
        gateway.config = SECTION + POLICY
        gateway.start()

        # What the guard cannot see in it the wall holds, of a box that was built for the policy.
        sneaks = 'python3 -c \'import os; os.execvp("un" + "ame", ["uname", "-s"])\''
        second = run(gateway.client(), sneaks, "cat kept.txt", container=container)

        after = stored_ref(gateway.home / "limpet.db", container)
        assert before is not None
        assert after is not None
        assert after["boot_id"] != before["boot_id"]
        assert after["walls"] != before["walls"]
        assert [entry.stdout for entry in entries(second)] == ["", "kept\n"]
        gateway.stop()
        gateway.start()
        assert printed(run(gateway.client(), "cat kept.txt", container=container)) == "kept\n"
        assert stored_ref(gateway.home / "limpet.db", container) == after


@pytest.mark.parametrize(
    "text, told",
    [
        (
            '[features.shell.policy]\nallowed_paths = ["data"]\n',
            "features.shell.policy.allowed_paths: 'data' is not absolute",
        ),
        ("[features.shell.policy]\nread_only = true\n", "features.shell.policy.readonly"),
        ('[features.shell.redaction]\npatterns = ["(?=x)"]\n', "features.shell.redaction.patterns"),
        ('[features.shell.redaction.secrets]\na = "short"\n', "features.shell.redaction.secrets"),
    ],
)
def test_rules_that_cannot_hold_keep_the_gateway_from_starting(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(AssertionError, match=re.escape(told)):
        Gateway(tmp_path, runtime=RUNTIME, config=f"{SECTION}{text}").start()


def test_walls_that_a_runtime_has_not_keep_the_gateway_from_starting(tmp_path: Path) -> None:
    config = '[features.shell]\ntype = "memory"\n[features.shell.policy]\nreadonly = true\nenforce = "wall"\n'
    with pytest.raises(AssertionError, match="a wall for the rule readonly"):
        Gateway(tmp_path, runtime="memory", config=config).start()
