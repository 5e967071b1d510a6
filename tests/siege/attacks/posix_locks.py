"""Locks on every other byte of a file: memory of the kernel that nobody counts"""

SECONDS = 5.0
COMMAND = r"""exec python3 - <<'END'
import fcntl, os, time
until = time.time() + 4
for worker in range(4):
    if os.fork() == 0:
        file = open(f"/mnt/data/l{worker}", "w+")
        at = 0
        while time.time() < until:
            fcntl.lockf(file, fcntl.LOCK_EX, 1, at)
            at += 2
        os._exit(0)
for worker in range(4):
    os.wait()
END"""
