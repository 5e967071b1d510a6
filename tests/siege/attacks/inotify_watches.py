"""Fifty thousand directories, each of which the gateway would watch"""

from tests.siege.attack import Target

SECONDS = 7.0
MAKE = r"""exec python3 - <<'END'
import os
for top in range(100):
    for below in range(500):
        os.makedirs(f"/mnt/data/d{top}/{below}", exist_ok=True)
END"""


def attack(target: Target) -> None:
    target.run(MAKE)
    while True:
        target.run("mkdir -p /mnt/data/d0/0/new; echo x >> /mnt/data/d99/499/f")
