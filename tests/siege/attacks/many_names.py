"""A million and a half of names for one file, and then another command"""

from tests.siege.attack import Target

SECONDS = 9.0
LINKS = r"""exec python3 - <<'END'
import os
open("/mnt/data/f", "w").close()
for worker in range(3):
    if os.fork() == 0:
        for directory in range(10):
            where = f"/mnt/data/{worker}-{directory}"
            os.mkdir(where)
            os.link("/mnt/data/f", where + "/f")
            for number in range(50_000):
                try:
                    os.link("/mnt/data/f", f"{where}/{number}")
                except OSError:  # a file can have 65,000 names
                    open(f"{where}/{number}", "w").close()
        os._exit(0)
for worker in range(3):
    os.wait()
END"""


def attack(target: Target) -> None:
    target.run(LINKS)  # as many as its time limit allows
    while True:
        target.run("touch again; ls /mnt/data | wc -l")
