import json
import os
import subprocess
from pathlib import Path

import pytest

from limpet.cli.check import Finding, Verdict, as_text
from tests.cli.conftest import PROGRAM, Limpet


def test_a_runtime_that_works_ends_with_0_and_says_how(limpet: Limpet) -> None:
    done = limpet("check", "local")
    assert done.returncode == 0
    assert done.stdout.startswith("local  works: ")
    assert "not built yet: cloudflare, microsandbox" in done.stdout


def test_json_holds_every_finding(limpet: Limpet) -> None:
    done = limpet("check", "--json", "local")
    found = json.loads(done.stdout)
    assert [each["name"] for each in found["runtimes"]] == ["local"]
    assert set(found["runtimes"][0]) >= {"name", "works", "detail", "remedy", "notes"}
    assert "opensandbox" in found["not_built"]


def test_the_suite_asks_every_promise_and_tells_how_many_were_kept(limpet: Limpet) -> None:
    done = limpet("check", "--suite", "--json", "memory")
    verdict = json.loads(done.stdout)["runtimes"][0]["suite"]
    assert (done.returncode, verdict["broken"], done.stderr) == (0, {}, "")
    assert verdict["kept"] > 50


def test_a_broken_promise_is_shown_and_counts_as_not_working() -> None:
    verdict = Verdict(kept=1, not_asked=2, known_gaps=3, broken={"a_promise": "why"})
    finding = Finding(name="x", works=True, detail="It runs.", remedy="", notes=(), suite=verdict)
    assert not finding.is_fine
    assert as_text([finding], None).splitlines()[1:3] == [
        "   promises: 1 kept, 1 broken, 3 known gaps, 2 not asked",
        "   broken: a_promise: why",
    ]


def test_a_runtime_that_nobody_knows_is_refused(limpet: Limpet) -> None:
    done = limpet("check", "nonsense")
    assert (done.returncode, "choose one of" in done.stderr) == (2, True)


def test_without_bubblewrap_the_chosen_runtime_does_not_work_and_the_remedy_is_shown(limpet: Limpet) -> None:
    done = limpet("check", PATH="/nonexistent")
    assert done.returncode == 1
    assert "bubblewrap  does not work, chosen: " in done.stdout
    assert "to mend it: " in done.stdout


def test_clean_says_when_nothing_is_left_and_a_dry_run_alone_is_a_mistake(limpet: Limpet) -> None:
    done = limpet("check", "--clean")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Nothing is left of sandboxes that have ended")
    alone = limpet("check", "--dry-run")
    assert (alone.returncode, "--clean" in alone.stderr) == (2, True)


def test_a_user_without_an_entry_in_passwd_gets_his_answer(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can become a user who has no entry in /etc/passwd")
    words = ["setpriv", "--reuid", "54321", "--regid", "54321", "--clear-groups", *PROGRAM]
    env = {"PATH": os.environ["PATH"]}

    def checked(*arguments: str, **more: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [*words, "check", *arguments], capture_output=True, text=True, env={**env, **more}, cwd="/", check=False
        )

    local = checked("local", LIMPET_HOME=str(tmp_path / "home"), USER="root", LOGNAME="root")
    assert (local.returncode, local.stderr) == (0, "")
    assert "as user id 54321, which has no entry in /etc/passwd, on this host" in local.stdout

    homeless = checked()
    assert (homeless.returncode, "LIMPET_HOME" in homeless.stderr) == (2, True)
    assert "fault of limpet" not in homeless.stderr


def test_on_a_terminal_lines_break_between_words(limpet: Limpet) -> None:
    whole = limpet("check", "local", "memory", COLUMNS="").stdout
    for columns in (40, 72, 90):
        broken = limpet("check", "local", "memory", COLUMNS=str(columns)).stdout

        assert broken.split() == whole.split()
        assert max(map(len, broken.splitlines())) <= columns
        assert len(broken.splitlines()) > len(whole.splitlines())


def test_a_remedy_that_is_a_command_is_never_broken() -> None:
    command = "sudo install --mode 644 /dev/null /etc/a-profile && sudo load-it /etc/a-profile"
    finding = Finding(name="x", works=False, detail="No.", remedy=command, notes=())

    assert command in as_text([finding], None, width=40).splitlines()
