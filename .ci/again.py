"""`.ci/again.py`: tells a race that a busy machine decides from a fault, among the tests that the last run of pytest saw fail.

Each is run five times more, alone. One that passes each time is named and forgiven; any other fails, and so do more than three at once.
docs/decisions/flaky-tests.md says why. Arguments go to pytest.
"""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FORGIVEN = 3
TIMES = 5


def main() -> int:
    record = ROOT / ".pytest_cache/v/cache/lastfailed"
    failed = sorted(json.loads(record.read_text())) if record.exists() else []
    if not failed or len(failed) > FORGIVEN:
        print(f"{len(failed)} tests are on record as failed; from 1 to {FORGIVEN} are run again.")
        return 1
    for test in failed:
        for time in range(TIMES):
            command = [ROOT / ".venv/bin/python", "-m", "pytest", "-q", "-p", "no:cacheprovider", *sys.argv[1:], test]
            if subprocess.run(command, check=False, cwd=ROOT, stdin=subprocess.DEVNULL).returncode != 0:
                print(f"{test} failed again, in run {time + 1} of {TIMES} that it had for itself.")
                return 1
    print(f"FLAKY, each to be mended: failed once among all tests, passed {TIMES} times alone:", *failed, sep="\n  ")
    return 0


if __name__ == "__main__":
    sys.exit(main())
