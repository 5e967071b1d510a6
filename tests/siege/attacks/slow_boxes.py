"""Two boxes whose files take long to look at, while a third of the same tenant writes past its limit at 32 MB/s"""

import sys
import time

from tests.siege.attack import Target, used_mb
from tests.siege.attacks.disk_short_writers import OVERSHOOT_MB
from tests.siege.fortress import DISK_MB

SECONDS = 11.0
GROWING = 2.0  # seconds until the boxes are slow
# What it leaves behind makes names for as long as the other box writes.
SLOW = r"""python3 - >/dev/null 2>&1 <<'END' &
import os, time
until = time.time() + 8
open("/mnt/data/f", "w").close()
number, worker = 0, os.fork()
while time.time() < until:
    number += 1
    where = f"/mnt/data/{bool(worker)}-{number % 400}"
    os.makedirs(where, exist_ok=True)
    try:
        os.link("/mnt/data/f", f"{where}/{number}")
    except OSError:  # a file can have 65,000 names
        open(f"{where}/{number}", "w").close()
END"""
WRITE = r"""exec python3 - <<'END'
import os, time
begun, written = time.time(), 0
while time.time() < begun + 5.5:
    with open(f"/mnt/data/{written}", "wb") as file:
        file.write(bytes(1000000))
    written += 1000000
    time.sleep(max(0.0, written / 32e6 - (time.time() - begun)))
END"""


def attack(target: Target) -> None:
    for _ in range(2):
        status, slow = target.ask("POST", "/v1/containers", {"name": "slow"})
        assert status == 200, slow
        target.run(SLOW, container=slow["id"])
    time.sleep(GROWING)
    target.run(WRITE)
    sys.exit()


def holds(target: Target) -> None:
    used = used_mb(target, target.container)
    assert used <= DISK_MB + OVERSHOOT_MB, f"{used} MiB were written at a limit of {DISK_MB} MiB beside two slow boxes"
    assert used > DISK_MB / 4, f"only {used} MiB were written: the attack was none"
