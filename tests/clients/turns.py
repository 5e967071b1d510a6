"""Three turns that any client can take: write a file, read it and add to it, read all of it."""

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.clients.caches import HERE, node, node_clients
from tests.wire.asking import shell_blocks

SECONDS = 180  # wide: some of these clients take seconds to load on a quiet machine
PROMPTS = [
    shell_blocks("echo first > notes.txt"),
    shell_blocks("cat notes.txt; echo second >> notes.txt"),
    shell_blocks("cat notes.txt"),
]


def check_turns(texts: Sequence[str]) -> None:
    """The files went from turn to turn, and no command ran twice."""
    assert len(texts) == 3, texts
    for text in texts:
        assert "I ran 1 command." in text, text
        assert "exit code 0" in text, text
    assert "/mnt/data/notes.txt" in texts[0], texts[0]
    assert "\nfirst\n" in texts[1], texts[1]
    assert "\nfirst\nsecond\n" in texts[2], texts[2]


def run_node(script: str, **asked: Any) -> Any:
    """What a script of `node/` prints, as JSON."""
    directory = node_clients()
    # A module finds its packages beside itself only.
    copied = directory / script
    fresh = copied.with_suffix(f".{id(asked)}.new")
    fresh.write_bytes((HERE / "node" / script).read_bytes())
    fresh.replace(copied)
    return run_json([node(), str(copied), json.dumps(asked)])


def run_json(command: Sequence[str], *, env: Mapping[str, str] | None = None, directory: Path | None = None) -> Any:
    """What a program prints, as JSON."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False, cwd=directory, env=env)
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    return json.loads(done.stdout.strip().splitlines()[-1])
