"""What this host cannot hold is said in three places: by `limpet check`, in the log at start, and in the container's record."""

import os
import subprocess
from pathlib import Path

from limpet.runtimes.bubblewrap import capabilities
from limpet.runtimes.bubblewrap.limits.groups import find_groups
from tests.support.gateway import LIMPET, running
from tests.support.users import again_as_an_ordinary_user

_BOUND_EACH = "Memory and processes are bounded per process, not per sandbox, since no cgroup"
_NO_CPU = "CPU is not bounded."
_SHARED = "What processes share in memory (mappings, files in memory) is bounded by the host's memory alone."
_AGENT = "When memory runs out, commands can make the kernel choose their sandbox's agent"
_HIDDEN = "On disk, a directory that a command closes to its own user is not counted"


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
    is_root = os.geteuid() == 0
    said = {
        **dict.fromkeys((_BOUND_EACH, _NO_CPU, _SHARED), not whole),
        _AGENT: not (is_root and capabilities.has(capabilities.SYS_RESOURCE)),
        _HIDDEN: not is_root,
    }
    notes = record["limits"].pop("notes", [])
    for sentence, is_said in said.items():
        assert (sentence in " ".join(checked.stdout.split())) is is_said
        assert (sentence in log) is is_said
        assert any(note.startswith(sentence) for note in notes) is is_said
    scope = "per sandbox" if whole else "per process"
    assert record["limits"] == {
        "memory": scope,
        "processes": scope,
        "cpu": "per sandbox" if whole else "none",
        "disk": "per sandbox",
    }
    assert refused.status_code == (200 if whole else 400)
    assert whole or refused.json()["error"]["code"] == "memory_limit_unsupported"
