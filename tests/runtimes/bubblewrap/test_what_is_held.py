"""What this host cannot hold is said in three places: by `limpet check`, in the log at start, and in the container's record."""

import os
import subprocess
from pathlib import Path

import pytest

from limpet.runtimes.bubblewrap.limits import find_groups
from tests.support.gateway import LIMPET, running
from tests.support.users import again_as_an_ordinary_user

_BOUND_EACH = "Memory and processes are bounded per process, not per sandbox, since no cgroup"
_NO_CPU = "CPU is not bounded."


@pytest.mark.xdist_group("ordinary user")
def test_an_ordinary_user_is_told_too() -> None:
    again_as_an_ordinary_user(__file__)


def test_check_log_and_record_say_the_same(tmp_path: Path, home: Path) -> None:
    with running(tmp_path) as gateway, gateway.http() as client:
        words, env = [str(LIMPET), "check", "bubblewrap"], {"LIMPET_HOME": str(home), "PATH": os.environ["PATH"]}
        checked = subprocess.run(words, capture_output=True, text=True, env=env, check=True)
        record = client.post("/v1/containers", json={"name": "one"}).json()
        refused = client.post("/v1/containers", json={"name": "two", "memory_limit": "256m"})
        log = gateway.log.read_text()

    whole = find_groups() is not None
    for sentence in (_BOUND_EACH, _NO_CPU):
        assert (sentence in checked.stdout) is not whole
        assert (f"note='{sentence}" in log) is not whole
    scope = "per sandbox" if whole else "per process"
    assert record["limits"] == {
        "memory": scope,
        "processes": scope,
        "cpu": "per sandbox" if whole else "none",
        "disk": "per sandbox",
    }
    assert refused.status_code == (200 if whole else 400)
    assert whole or refused.json()["error"]["code"] == "memory_limit_unsupported"
