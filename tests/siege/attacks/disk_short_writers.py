"""32 MB a second from children that each write 60,000 bytes and are gone before anybody looks"""

from tests.siege.attack import Target, used_mb
from tests.siege.fortress import DISK_MB

SECONDS = 7.0
OVERSHOOT_MB = 64
COMMAND = r"""exec python3 - <<'END'
import os, signal, time
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
begun = time.time()
for parent in range(4):
    if os.fork() == 0:
        break
else:
    time.sleep(6)
    raise SystemExit
count = 0
while (now := time.time() - begun) < 5.5:
    count += 1
    if os.fork() == 0:
        try:
            file = os.open(f"/mnt/data/{parent}-{count}", os.O_WRONLY | os.O_CREAT)
            os.write(file, b"x" * 60000)
        finally:
            os._exit(0)
    if count * 60000 > now * 8e6:
        time.sleep(0.005)
END"""


def holds(target: Target) -> None:
    used = used_mb(target, target.container)
    assert used <= DISK_MB + OVERSHOOT_MB, f"{used} MiB were written at a limit of {DISK_MB} MiB"
