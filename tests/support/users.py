"""The same tests again, as an ordinary user of this machine."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

NOBODY = 65534


def again_as_an_ordinary_user(*arguments: str) -> None:
    """Run pytest with these arguments as another user; fails as it fails. Skips, with the reason in words, where this process
    cannot become another user, the user cannot run this Python, or boxes are refused to him."""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user, and this is an ordinary user's run already")
    if closed := closed_way(Path(sys.executable)):
        pytest.skip(
            f"an ordinary user cannot run this Python: {closed} lets nobody else pass; LIMPET_PYTHON names another"
        )
    user = str(user_of_this_worker())
    words = ["setpriv", "--reuid", user, "--regid", user, "--clear-groups", sys.executable, "-m", "pytest", "-q"]
    done = subprocess.run(
        [*words, "--tb=short", "-p", "no:cacheprovider", "-p", "no:xdist", *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "HOME": "/nonexistent", "LOGNAME": f"user-{user}"},
        check=False,
    )
    if re.search(r"^\d+ skipped", done.stdout.splitlines()[-1]):
        pytest.skip(f"an ordinary user can have no boxes here: {done.stdout[-600:]}")
    assert done.returncode == 0, done.stdout[-16000:]


def user_of_this_worker() -> int:
    """nobody, or another where tests run beside each other: the kernel counts a user's processes in all runs together, and his boxes
    are bounded by that count."""
    number = re.search(r"\d+$", os.environ.get("PYTEST_XDIST_WORKER", ""))
    return NOBODY - int(number[0]) if number else NOBODY


def closed_way(path: Path) -> Path | None:
    """The first directory on the way to the program, or to what it links to, that others may not pass."""
    for end in (path, path.resolve()):
        for directory in reversed(end.parents):
            if not directory.stat().st_mode & 0o001:
                return directory
    return None
