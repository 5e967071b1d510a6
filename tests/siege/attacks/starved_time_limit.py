"""A box that keeps its processors and its scheduler as busy as it can, while its command has a time limit"""

import sys
import time

from tests.siege.attack import Target, TooSlow
from tests.siege.fortress import COMMAND_SECONDS

SECONDS = 12.0
LATE = 5.0  # seconds
BUSY = r"""exec python3 - <<'END'
import os, signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
for worker in range(60):
    if os.fork() == 0:
        while True:
            pid = os.fork()
            if pid == 0:
                os._exit(0)
            os.waitpid(pid, 0)
while True:
    pass
END"""


def attack(target: Target) -> None:
    begun = time.monotonic()
    try:
        status, answer = target.run(BUSY, timeout=SECONDS)
    except TimeoutError:
        status, answer = 0, "nothing"
    took = time.monotonic() - begun
    if status == 0 or took > COMMAND_SECONDS + LATE:
        raise TooSlow(f"after {took:.0f} s with a time limit of {COMMAND_SECONDS} s the answer was {status}")
    assert status == 200, f"a command whose time was up was answered {status} {str(answer)[:200]}"
    sys.exit()
