"""The agent as it is given to a box: compiled for the very same Python, as text for any other."""

import marshal
import os
import subprocess
from pathlib import Path

import pytest

from limpet.runtimes.agent_client.payload import payload, starter


def _complaint(content: bytes) -> str:
    """What the system's Python says of an agent that is handed nothing to live with."""
    descriptor = os.memfd_create("agent")
    try:
        os.write(descriptor, content)
        os.lseek(descriptor, 0, os.SEEK_SET)
        words = ["/usr/bin/python3", *starter(descriptor)]
        return subprocess.run(words, pass_fds=[descriptor], capture_output=True, text=True, check=False).stderr
    finally:
        os.close(descriptor)


@pytest.mark.skipif(not Path("/usr/bin/python3").exists(), reason="this host has no /usr/bin/python3")
def test_it_is_loaded_whole_by_its_own_python_and_by_any_other() -> None:
    given = list(marshal.loads(payload({}, {})))
    as_text = marshal.dumps((given[0], (0, "another"), given[2], b"", *given[4:]), 2)

    for content in (payload({}, {}), as_text):
        assert "main() missing 1 required keyword-only argument" in _complaint(content)


def test_it_does_not_say_where_it_lies_on_the_host() -> None:
    assert str(Path(__file__).parents[3]).encode() not in payload({}, {})
